"""Decode rules: how the output of an exported detector becomes boxes, class confidences and a loss.

A rule is declared by its name, or as a mapping with the name and what differs from its defaults:
{"name": "yolov8", "suppression": 0.6}. An exported network comes without its training loss. The loss here is made from
what the rule reads off: with IoU matching of its boxes to the objects, varifocal loss of the confidences (Zhang et al.,
arXiv:2008.13367, eq. 2, targets 0 and 1) and 1 - GIoU of the matched boxes, both over the number of matched ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.architectures.geometry import generalised_iou, iou, suppress
from gauntlet.registry import Registry, subclass_of
from gauntlet.samples import Boxes

MATCHED = 0.5
"""The overlap from which a box counts as one for an object; the best one of an object does anyway."""
ALPHA, GAMMA = 0.75, 2
_SURE = 1e-6
_MOST_BEFORE_SUPPRESSION = 1000


@dataclass(frozen=True)
class Decoded:
    """What a network proposes.

    Attributes:
        boxes: (N, Q, 4) corners in fractions of the input.
        confidences: (N, Q, K) in [0, 1], what detections are ranked by.
        objectness: (N, Q) in [0, 1], or None where the network has none.
    """

    boxes: torch.Tensor
    confidences: torch.Tensor
    objectness: torch.Tensor | None = None


@dataclass(frozen=True)
class DecodeRule(ABC):
    """How a kind of network writes its output, and what is done with it after.

    Attributes:
        score_threshold: detections at or below it are left out.
        suppression: IoU above which the weaker of two boxes of a class goes.
        most: detections of an image at most.
        one_class: whether a box stands for its best class only.
        antialias: whether images are averaged where they are made smaller on the way in.
        clip: whether boxes are cut off at the image's border.
    """

    score_threshold: float = 0.001
    suppression: float = 0.45
    most: int = 300
    one_class: bool = False
    antialias: bool = False
    clip: bool = True

    name: ClassVar[str]

    @abstractmethod
    def decode(self, output: torch.Tensor, size: tuple[int, int]) -> Decoded:
        """Reads off an output (N, ...) for an input of `size` (height, width)."""

    @abstractmethod
    def count_classes(self, shape: Sequence[int | None]) -> int | None:
        """K from the shape of the output, None where it does not say."""

    def select(self, boxes: torch.Tensor, confidences: torch.Tensor) -> Boxes:
        """Detections of one image, best first, from corners (Q, 4) in pixels and confidences (Q, K)."""
        if self.one_class:
            best = confidences.argmax(dim=1, keepdim=True)
            confidences = torch.zeros_like(confidences).scatter(1, best, confidences.gather(1, best))
        count = confidences.shape[1]
        scores, order = confidences.flatten().topk(min(_MOST_BEFORE_SUPPRESSION, confidences.numel()))
        kept = scores > self.score_threshold
        scores, order = scores[kept], order[kept]
        chosen, classes = boxes[order // count], order % count
        stays = suppress(chosen, classes, self.suppression)
        parts = (values[stays][: self.most].cpu().numpy() for values in (chosen, classes, scores))
        return Boxes(*parts)


decode_rules: Registry[type[DecodeRule]] = Registry(
    "decode rule", "gauntlet.decode_rules", check=subclass_of(DecodeRule)
)
"""Rules by name."""


def build_rule(given: Any) -> DecodeRule:
    """The rule that a name or a mapping with a name declares."""
    settings: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {}
    if isinstance(given, str):
        settings["name"] = given
    name = settings.pop("name", None)
    if name is None:
        raise GauntletError(f"decode must be the name of a rule ({', '.join(decode_rules.names())}), not {given!r}.")
    kind = decode_rules[str(name)]
    known = [field.name for field in fields(kind)]
    for setting in settings:
        if setting not in known:
            raise unknown_name(f"setting of the decode rule '{name}'", setting, known)
    return kind(**settings)


@decode_rules.register("fastestdet")
@dataclass(frozen=True)
class FastestDet(DecodeRule):
    """FastestDet: (N, 5 + K, h, w) with sigmoid objectness, raw box, softmax over classes; a box per cell.

    Score: objectness^0.6 class^0.4; centre: (tanh + cell) / cells, sides: sigmoid, in fractions of the image. Its
    published rule leaves boxes that reach beyond the image as they are.
    """

    one_class: bool = True
    clip: bool = False
    name: ClassVar[str] = "fastestdet"

    def decode(self, output: torch.Tensor, size: tuple[int, int]) -> Decoded:
        rows, columns = output.shape[-2:]
        y, x = torch.meshgrid(
            torch.arange(rows, device=output.device), torch.arange(columns, device=output.device), indexing="ij"
        )
        flat = output.flatten(2).transpose(1, 2)
        cells = torch.stack([x, y], dim=-1).flatten(0, 1).to(output.dtype)
        centres = (flat[..., 1:3].tanh() + cells) / output.new_tensor([columns, rows])
        objectness = flat[..., 0]
        # The root's slope is infinite at 0, where float32 probabilities end up.
        chances, sure = flat[..., 5:].clamp(min=_SURE), objectness.clamp(min=_SURE)
        return Decoded(_corners(centres, flat[..., 3:5].sigmoid()), sure[..., None] ** 0.6 * chances**0.4, objectness)

    def count_classes(self, shape: Sequence[int | None]) -> int | None:
        return shape[1] - 5 if len(shape) == 4 and shape[1] else None


@decode_rules.register("yolov5")
@dataclass(frozen=True)
class Yolo5(DecodeRule):
    """YOLOv5 and v7 exports: (N, Q, 5 + K) with centre, sides in pixels, objectness and class probabilities."""

    suppression: float = 0.6
    name: ClassVar[str] = "yolov5"

    def decode(self, output: torch.Tensor, size: tuple[int, int]) -> Decoded:
        boxes = output[..., :4] / output.new_tensor([size[1], size[0]] * 2)
        return Decoded(_corners(boxes[..., :2], boxes[..., 2:]), output[..., 4:5] * output[..., 5:], output[..., 4])

    def count_classes(self, shape: Sequence[int | None]) -> int | None:
        return shape[2] - 5 if len(shape) == 3 and shape[2] else None


@decode_rules.register("yolov8")
@dataclass(frozen=True)
class Yolo8(DecodeRule):
    """YOLOv8, v9 and v11 exports: (N, 4 + K, Q) with centre, sides in pixels and class probabilities."""

    suppression: float = 0.7
    name: ClassVar[str] = "yolov8"

    def decode(self, output: torch.Tensor, size: tuple[int, int]) -> Decoded:
        flat = output.transpose(1, 2)
        boxes = flat[..., :4] / output.new_tensor([size[1], size[0]] * 2)
        return Decoded(_corners(boxes[..., :2], boxes[..., 2:]), flat[..., 4:])

    def count_classes(self, shape: Sequence[int | None]) -> int | None:
        return shape[1] - 4 if len(shape) == 3 and shape[1] else None


def decoded_loss(
    boxes: torch.Tensor, confidences: torch.Tensor, objects: torch.Tensor, classes: torch.Tensor
) -> torch.Tensor:
    """The loss of one image, a scalar: see the module.

    Args:
        boxes: (Q, 4) corners that the network proposes; confidences: (Q, K).
        objects: (n, 4) corners in the same units; classes: (n,).
    """
    chances = confidences.clamp(_SURE, 1 - _SURE)
    wanted = torch.zeros_like(chances, dtype=torch.bool)
    misplaced = boxes.new_zeros(())
    if len(objects):
        overlaps = iou(objects[:, None], boxes.detach()[None])  # (n, Q)
        best, owner = overlaps.max(dim=0)
        matched = best >= MATCHED
        nearest = overlaps.argmax(dim=1)
        matched[nearest] = True
        owner[nearest] = torch.arange(len(objects), device=boxes.device)
        places = matched.nonzero().flatten()
        wanted[places, classes[owner[places]]] = True
        misplaced = (1 - generalised_iou(boxes[places], objects[owner[places]])).sum()
    negative = -ALPHA * chances**GAMMA * torch.log1p(-chances)
    values = torch.where(wanted, -chances.log(), negative)
    return (values.sum() + misplaced) / wanted.sum().clamp(min=1)


def _corners(centres: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
    return torch.cat([centres - sides / 2, centres + sides / 2], dim=-1)
