"""Boxes as tensors: overlaps, the generalised overlap, corrections, suppression. Corners x0, y0, x1, y1 in pixels."""

from __future__ import annotations

import torch

EPSILON = 1e-7


def area(boxes: torch.Tensor) -> torch.Tensor:
    """(..., 4) to (...); 0 for a box that is inside out."""
    sides = (boxes[..., 2:] - boxes[..., :2]).clamp(min=0)
    return sides[..., 0] * sides[..., 1]


def overlap(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Intersection and union of boxes (..., 4), broadcast against each other."""
    low = torch.maximum(first[..., :2], second[..., :2])
    high = torch.minimum(first[..., 2:], second[..., 2:])
    intersection = area(torch.cat((low, high), dim=-1))
    return intersection, area(first) + area(second) - intersection


def iou(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Intersection over union of boxes (..., 4), broadcast against each other."""
    intersection, union = overlap(first, second)
    return intersection / union.clamp(min=EPSILON)


def generalised_iou(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """GIoU in [-1, 1] (Rezatofighi et al. 2019, algorithm 1): IoU - (hull - union) / hull."""
    intersection, union = overlap(first, second)
    low = torch.minimum(first[..., :2], second[..., :2])
    high = torch.maximum(first[..., 2:], second[..., 2:])
    hull = area(torch.cat((low, high), dim=-1))
    return intersection / union.clamp(min=EPSILON) - (hull - union) / hull.clamp(min=EPSILON)


def corrected(boxes: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
    """Boxes (..., 4) whose centre moves by a share of the sides and whose sides grow by a factor exp(change)."""
    centre, sides = (boxes[..., :2] + boxes[..., 2:]) / 2, (boxes[..., 2:] - boxes[..., :2]).clamp(min=1.0)
    centre = centre + change[..., :2] * sides
    half = sides * change[..., 2:].clamp(-2.0, 2.0).exp() / 2
    return torch.cat((centre - half, centre + half), dim=-1)


def suppress(boxes: torch.Tensor, classes: torch.Tensor, threshold: float) -> torch.Tensor:
    """Greedy non-maximum suppression inside each class: which boxes (n, 4), best first, stay (n,).

    The greedy result is the one fixed point of "a box stays when no better one that stays overlaps it too much". After
    t rounds the best t boxes are right for good, and real scenes need a handful of rounds, not n.
    """
    better = torch.ones(len(boxes), len(boxes), dtype=torch.bool, device=boxes.device).triu(1)
    rivals = better & (iou(boxes[:, None], boxes[None]) > threshold) & (classes[:, None] == classes[None])
    stays = torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
    while True:
        settled = ~(rivals & stays[:, None]).any(dim=0)
        if torch.equal(settled, stays):
            return stays
        stays = settled
