"""smp: segmentation_models_pytorch: an architecture with an encoder and a file of weights, or a folder of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from gauntlet.errors import GauntletError, first_line
from gauntlet.models.code_identity import code_of_packages
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.models.sources.adapting import (
    OPTIONS,
    Adapter,
    check_options,
    checkpoint_identity,
    digested,
    require,
)
from gauntlet.models.sources.contract import ModelSource, file_digest
from gauntlet.models.sources.weights import fill, read_state, weights_path

_PACKAGE = "segmentation_models_pytorch"


@dataclass(frozen=True)
class WeightsModel(ModelSource):
    """An architecture, an encoder and a file of weights: smp:unet/resnet34."""

    architecture: str
    encoder: str
    path: Path
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        name = f"{self.architecture}/{self.encoder}"
        settings = digested(self.options) | {"network": name}
        called = self.options.get("name") or f"{name} {self.path.stem}"
        return ModelIdentity(called, file_digest([self.path], settings), code=_code())

    def load(self) -> GauntletModel:
        smp = require(_PACKAGE, "smp")
        address = f"smp:{self.architecture}/{self.encoder}"
        if "num_classes" not in self.options:
            raise GauntletError(f"{address} needs num_classes, the number of the network's outputs.")
        outputs = int(self.options["num_classes"])
        try:
            network = smp.create_model(
                self.architecture,
                encoder_name=self.encoder,
                encoder_weights=None,
                classes=outputs,
                **self.options.get("architecture", {}),
            )
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise GauntletError(f"{address} cannot be built: {first_line(error)}") from None
        fill(network, read_state(self.path, trust=bool(self.options.get("trust"))), self.path)
        return _adapt(network, self.encoder, outputs, self.options, self.identity)


@dataclass(frozen=True)
class SavedModel(ModelSource):
    """A folder that smp's save_pretrained wrote, or its like on the Hugging Face hub: smp:FOLDER, smp:OWNER/NAME."""

    location: str
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        return checkpoint_identity(self.location, self.options, self._commit, _code())

    def load(self) -> GauntletModel:
        smp = require(_PACKAGE, "smp")
        try:
            network = smp.from_pretrained(self.location, revision=self.options.get("revision"), map_location="cpu")
        # The library and the hub raise errors of a dozen types; all mean the same to the user.
        except Exception as error:
            raise self._unreachable(error) from error
        return _adapt(network, _encoder_name(network), _count_outputs(network), self.options, self.identity)

    def _commit(self) -> str:
        """The commit that the revision stands for, found by fetching the small configuration only."""
        hub = require("huggingface_hub", "smp")
        try:
            path = Path(hub.hf_hub_download(self.location, "config.json", revision=self.options.get("revision")))
        except Exception as error:
            raise self._unreachable(error) from error
        # .../snapshots/COMMIT/config.json
        return path.parent.name

    def _unreachable(self, error: Exception) -> GauntletError:
        return GauntletError(
            f"smp:{self.location} is neither ARCHITECTURE/ENCODER (with weights) nor a folder that save_pretrained "
            f"wrote, and could not be fetched from the Hugging Face hub: {first_line(error)}"
        )


def source(name: str, options: Mapping[str, Any]) -> ModelSource:
    """smp:ARCHITECTURE/ENCODER with weights and num_classes, smp:FOLDER or smp:OWNER/NAME.

    `architecture` in the options goes to the network's constructor (decoder_channels and the like).
    """
    check_options(f"smp:{name}", options, (*OPTIONS, "weights", "architecture", "revision", "trust"))
    smp = require(_PACKAGE, "smp")
    folder = Path(name).expanduser()
    if folder.is_dir():
        return SavedModel(str(folder), dict(options))
    architecture, _, encoder = name.partition("/")
    if architecture.lower() not in _architectures(smp):
        if "weights" in options:
            known = ", ".join(_architectures(smp))
            raise GauntletError(f"smp:{name} must be ARCHITECTURE/ENCODER, as in smp:unet/resnet34; known: {known}.")
        return SavedModel(name, dict(options))
    if not encoder:
        raise GauntletError(f"smp:{name} must also name an encoder, as in smp:{name}/resnet34.")
    path = weights_path(f"smp:{name}", options.get("weights"))
    return WeightsModel(architecture.lower(), _encoder(smp, encoder), path, dict(options))


def _code() -> str:
    """Digest of the library and of the one that most of its encoders are from."""
    return code_of_packages(_PACKAGE, "timm")


def _architectures(smp: Any) -> list[str]:
    return list(smp.MODEL_ARCHITECTURES_MAPPING)


def _encoder(smp: Any, name: str) -> str:
    """The library's name of an encoder; those of timm may be written without its prefix "tu-"."""
    return name if name in smp.encoders.get_encoder_names() or name.startswith("tu-") else f"tu-{name}"


def _adapt(
    network: nn.Module, encoder: str, outputs: int, options: Mapping[str, Any], identity: ModelIdentity
) -> GauntletModel:
    mean, std, order = _preprocessing(encoder, options)
    # The library pads nothing itself: the deepest feature map needs whole pixels.
    stride = int(getattr(network.encoder, "output_stride", 32))
    adapter = Adapter(outputs, mean=mean, std=std, channel_order=order, stride=max(stride, 32))
    return adapter.overruled(options).wrap(network, identity)


def _preprocessing(encoder: str, options: Mapping[str, Any]) -> tuple[list[float], list[float], str]:
    """Mean, deviation (on the [0, 1] scale) and channel order of the encoder's usual weights, by the library."""
    if "mean" in options and "std" in options:
        return [0.0] * 3, [1.0] * 3, "RGB"
    smp = require(_PACKAGE, "smp")
    try:
        known = smp.encoders.get_preprocessing_params(encoder)
    # The library reads this from the Hugging Face hub, for all encoders but timm's.
    except Exception as error:
        raise GauntletError(
            f"how images are normalised for the encoder '{encoder}' could not be found out "
            f"({first_line(error)[:-1]}); give mean and std."
        ) from None
    scale = float(known["input_range"][1])
    return [value / scale for value in known["mean"]], [value / scale for value in known["std"]], known["input_space"]


def _encoder_name(network: nn.Module) -> str:
    config: Mapping[str, Any] = getattr(network, "config", None) or {}
    return str(config.get("encoder_name", "resnet34"))


def _count_outputs(network: nn.Module) -> int:
    head: Any = network.segmentation_head
    return int(next(layer.out_channels for layer in head.modules() if isinstance(layer, nn.Conv2d)))
