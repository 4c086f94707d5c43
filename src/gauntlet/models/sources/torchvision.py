"""torchvision: FCN, DeepLabV3 and LRASPP, with torchvision's published weights or a file of one's own.

Its detectors are found here too; `torchvision_detection` has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.contract import GauntletModel
from gauntlet.models.sources import torchvision_detection
from gauntlet.models.sources.adapting import OPTIONS, Adapter, Picked, check_options, require
from gauntlet.models.sources.contract import ModelSource
from gauntlet.models.sources.torchvision_weights import OwnWeights, PublishedWeights
from gauntlet.models.sources.weights import fill, read_state, weights_path

# What torchvision's segmentation weights were trained with, and weights of one's own unless mean and std say other.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class PublishedModel(PublishedWeights):
    """A segmentation network with weights that torchvision publishes."""

    def load(self) -> GauntletModel:
        transforms = self.weights.transforms()
        categories = self.weights.meta["categories"]
        adapter = Adapter(len(categories), mean=transforms.mean, std=transforms.std, class_names=categories)
        network = _build(self.network, len(categories), self.state())
        return adapter.overruled(self.options).wrap(network, self.identity)


class OwnModel(OwnWeights):
    """A segmentation network with weights from a file."""

    def load(self) -> GauntletModel:
        state = read_state(self.path, trust=bool(self.options.get("trust")))
        outputs = _count_outputs(state, self.path)
        network = _build(self.network, outputs, state, self.path)
        return Adapter(outputs, mean=_MEAN, std=_STD).overruled(self.options).wrap(network, self.identity)


def source(name: str, options: Mapping[str, Any]) -> ModelSource:
    """torchvision:NAME; weights is a file, the name of published weights, or nothing for the best published ones."""
    torchvision = require("torchvision", "torchvision")
    segmenting, detecting = (
        torchvision.models.list_models(module=module)
        for module in (torchvision.models.segmentation, torchvision.models.detection)
    )
    if name not in (*segmenting, *detecting):
        raise unknown_name("torchvision segmentation model or detector", name, [*segmenting, *detecting])
    weights = _weights(torchvision, name, options.get("weights") or "DEFAULT")
    if name in detecting:
        return torchvision_detection.source(name, options, weights)
    check_options(f"torchvision:{name}", options, (*OPTIONS, "weights", "trust"))
    return (OwnModel if isinstance(weights, Path) else PublishedModel)(name, weights, dict(options))


def _weights(torchvision: Any, name: str, wanted: Any) -> Any:
    """A file, or a member of what torchvision publishes for a network."""
    published = torchvision.models.get_model_weights(name)
    if wanted == "DEFAULT":
        return published.DEFAULT
    if wanted in published.__members__:
        return published[wanted]
    return weights_path(f"torchvision:{name}", wanted)


def _build(
    name: str, outputs: int, state: Mapping[str, torch.Tensor], path: Path | str = "from torchvision"
) -> nn.Module:
    """The network with its weights; with the auxiliary head only where the weights have one."""
    torchvision = require("torchvision", "torchvision")
    auxiliary = {"aux_loss": any("aux_classifier." in key for key in state)} if not name.startswith("lraspp") else {}
    network = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=outputs, **auxiliary)
    fill(network, state, Path(path))
    return Picked(network, lambda output: output["out"])


def _count_outputs(state: Mapping[str, torch.Tensor], path: Path) -> int:
    """How many outputs the main head has: the size of the last bias of the classifier."""
    biases = [
        value for key, value in state.items() if "classifier." in key and "aux_" not in key and key.endswith("bias")
    ]
    if not biases:
        raise GauntletError(f"the weights {path} are not of a torchvision segmentation model: they have no classifier.")
    return len(biases[-1])
