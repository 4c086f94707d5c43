"""From a library's network to a Gauntlet model: what the library says about it, overruled by what the user says."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.extras import FITTING_TORCHVISION, install_command, torchvision_fault
from gauntlet.models.code_identity import code_of_files, joined_codes
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.network_outputs import TwoClasses, check_binary_classes, logits_of
from gauntlet.models.sources.contract import file_digest
from gauntlet.models.sources.option_values import check_values
from gauntlet.models.wrapping import Normalisation, WrappedSegmentation

WRAPPED = ("num_classes", "mean", "std", "channel_order", "class_names", "ignore_index", "stride")
"""Options of `wrap_model` that say what the network takes and gives."""
OPTIONS = (
    *WRAPPED,
    "input_size",
    "outputs",
    "binary",
    "reduce_zero_label",
    "name",
)
"""Options that every source of networks takes: the fields of `Adapter`, reduce_zero_label, and a name for results."""

# What says where the model is and whether to trust it, not what it computes.
_NOT_IN_DIGEST = ("name", "trust", "weights")


@dataclass(frozen=True)
class Adapter:
    """What stands between images in [0, 1] and a network, and between its output and logits per class.

    Attributes:
        num_classes: K, without the outputs that are dropped.
        mean, std: on the [0, 1] scale, in `channel_order`.
        channel_order: "RGB" or "BGR", what the network takes.
        class_names: K names, or None.
        ignore_index: the label that counts for nothing.
        stride: height and width are padded to multiples of it, and the logits cropped back.
        input_size: (height, width) that images are resized to; None for any size.
        resampling: "bilinear" or "bicubic", for `input_size`; averages where an image shrinks.
        outputs: which outputs of the network are the K classes, in the order of the dataset; None for the first K.
        binary: for a network with one output per pixel: see `wrap_model`.
    """

    num_classes: int
    mean: Sequence[float] = (0.0, 0.0, 0.0)
    std: Sequence[float] = (1.0, 1.0, 1.0)
    channel_order: str = "RGB"
    class_names: Sequence[str] | None = None
    ignore_index: int | None = 255
    stride: int = 1
    input_size: tuple[int, int] | None = None
    resampling: str = "bilinear"
    outputs: Sequence[int] | None = None
    binary: bool | str = False

    def overruled(self, options: Mapping[str, Any]) -> Adapter:
        """With the user's options (`OPTIONS`) in place of the library's settings."""
        given = {name: options[name] for name in OPTIONS if name in options and name in self.__dataclass_fields__}
        if given.get("binary"):
            check_binary_classes(given.get("num_classes"))
            names = given.get("class_names")
            return replace(self, **{**given, "num_classes": 2, "class_names": names})
        adapter = replace(self, **given)
        outputs = given.get("outputs")
        if options.get("reduce_zero_label"):
            if outputs is not None:
                raise GauntletError("give either outputs or reduce_zero_label, not both.")
            outputs = range(1, self.num_classes)
        if outputs is not None:
            return replace(adapter, **self._selected([int(output) for output in outputs], given))
        if "num_classes" in given and "class_names" not in given and self.class_names is not None:
            names = self.class_names[: adapter.num_classes]
            adapter = replace(adapter, class_names=names if len(names) == adapter.num_classes else None)
        return adapter

    def _selected(self, outputs: Sequence[int], given: Mapping[str, Any]) -> dict[str, Any]:
        wrong = [output for output in outputs if not 0 <= output < self.num_classes]
        if wrong or not outputs:
            raise GauntletError(
                f"outputs must be among the network's 0 to {self.num_classes - 1}, not {wrong[0] if wrong else 'none'}."
            )
        if given.get("num_classes", len(outputs)) != len(outputs):
            raise GauntletError(f"num_classes is {given['num_classes']}, but {len(outputs)} outputs are chosen.")
        names = given.get("class_names")
        if names is None and self.class_names is not None:
            names = [self.class_names[output] for output in outputs]
        return {"num_classes": len(outputs), "class_names": names, "outputs": outputs}

    def around(self, network: nn.Module) -> nn.Module:
        """The network with images resized on the way in and outputs chosen on the way out, where that is asked for."""
        module = network
        if self.input_size is not None:
            module = ResizedInput(module, self)
        if self.outputs is not None:
            module = ChosenOutputs(module, self.outputs)
        return TwoClasses(module, self.binary) if self.binary else module

    def wrap(self, network: nn.Module, identity: ModelIdentity) -> WrappedSegmentation:
        """The network, from normalised images to a tensor of logits at any resolution, as a frozen model."""
        model = WrappedSegmentation(
            self.around(network),
            num_classes=self.num_classes,
            normalisation=Normalisation(self.mean, self.std, self.channel_order),
            class_names=self.class_names,
            ignore_index=self.ignore_index,
            stride=self.stride,
            identity=identity,
        )
        model.freeze()
        return model


class Picked(nn.Module):
    """A network whose output is a library's own kind of object: what `pick` takes out of it."""

    def __init__(self, network: nn.Module, pick: Callable[[Any], torch.Tensor]) -> None:
        super().__init__()
        self.network = network
        self.pick = pick

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.pick(self.network(images))


class ResizedInput(nn.Module):
    """A network that takes one size only: the image is resized to it; its logits are left as they come.

    Works on normalised images. Resizing is linear and keeps constants, so it may come after the normalisation; what
    bicubic resampling throws beyond black and white is cut off there, as it is in an image.
    """

    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, network: nn.Module, adapter: Adapter) -> None:
        super().__init__()
        self.network = network
        self.size = read_size(adapter.input_size)
        self.mode = adapter.resampling
        mean, std = (
            torch.tensor(values, dtype=torch.float32).view(1, 3, 1, 1) for values in (adapter.mean, adapter.std)
        )
        self.register_buffer("low", (0 - mean) / std, persistent=False)
        self.register_buffer("high", (1 - mean) / std, persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if tuple(images.shape[-2:]) != self.size:
            images = functional.interpolate(images, self.size, mode=self.mode, align_corners=False, antialias=True)
            images = torch.minimum(torch.maximum(images, self.low), self.high)
        logits: torch.Tensor = self.network(images)
        return logits


class ChosenOutputs(nn.Module):
    """Some outputs of a network, in another order: a label map from the network's classes to the dataset's."""

    def __init__(self, network: nn.Module, outputs: Sequence[int]) -> None:
        super().__init__()
        self.network = network
        self.outputs = list(outputs)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = logits_of(self.network(images))
        if max(self.outputs) >= logits.shape[1]:
            raise GauntletError(
                f"outputs must be among the network's 0 to {logits.shape[1] - 1}, not {max(self.outputs)}."
            )
        return logits[:, self.outputs]


def check_options(address: str, options: Iterable[str], accepted: Sequence[str]) -> None:
    """An error with suggestions for an option that a source does not take."""
    for option in options:
        if option not in accepted:
            raise unknown_name(f"option of the model '{address}'", option, accepted)
    if isinstance(options, Mapping):
        check_values(address, options)


def digested(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that change what the model computes, for its identity."""
    return {name: value for name, value in options.items() if name not in _NOT_IN_DIGEST}


def require(package: str, prefix: str) -> Any:
    """An optional package, imported now; one sentence where it is missing, or where another one breaks it."""
    fault = torchvision_fault()
    if fault is not None:
        other = _WITHOUT_TORCHVISION.get(prefix, "export the model to TorchScript and use script:")
        raise GauntletError(
            f"models with '{prefix}:' cannot be loaded, since {fault}; install the torchvision that fits "
            f"({FITTING_TORCHVISION}), or {other}."
        )
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise GauntletError(
            f"models with '{prefix}:' need the package '{package}' ({error}); install it with {install_command('zoo')}."
        ) from None


_WITHOUT_TORCHVISION = {"hf": "remove it (pip uninstall torchvision), since segmentation models of hf: do not need it"}
"""The other way out of a broken torchvision, by prefix."""


def read_size(given: Any) -> tuple[int, int]:
    """A height and a width from what the user gave as input_size."""
    try:
        height, width = (int(side) for side in given)
    except (TypeError, ValueError):
        raise GauntletError(f"input_size must be a height and a width in pixels, not {given!r}.") from None
    if height < 1 or width < 1:
        raise GauntletError(f"input_size must be at least 1x1, not {height}x{width}.")
    return height, width


def checkpoint_identity(
    location: str, options: Mapping[str, Any], commit: Callable[[], str | None], code: str, also: Sequence[str] = ()
) -> ModelIdentity:
    """What a checkpoint in a folder or on the Hugging Face hub is called, with its digest.

    Args:
        location: a folder, or "owner/name" on the hub.
        options: of the user.
        commit: asks the hub for the commit, not the branch: what "main" points to changes.
        code: digest of the library's code.
        also: files of a folder that count besides settings and weights.
    """
    folder = Path(location)
    settings = digested(options)
    if folder.is_dir():
        kinds = (".json", ".safetensors", ".bin")
        files = sorted(path for path in folder.iterdir() if path.suffix in kinds or path.name in also)
        code = joined_codes([code, code_of_files(own)]) if (own := sorted(folder.glob("*.py"))) else code
        return ModelIdentity(options.get("name") or folder.resolve().name, file_digest(files, settings), code=code)
    settings |= {"location": location, "revision": commit()}
    return ModelIdentity(options.get("name") or location, file_digest([], settings), code=code)
