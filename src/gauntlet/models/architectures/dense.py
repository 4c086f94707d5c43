"""A detection head on every location of a pyramid, as in FCOS (Tian et al. 2019, arXiv:1904.01355).

Where it differs from the paper: the level of an object follows from its longest side; the location nearest to the
centre of an object is always positive and distances may be down to half a stride below zero, since objects of street
scenes at 128x256 can be thinner than a stride; the overlap is predicted instead of the centre-ness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.detector import Targets
from gauntlet.models.architectures.geometry import area, generalised_iou, iou
from gauntlet.models.architectures.pyramid import STRIDES

ALPHA, GAMMA = 0.25, 2.0
PRIOR_LOGIT = -math.log((1 - 0.01) / 0.01)
"""What class logits start at: a probability of 0.01, since most locations are background (arXiv:1708.02002, 4.1)."""
LARGEST_SIDES = (28.0, 64.0)
"""Longest side of objects of the first and the second level, in pixels."""
RADIUS = 1.5
"""Positive locations are inside an object and so many strides around its centre, in x and in y."""
BOX_WEIGHT, QUALITY_WEIGHT = 2.0, 0.5


@dataclass(frozen=True)
class Locations:
    """The centres of all cells of a pyramid.

    Attributes:
        points: (L, 2) x and y in pixels.
        strides: (L,) float32.
        levels: (L,) int64, index of the level.
        sizes: height and width of every level.
    """

    points: torch.Tensor
    strides: torch.Tensor
    levels: torch.Tensor
    sizes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class DenseOutputs:
    """What the head says of N images.

    Attributes:
        logits: (N, L, K) of the classes.
        boxes: (N, L, 4) corners in pixels.
        quality: (N, L) logits of the IoU of the box with its object.
        locations: where.
    """

    logits: torch.Tensor
    boxes: torch.Tensor
    quality: torch.Tensor
    locations: Locations


class DenseHead(nn.Module):
    """Classes from one 3x3 convolution, boxes and their quality from another; the same for every level."""

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.class_tower = tower(width)
        self.box_tower = tower(width)
        self.classes = nn.Conv2d(width, num_classes, 3, padding=1)
        self.boxes = nn.Conv2d(width, 5, 3, padding=1)
        for predictor in (self.classes, self.boxes):
            nn.init.normal_(predictor.weight, std=0.01)
            nn.init.zeros_(predictor.bias)  # type: ignore[arg-type]
        nn.init.constant_(self.classes.bias, PRIOR_LOGIT)  # type: ignore[arg-type]
        with torch.no_grad():
            self.boxes.bias[:4] = 2.0  # type: ignore[index]

    def forward(self, maps: list[torch.Tensor]) -> DenseOutputs:
        locations = all_locations(maps)
        logits = flat([self.classes(self.class_tower(each)) for each in maps])
        regressed = flat([self.boxes(self.box_tower(each)) for each in maps]).float()
        distances = (functional.softplus(regressed[..., :4]) - 0.5) * locations.strides[:, None]
        low, high = locations.points - distances[..., :2], locations.points + distances[..., 2:]
        return DenseOutputs(logits, torch.cat((low, high), dim=-1), regressed[..., 4], locations)


def tower(width: int) -> nn.Sequential:
    """What the predictors of a head look through: a 3x3 convolution, normalised over groups of channels."""
    return nn.Sequential(
        nn.Conv2d(width, width, 3, padding=1, bias=False), nn.GroupNorm(8, width), nn.ReLU(inplace=True)
    )


def flat(maps: list[torch.Tensor]) -> torch.Tensor:
    """Maps (N, C, h, w) of all levels as one tensor (N, L, C)."""
    return torch.cat([each.flatten(2).transpose(1, 2) for each in maps], dim=1)


def all_locations(maps: list[torch.Tensor]) -> Locations:
    """The locations of maps at the strides of the pyramid."""
    device = maps[0].device
    points, strides, levels, sizes = [], [], [], []
    for level, (each, stride) in enumerate(zip(maps, STRIDES, strict=True)):
        height, width = each.shape[-2:]
        rows = (torch.arange(height, device=device) + 0.5) * stride
        columns = (torch.arange(width, device=device) + 0.5) * stride
        y, x = torch.meshgrid(rows, columns, indexing="ij")
        points.append(torch.stack((x, y), dim=-1).flatten(0, 1))
        strides.append(torch.full((height * width,), float(stride), device=device))
        levels.append(torch.full((height * width,), level, device=device))
        sizes.append((height, width))
    return Locations(torch.cat(points), torch.cat(strides), torch.cat(levels), tuple(sizes))


def assign(locations: Locations, targets: Targets) -> torch.Tensor:
    """The object of every location, (N, L), -1 for background; the smallest where several claim one."""
    low, high = targets.boxes[..., None, :2], targets.boxes[..., None, 2:]
    sides = (high - low).amax(dim=-1)
    level = torch.bucketize(sides, torch.tensor(LARGEST_SIDES, device=sides.device))
    own_level = level == locations.levels  # (N, M, L)
    offset = (locations.points - (low + high) / 2).abs().amax(dim=-1)
    inside = ((locations.points >= low) & (locations.points < high)).all(dim=-1)
    positive = own_level & inside & (offset < RADIUS * locations.strides)
    nearest = offset.masked_fill(~own_level, math.inf).argmin(dim=-1, keepdim=True)
    positive = positive.scatter(-1, nearest, True) & targets.present[..., None]
    smallest, index = torch.where(positive, area(targets.boxes)[..., None], math.inf).min(dim=1)
    return index.masked_fill(smallest == math.inf, -1)


def focal_loss(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """-alpha_t (1 - p_t)^gamma log p_t, elementwise, for a truth of 0 or 1 (Lin et al., arXiv:1708.02002, eq. 5)."""
    probability = logits.sigmoid()
    wrong = probability + truth - 2 * probability * truth  # 1 - p_t
    weight = 1 - ALPHA + (2 * ALPHA - 1) * truth
    return weight * wrong**GAMMA * functional.binary_cross_entropy_with_logits(logits, truth, reduction="none")


def dense_losses(outputs: DenseOutputs, targets: Targets) -> torch.Tensor:
    """(N,): focal loss of all locations, GIoU and quality of the positive ones, over the number of positive ones."""
    assigned = assign(outputs.locations, targets)
    positive = assigned >= 0
    image, location = positive.nonzero(as_tuple=True)
    chosen = assigned[image, location]
    logits = outputs.logits.float()
    truth = torch.zeros_like(logits)
    truth[image, location, targets.classes[image, chosen]] = 1.0
    counted = positive | ~targets.ignores(outputs.locations.points)
    losses = (focal_loss(logits, truth).sum(dim=-1) * counted).sum(dim=-1)
    boxes, true_boxes = outputs.boxes[image, location], targets.boxes[image, chosen]
    quality = functional.binary_cross_entropy_with_logits(
        outputs.quality[image, location], iou(boxes.detach(), true_boxes), reduction="none"
    )
    located = BOX_WEIGHT * (1 - generalised_iou(boxes, true_boxes)) + QUALITY_WEIGHT * quality
    return losses.index_add(0, image, located) / positive.sum(dim=-1).clamp(min=1)
