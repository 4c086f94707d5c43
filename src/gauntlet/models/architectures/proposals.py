"""A region proposal network (Ren et al. 2015, arXiv:1506.01497, section 3.1) on a pyramid, as in FPN.

Where it differs from the paper: no anchors are drawn at random for the loss, all of them count with the focal loss, so
that the loss of an image is the same each time; boxes learn by their GIoU.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from gauntlet.models.architectures.dense import (
    BOX_WEIGHT,
    PRIOR_LOGIT,
    Locations,
    all_locations,
    flat,
    focal_loss,
    tower,
)
from gauntlet.models.architectures.detector import Targets
from gauntlet.models.architectures.geometry import corrected, generalised_iou, iou, suppress

ANCHOR_SIDE = 3.0
"""Side of a square anchor, in strides: 12, 24 and 48 pixels, for objects of street scenes at 128x256."""
RATIOS = (0.5, 1.0, 2.0)
"""Heights of anchors over their widths, at equal area."""
OBJECT, BACKGROUND = 0.5, 0.4
"""An anchor is an object's from an IoU of OBJECT on and background below BACKGROUND; between them it counts for
nothing."""
CONSIDERED = 256
"""The best anchors of an image that proposals are chosen from."""
PROPOSAL_SUPPRESSION = 0.7


@dataclass(frozen=True)
class Proposed:
    """What the first stage says of N images.

    Attributes:
        anchors: (A, 4) corners in pixels.
        objectness: (N, A) logits of there being an object.
        boxes: (N, A, 4) corrected anchors, corners in pixels.
    """

    anchors: torch.Tensor
    objectness: torch.Tensor
    boxes: torch.Tensor


class ProposalHead(nn.Module):
    """Objectness and a correction of every anchor; the same for every level."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.tower = tower(width)
        self.objectness = nn.Conv2d(width, len(RATIOS), 1)
        self.boxes = nn.Conv2d(width, 4 * len(RATIOS), 1)
        for predictor, bias in ((self.objectness, PRIOR_LOGIT), (self.boxes, 0.0)):
            nn.init.normal_(predictor.weight, std=0.01)
            nn.init.constant_(predictor.bias, bias)  # type: ignore[arg-type]

    def forward(self, maps: list[torch.Tensor]) -> Proposed:
        anchors = all_anchors(all_locations(maps))
        seen = [self.tower(each) for each in maps]
        objectness = flat([self.objectness(each) for each in seen]).flatten(1).float()
        changes = flat([self.boxes(each) for each in seen]).reshape(*objectness.shape, 4).float()
        return Proposed(anchors, objectness, corrected(anchors, changes))


def all_anchors(locations: Locations) -> torch.Tensor:
    """The anchors of all locations, (L * ratios, 4), those of one location beside each other."""
    ratios = torch.tensor(RATIOS, device=locations.points.device)
    sides = ANCHOR_SIDE * torch.stack((ratios.rsqrt(), ratios.sqrt()), dim=-1)  # (ratios, 2), width and height
    halves = locations.strides[:, None, None] * sides / 2
    centres = locations.points[:, None]
    return torch.cat((centres - halves, centres + halves), dim=-1).flatten(0, 1)


@torch.no_grad()
def choose(proposed: Proposed, count: int) -> torch.Tensor:
    """The best anchors, (N, count): first those that overlap no better one too much, then the others."""
    considered = max(count, min(CONSIDERED, proposed.objectness.shape[1]))
    order = proposed.objectness.topk(considered, dim=1).indices
    boxes = proposed.boxes.gather(1, order[..., None].expand(-1, -1, 4))
    one_class = torch.zeros(considered, dtype=torch.int64, device=boxes.device)
    goes = torch.stack([~suppress(each, one_class, PROPOSAL_SUPPRESSION) for each in boxes])
    return order.gather(1, goes.long().argsort(dim=1, stable=True)[:, :count])


@dataclass(frozen=True)
class Matched:
    """Which of the objects of N images B boxes belong to.

    Attributes:
        index: (N, B) the object, -1 for none.
        overlap: (N, B) the largest IoU with an object, 0 without objects.
    """

    index: torch.Tensor
    overlap: torch.Tensor


@torch.no_grad()
def match(boxes: torch.Tensor, targets: Targets, *, every_object: bool) -> Matched:
    """Boxes (B, 4) or (N, B, 4) belong to the object that they overlap most, from an IoU of OBJECT on.

    Args:
        boxes: corners in pixels.
        targets: the objects.
        every_object: whether the box that overlaps an object most belongs to it in any case.
    """
    overlaps = iou(boxes.expand(len(targets.boxes), -1, -1)[:, None], targets.boxes[:, :, None])  # (N, M, B)
    overlaps = overlaps * targets.present[..., None]
    belongs = overlaps >= OBJECT
    if every_object:
        best = overlaps.argmax(dim=-1, keepdim=True)
        belongs = belongs.scatter(-1, best, True) & (overlaps > 0)
    nearest, index = (overlaps * belongs).max(dim=1)
    return Matched(index.masked_fill(nearest == 0, -1), overlaps.amax(dim=1))


def proposal_losses(proposed: Proposed, targets: Targets) -> torch.Tensor:
    """(N,): focal loss of all anchors that count, GIoU of those of objects, over the number of the latter."""
    matched = match(proposed.anchors, targets, every_object=True)
    positive = matched.index >= 0
    centres = (proposed.anchors[:, :2] + proposed.anchors[:, 2:]) / 2
    counted = positive | ((matched.overlap < BACKGROUND) & ~targets.ignores(centres))
    losses = (focal_loss(proposed.objectness, positive.float()) * counted).sum(dim=1)
    return (losses + box_losses(proposed.boxes, matched.index, targets)) / positive.sum(dim=1).clamp(min=1)


def box_losses(boxes: torch.Tensor, index: torch.Tensor, targets: Targets) -> torch.Tensor:
    """(N,): BOX_WEIGHT (1 - GIoU), summed over the boxes (N, B, 4) whose object (N, B) is not -1."""
    image, place = (index >= 0).nonzero(as_tuple=True)
    apart = 1 - generalised_iou(boxes[image, place], targets.boxes[image, index[image, place]])
    return BOX_WEIGHT * torch.zeros(len(boxes), device=boxes.device, dtype=boxes.dtype).index_add(0, image, apart)
