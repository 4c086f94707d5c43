"""What mmseg: and mmdet: share: a configuration and a checkpoint become a network of OpenMMLab's, without a word.

A configuration is Python code and a checkpoint a pickle, so both need trust=True. Networks are built by the library's
own registry. The checkpoint is read by torch, with all that mmengine's training loop writes into one (its message hub,
buffers of its log, numbers of NumPy): mmengine itself would read tensors only and refuse the rest.
"""

from __future__ import annotations

import importlib
import io
import logging
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gauntlet.errors import GauntletError, first_line
from gauntlet.models.code_identity import code_of_packages, joined_codes
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.adapting import digested
from gauntlet.models.sources.config_code import code_of_config
from gauntlet.models.sources.contract import ModelSource, file_digest
from gauntlet.models.sources.fetching import fetched, is_web_address

PACKAGES = {"mmseg": "mmsegmentation", "mmdet": "mmdet"}
"""The package that has a library's module."""
PLACES = ("weights", "checkpoint", "checkpoints", "trust")
"""Options that say where the checkpoint is and that its code may run."""
# Buffers that training fills.
_STATISTICS = ("running_mean", "running_var")
# Only training reads these.
_TRAINING_ONLY = ("auxiliary_head.",)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenMMLabSource(ModelSource):
    """A configuration (a file, or the name of one in the package) and a checkpoint (a file or a web address).

    Attributes:
        library: "mmseg" or "mmdet".
        config, checkpoint: what the user said.
        options: of the user.
    """

    library: str
    config: str
    checkpoint: str
    options: Mapping[str, Any]

    @cached_property
    def identity(self) -> ModelIdentity:
        name = config_name(self.config)
        settings = {key: value for key, value in digested(self.options).items() if key != "checkpoints"}
        settings |= {"config": name}
        file = self._local()
        if file is not None:
            files = [*([Path(self.config)] if Path(self.config).is_file() else []), file]
            digest = file_digest(files, settings)
        else:
            # OpenMMLab's addresses end in a digest of the file.
            digest = file_digest([], settings | {"checkpoint": self.checkpoint})
        return ModelIdentity(self.options.get("name") or name, digest, code=self._code())

    def _code(self) -> str:
        """Digest of the packages, and of a configuration of one's own with all that it takes from other files."""
        packages = code_of_packages(PACKAGES[self.library], "mmengine", "mmcv")
        config = Path(self.config).expanduser()
        return joined_codes([packages, code_of_config(config)]) if config.is_file() else packages

    @property
    def origin(self) -> Mapping[str, Any]:
        given = {name: value for name, value in self.options.items() if value is not None and name != "weights"}
        return {"address": f"{self.library}:{self.config}", "options": {**given, "checkpoint": self.checkpoint}}

    def _local(self) -> Path | None:
        """The checkpoint where it is a file, not one that is fetched."""
        path, folder = Path(self.checkpoint).expanduser(), self.options.get("checkpoints")
        if folder is None or path.is_file():
            return path if path.is_file() else None
        return find_checkpoint(Path(folder), self.checkpoint)

    def build(self) -> Built:
        """The network with the weights of the checkpoint, in eval mode on the CPU, and what goes with it."""
        config = self.read_config()
        checkpoint = self._checkpoint_file()
        with self._told():
            from mmengine.model import revert_sync_batchnorm
            from mmengine.registry import MODELS, init_default_scope

            init_default_scope(config.get("default_scope", self.library))
            network: nn.Module = revert_sync_batchnorm(MODELS.build(config.model))
        content = read_checkpoint(checkpoint)
        self._fill(network, content, checkpoint)
        built = Built(network.eval(), config, class_names(content) or config_class_names(self.library, config))
        self.finish(built)
        return built

    def read_config(self) -> Any:
        """The configuration (mmengine's Config), with the packages that it asks for; an error where it is of no use."""
        require(self.library)
        path = config_file(self.library, self.config)
        with self._told():
            from mmengine.config import Config

            config = Config.fromfile(str(path))
        self.check(config)
        return config

    def check(self, config: Any) -> None:
        """An error for a configuration that cannot be used, before anything is built."""

    def finish(self, built: Built) -> None:
        """Takes off the network what is not used."""

    def _checkpoint_file(self) -> Path:
        local = self._local()
        if local is not None:
            return local
        if is_web_address(self.checkpoint):
            return fetched(self.checkpoint)
        raise GauntletError(f"there is no file {self.checkpoint}; the checkpoint of {self.config} is expected there.")

    def _fill(self, network: nn.Module, content: Mapping[str, Any], path: Path) -> None:
        given = content["state_dict"]
        state = OrderedDict((name.removeprefix("module."), value) for name, value in given.items())
        # The versions of its layers, by which some rename their tensors.
        state._metadata = getattr(given, "_metadata", OrderedDict())  # type: ignore[attr-defined]
        try:
            with _quiet():
                outcome = network.load_state_dict(state, strict=False)
        except RuntimeError as error:  # shapes that do not fit, one a line below the first
            reason = str(error).strip().splitlines()[-1].strip().rstrip(".")
            raise GauntletError(f"the checkpoint {path} is not of {self.config}: {reason}.") from None
        # Other buffers are constants, which the network has made by itself.
        learned = {name for name, _ in network.named_parameters()}
        missing = [
            name
            for name in outcome.missing_keys
            if (name in learned or name.endswith(_STATISTICS)) and not name.startswith(_TRAINING_ONLY)
        ]
        if missing:
            raise GauntletError(
                f"the checkpoint {path} is not of {self.config}: {len(missing)} tensors are missing, '{missing[0]}' "
                "for one."
            )
        if outcome.unexpected_keys:
            _log.info("%s: tensors that %s has no place for: %s", path, self.config, ", ".join(outcome.unexpected_keys))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What the library says goes to the log, what it raises becomes one sentence."""
        try:
            with _quiet():
                yield
        # OpenMMLab raises whatever its registries and its configuration code raise.
        except Exception as error:
            reason = _reason(error)
            raise GauntletError(
                f"{self.library} could not load {self.config} with {self.checkpoint}: {reason}"
            ) from error


@dataclass(frozen=True)
class Built:
    """A network, its configuration (mmengine's Config) and the names of its classes where anything says them."""

    network: Any
    config: Any
    class_names: tuple[str, ...] | None


class _ToLog(io.TextIOBase):
    """A standard output that writes to the log; mmengine's loggers may keep it."""

    def write(self, text: str) -> int:
        if text.strip():
            _log.info(text.rstrip())
        return len(text)


def _reason(error: BaseException) -> str:
    """What went wrong at first, as a sentence: mmengine wraps a missing module in errors that list Python's path."""
    while isinstance(error, ImportError) and isinstance(inner := error.__cause__ or error.__context__, ImportError):
        error = inner
    return first_line(error)


@contextmanager
def _quiet() -> Iterator[None]:
    """What is printed and warned of goes to the log."""
    with redirect_stdout(_ToLog()), warnings.catch_warnings(record=True) as warned:
        yield
    for warning in warned:
        _log.info(str(warning.message))


def check_places(address: str, options: Mapping[str, Any]) -> str:
    """The checkpoint that the options name; an error where they name none, or do not trust it."""
    checkpoint = options.get("weights") or options.get("checkpoint")
    if checkpoint is None:
        raise GauntletError(f"{address} needs its checkpoint: weights='PATH or URL', on the command line --weights.")
    if not options.get("trust"):
        raise GauntletError(
            f"{address} is Python code and its checkpoint a pickle, and both would run here; pass trust=True (--trust) "
            "if you trust where they come from."
        )
    folder = options.get("checkpoints")
    if folder is not None and not Path(folder).is_dir():
        raise GauntletError(f"there is no folder {folder}; checkpoints names the folder with OpenMMLab's files.")
    return str(checkpoint)


def require(library: str) -> Any:
    """The library, imported now; one sentence where it is not there."""
    try:
        with _quiet():
            importlib.import_module(f"{library}.apis")
            return importlib.import_module(library)
    # mmcv and its users compare versions with `assert`.
    except (ImportError, AssertionError) as error:
        raise GauntletError(
            f"{library}: runs in an OpenMMLab environment of yours, but {library} cannot be imported here ({error}); "
            f"install {PACKAGES[library]} with its mmengine and mmcv, and vision-gauntlet beside it."
        ) from None


def config_name(config: str) -> str:
    """The name of a configuration: its file's, without the ending .py; other dots belong to it."""
    return Path(config).name.removesuffix(".py")


def config_file(library: str, config: str) -> Path:
    """A configuration by its path, or by its name among those that come with the package."""
    path = Path(config).expanduser()
    if path.is_file():
        return path
    folder = Path(importlib.import_module(library).__file__ or "").parent / ".mim" / "configs"
    packaged = _packaged(folder).get(config_name(config))
    if packaged is None:
        raise GauntletError(
            f"there is no configuration file {config}, and none of that name among those of {library} in {folder}; "
            "give the path of the file."
        )
    return packaged


@lru_cache(maxsize=2)
def _packaged(folder: Path) -> dict[str, Path]:
    """The configurations of a package by their names; of two with one name, the first."""
    return {config_name(path.name): path for path in sorted(folder.rglob("*.py"), reverse=True)}


def find_checkpoint(folder: Path, address: str) -> Path:
    """The file of a web address in a folder of checkpoints or below it; a sentence that says what is missing.

    Args:
        folder: of checkpoints.
        address: of the file; of one that is nowhere on the web, its name.
    """
    name = address.rsplit("/", 1)[-1]
    found = next((path for path in sorted(folder.rglob(name)) if path.is_file()), None)
    if found is None:
        where = f"it is at {address}" if is_web_address(address) else "put yours there under that name, none is public"
        raise GauntletError(f"there is no {name} in {folder}; {where}.")
    return found


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What a trusted checkpoint holds: `state_dict`, and mostly `meta`; a plain state dict is one without the rest."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=False)  # nosec B614 # only with trust
    # Damaged files end in one of many errors of zip files and pickles.
    except Exception as error:
        raise GauntletError(f"the checkpoint {path} cannot be read: {first_line(error)}") from None
    if not isinstance(content, Mapping):
        raise GauntletError(f"the checkpoint {path} holds a {type(content).__name__}; expected a state dict.")
    if isinstance(content.get("state_dict"), Mapping):
        return dict(content)
    if not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise GauntletError(f"the checkpoint {path} has no state_dict; it has {', '.join(map(str, content))}.")
    return {"state_dict": content}


def class_names(content: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The class names that a checkpoint holds: OpenMMLab has called them `classes` and `CLASSES`."""
    meta = content.get("meta") or {}
    dataset = {key.lower(): value for key, value in (meta.get("dataset_meta") or {}).items()}
    return _names(dataset.get("classes") or meta.get("CLASSES"))


def config_class_names(library: str, config: Any) -> tuple[str, ...] | None:
    """The class names of the dataset that a configuration tests on."""
    dataset = (config.get("test_dataloader") or {}).get("dataset") or {}
    while "dataset" in dataset:
        dataset = dataset["dataset"]
    names = (dataset.get("metainfo") or {}).get("classes")
    if names is None and isinstance(dataset.get("type"), str):
        kind = importlib.import_module(f"{library}.registry").DATASETS.get(dataset["type"])
        names = getattr(kind, "METAINFO", {}).get("classes")
    return _names(names)


def _names(names: Any) -> tuple[str, ...] | None:
    if not names:
        return None
    return (names,) if isinstance(names, str) else tuple(str(name) for name in names)


def channel_settings(preprocessor: Any) -> tuple[list[float], list[float], str]:
    """Mean and standard deviation on the [0, 1] scale and the order of channels that a data preprocessor makes."""
    # Images come as OpenCV reads them, blue first; the preprocessor swaps them for networks trained on RGB.
    swaps = getattr(preprocessor, "channel_conversion", getattr(preprocessor, "_channel_conversion", False))
    mean, std = (getattr(preprocessor, name, None) for name in ("mean", "std"))
    return levels(mean, 0.0), levels(std, 1.0), "RGB" if swaps else "BGR"


def levels(values: Sequence[float] | torch.Tensor | None, otherwise: float) -> list[float]:
    """Grey levels 0..255 on the [0, 1] scale, for each of three channels."""
    if values is None:
        return [otherwise / 255] * 3
    return [float(value) / 255 for value in torch.as_tensor(values).flatten().tolist()]
