"""Networks written in this repository, by name: small enough to train on a CPU, published where a paper has them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.models.architectures.base import Architecture, architectures
from gauntlet.models.architectures.detector import Detector, WrappedDetector, detectors
from gauntlet.own_code import PREFIX, find_callable
from gauntlet.registry import Registry

__all__ = [
    "NET",
    "Architecture",
    "Detector",
    "WrappedDetector",
    "architectures",
    "build",
    "build_detector",
    "build_network",
    "detectors",
    "load_published",
    "names",
]

NET = "net:"
"""What stands before the name of a published network."""
Network = TypeVar("Network", Architecture, Detector)

architectures.add("cgnet", f"{__name__}.cgnet:CGNet")
architectures.add("enet", f"{__name__}.enet:ENet")
architectures.add("espnet", f"{__name__}.espnet:ESPNet")
architectures.add("pspnet", f"{__name__}.pspnet:PSPNet")
architectures.add("published", f"{__name__}.published.network:PublishedNetwork")
architectures.add("segformer", f"{__name__}.segformer:SegFormer")
detectors.add("detr", f"{__name__}.detr:DETR")
detectors.add("faster-rcnn", f"{__name__}.faster_rcnn:FasterRCNN")
detectors.add("fcos", f"{__name__}.fcos:FCOS")


def names() -> list[str]:
    """Every segmentation network there is; `detectors.names()` has the detection networks."""
    return architectures.names()


def build(name: str, num_classes: int, **options: Any) -> Architecture:
    """A segmentation network with fresh weights, in train mode.

    Args:
        name: one of `names()`.
        num_classes: number of logits per pixel.
        options: of that network.
    """
    return _construct(architectures, name, num_classes, options)


def build_network(name: str, num_classes: int, options: Mapping[str, Any], folders: Sequence[str] = ()) -> nn.Module:
    """A segmentation network of ours or of the user's own, with fresh weights, in train mode.

    Args:
        name: one of `names()`, "net:NAME" for a published network, or "python:module:callable" for what a callable
            makes.
        num_classes: number of logits per pixel; a callable gets it where it names it.
        options: of that network.
        folders: where the user's module may lie besides the working folder.
    """
    if name.startswith(NET):
        return build("published", num_classes, **{**options, "network": name.removeprefix(NET)})
    if not name.startswith(PREFIX):
        return build(name, num_classes, **options)
    function = find_callable(name.removeprefix(PREFIX), folders)
    arguments = dict(options)
    if "num_classes" in inspect.signature(function).parameters:
        arguments.setdefault("num_classes", num_classes)
    try:
        network = function(**arguments)
    except TypeError as error:
        raise GauntletError(f"the network '{name}' cannot be made with these options: {error}.") from None
    if not isinstance(network, nn.Module):
        raise GauntletError(f"the network '{name}' is a {type(network).__name__}; expected a torch module.")
    return network.train().requires_grad_(True)


def build_detector(name: str, num_classes: int, **options: Any) -> Detector:
    """A detection network with fresh weights, in train mode.

    Args:
        name: one of `detectors.names()`.
        num_classes: number of object classes.
        options: of that network.
    """
    return _construct(detectors, name, num_classes, options)


def _construct(registry: Registry[type[Network]], name: str, num_classes: int, options: Mapping[str, Any]) -> Network:
    if num_classes < 1:
        raise GauntletError(f"num_classes must be at least 1, not {num_classes}.")
    constructor = registry[name]
    try:
        return constructor(num_classes, **options)
    except TypeError as error:
        raise GauntletError(f"the {registry.kind} '{name}' does not take these options: {error}.") from None


def load_published(module: Architecture, state: Mapping[str, torch.Tensor]) -> None:
    """Fills a network from the state dict its authors published, or from one of ours.

    Args:
        module: from `build`, with the number of logits of the weights.
        state: names to tensors; a "module." prefix of data-parallel training is dropped.
    """
    plain = {name.removeprefix("module."): value for name, value in state.items()}
    renamed = module.rename_published(plain)
    try:
        # Counters of old batch norms are missing in files written before PyTorch 0.4.1; nothing reads them here.
        missing, unexpected = module.load_state_dict(renamed, strict=False)
    except RuntimeError as error:
        first_line = str(error).splitlines()[-1].strip()
        raise GauntletError(f"the weights do not fit {type(module).__name__}: {first_line}") from None
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        example = (missing or unexpected)[0]
        raise GauntletError(
            f"the weights do not fit {type(module).__name__}: {len(missing)} tensors are missing and "
            f"{len(unexpected)} are unknown, '{example}' for one."
        )
