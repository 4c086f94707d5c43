"""torchvision: Faster R-CNN, Mask R-CNN, RetinaNet, FCOS and SSD, with published weights or a file of one's own.

The network resizes and normalises inside, as torchvision has it, and its boxes come back in the image's pixels. Labels
that torchvision calls "N/A" or background are no classes; what is left has the order of COCO's 80.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.contract import Candidates, GauntletModel, ModelIdentity
from gauntlet.models.sources.adapting import require
from gauntlet.models.sources.contract import ModelSource
from gauntlet.models.sources.detecting import Labels, LibraryDetector
from gauntlet.models.sources.torchvision_weights import OwnWeights, PublishedWeights
from gauntlet.models.sources.weights import fill, read_state
from gauntlet.samples import Boxes

OPTIONS = ("num_classes", "outputs", "class_names", "mean", "std", "architecture", "weights", "name", "trust")

# Where the outputs of every label have their bias, and how many boxes at a place share it.
_BIASES = {
    "roi_heads.box_predictor.cls_score.bias": {"": 1},
    "head.classification_head.cls_logits.bias": {"fcos": 1, "retinanet": 9},
    "head.classification_head.module_list.0.bias": {"ssd": 4},
    "head.classification_head.module_list.0.1.bias": {"ssdlite": 6},
}
# Parts that only train or predict what has no boxes.
_BEYOND_BOXES = tuple(f"{kind}_{part}" for kind in ("mask", "keypoint") for part in ("roi_pool", "head", "predictor"))
# Numbers of COCO's categories, the background's and the gaps among them.
_COCO = 91
# The logit of a candidate that fills up a batch, in place of a class's.
_FILLER = -100.0


class PublishedDetector(PublishedWeights):
    """A detector with weights that torchvision publishes."""

    task = "detection"

    def load(self) -> GauntletModel:
        torchvision = require("torchvision", "torchvision")
        self.state()  # torchvision unpickles anything, but of a file that passed here
        network = torchvision.models.get_model(
            self.network, weights=self.weights, progress=False, **_architecture(self.options)
        )
        names = self.weights.meta["categories"]
        labels = Labels.of(f"torchvision:{self.network}", names, self.options)
        return _wrap(network, labels, len(names), self.identity)


class OwnDetector(OwnWeights):
    """A detector with weights from a file; its label 0 is the background, as torchvision's training has it.

    A file with as many labels as the published weights of the network has theirs: COCO's 91 numbers.
    """

    task = "detection"

    def load(self) -> GauntletModel:
        torchvision = require("torchvision", "torchvision")
        state = read_state(self.path, trust=bool(self.options.get("trust")))
        size = self._count_labels(state)
        try:
            network = torchvision.models.get_model(
                self.network, weights=None, weights_backbone=None, num_classes=size, **_architecture(self.options)
            )
        except (TypeError, ValueError) as error:
            raise GauntletError(f"torchvision:{self.network} cannot be built: {error}.") from None
        fill(network, state, self.path)
        names = torchvision.models.get_model_weights(self.network).DEFAULT.meta["categories"]
        known = size == len(names) == _COCO
        if not known:
            names = ["background", *(f"class {label - 1}" for label in range(1, size))]
        labels = Labels.of(f"torchvision:{self.network}", names, self.options, named=known)
        return _wrap(network, labels, size, self.identity)

    def _count_labels(self, state: Mapping[str, torch.Tensor]) -> int:
        for key, shares in _BIASES.items():
            matches = [value for name, value in state.items() if name.endswith(key)]
            for family, boxes in shares.items():
                if matches and self.network.split("_")[0].rstrip("0123456789").startswith(family):
                    return len(matches[0]) // boxes
        raise GauntletError(
            f"the weights {self.path} are not of torchvision:{self.network}: they have no outputs for classes."
        )


def source(name: str, options: Mapping[str, Any], weights: Any) -> ModelSource:
    """The source of a detector; `weights` is a file, or a member of torchvision's published weights."""
    for option in options:
        if option not in OPTIONS:
            raise unknown_name(f"option of the detector 'torchvision:{name}'", option, OPTIONS)
    kind = OwnDetector if isinstance(weights, Path) else PublishedDetector
    return kind(name, weights, dict(options))


class TorchvisionDetector(LibraryDetector):
    """A torchvision detector behind the contract."""

    def loss(self, image: torch.Tensor, boxes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with _losses_on(self.network):
            parts = self.network([image], [{"boxes": boxes, "labels": labels}])
        return torch.stack(list(parts.values())).sum()

    @torch.no_grad()
    def predict(self, images: torch.Tensor) -> list[Boxes]:
        return [self._found(each["boxes"], each["labels"], each["scores"]) for each in self.network(list(images))]

    def candidates(self, images: torch.Tensor) -> Candidates:
        """Class logits are those over the background's where the network has one."""
        batch, _ = self.network.transform(list(images))
        features = self.network.backbone(batch.tensors)
        if isinstance(features, torch.Tensor):
            features = {"0": features}
        find = self._proposed if hasattr(self.network, "roi_heads") else self._everywhere
        scores, boxes, objectness = find(batch, features)
        resized = torch.tensor(batch.image_sizes, dtype=images.dtype, device=images.device).flip(1).repeat(1, 2)
        size = torch.tensor(images.shape[-2:], dtype=images.dtype, device=images.device).flip(0).repeat(2)
        return Candidates(scores, boxes * (size / resized)[:, None], objectness)

    def _proposed(self, batch: Any, features: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Of a detector of two stages: its proposals, with the box of their best class."""
        heads = self.network.roi_heads
        proposals, _ = self.network.rpn(batch, features)
        pooled = heads.box_roi_pool(features, proposals, batch.image_sizes)
        logits, changes = heads.box_predictor(heads.box_head(pooled))
        scores = logits[:, self.outputs] - logits[:, :1]
        boxes = heads.box_coder.decode(changes, proposals)
        boxes = boxes[torch.arange(len(boxes)), self.outputs[scores.argmax(dim=1)]]
        counts = [len(each) for each in proposals]
        return (
            pad_sequence(scores.split(counts), batch_first=True, padding_value=_FILLER),
            pad_sequence(boxes.split(counts), batch_first=True),
            pad_sequence(scores.logsumexp(dim=1).split(counts), batch_first=True, padding_value=float("-inf")),
        )

    def _everywhere(self, batch: Any, features: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Of a detector of one stage: every anchor or place."""
        maps = list(features.values())
        raw = self.network.head(maps)
        anchors = self.network.anchor_generator(batch, maps)
        coder = self.network.box_coder
        decode = coder.decode_single if hasattr(coder, "decode_single") else coder.decode
        boxes = torch.stack([decode(*each) for each in zip(raw["bbox_regression"], anchors, strict=True)])
        scores = raw["cls_logits"][..., self.outputs]
        if "SSD" in type(self.network).__name__:
            scores = scores - raw["cls_logits"][..., :1]
            return scores, boxes, scores.logsumexp(dim=-1)
        return scores, boxes, scores.amax(dim=-1)


def _wrap(network: Any, labels: Labels, size: int, identity: ModelIdentity) -> GauntletModel:
    heads = getattr(network, "roi_heads", None)
    for part in _BEYOND_BOXES if heads is not None else ():
        setattr(heads, part, None)
    return TorchvisionDetector(network, labels, size, identity).freeze()


def _architecture(options: Mapping[str, Any]) -> dict[str, Any]:
    """What goes to the network's constructor."""
    given: dict[str, Any] = dict(options.get("architecture", {}))
    for option in ("mean", "std"):
        if option in options:
            given[f"image_{option}"] = [float(value) for value in options[option]]
    return given


@contextmanager
def _losses_on(network: Any) -> Iterator[None]:
    """The branch that computes losses, which torchvision has in training mode only; layers stay in eval mode."""
    parts: Sequence[nn.Module] = [
        network, *(getattr(network, name) for name in ("rpn", "roi_heads") if hasattr(network, name))
    ]  # fmt: skip
    for part in parts:
        part.training = True
    try:
        yield
    finally:
        for part in parts:
            part.training = False
