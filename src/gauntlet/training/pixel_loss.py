"""The cross-entropy over labelled pixels: of all of them, or of the hardest; and the loss of a boundary head."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.published.network import HardPixels

NOTHING = -100
"""A label that no pixel has."""
BOUNDARY_RADIUS = 2
"""A pixel lies on a boundary where another class is at most so many pixels away."""


class PixelLoss(nn.Module):
    """Mean cross-entropy over the labelled pixels.

    Args:
        ignore_index: label of pixels that count for nothing, if any.
        weight: class weights (K,), or None.
        label_smoothing: mass spread over all classes.
        hard: which pixels count; None for all.
    """

    weight: torch.Tensor | None

    def __init__(
        self,
        ignore_index: int | None,
        *,
        weight: torch.Tensor | None = None,
        label_smoothing: float = 0.0,
        hard: HardPixels | None = None,
    ) -> None:
        super().__init__()
        self.ignore_index = ignore_index if ignore_index is not None else NOTHING
        self.label_smoothing, self.hard = label_smoothing, hard
        self.register_buffer("weight", weight, persistent=False)

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Of logits (N, K, H, W) and labels (N, H, W); 0 (with a gradient of 0) when no pixel is labelled."""
        labelled = labels != self.ignore_index
        if not labelled.any():
            return logits.sum() * 0.0
        reduction = "mean" if self.hard is None else "none"
        loss = functional.cross_entropy(
            logits.float(),
            labels,
            self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=reduction,
        )
        return loss if self.hard is None else hardest(loss[labelled], self.hard).mean()


def hardest(losses: torch.Tensor, hard: HardPixels) -> torch.Tensor:
    """The losses (P,) above that of the threshold's probability, or the largest where those are too few."""
    chosen = losses[losses > -math.log(hard.threshold)]
    fewest = max(1, int(hard.share * len(losses)))
    return chosen if len(chosen) >= fewest else losses.topk(fewest).values


def boundaries(labels: torch.Tensor, radius: int = BOUNDARY_RADIUS) -> torch.Tensor:
    """Where labels (N, H, W) have another label at most `radius` pixels away, as booleans."""
    window = 2 * radius + 1
    values = labels[:, None].float()
    largest = functional.max_pool2d(values, window, 1, radius)
    smallest = -functional.max_pool2d(-values, window, 1, radius)
    return (largest != smallest)[:, 0]


def boundary_loss(logits: torch.Tensor, labels: torch.Tensor, ignore_index: int) -> torch.Tensor:
    """Binary cross-entropy of logits (N, 1, H, W), both kinds of pixels with the same weight (PIDNet, loss l1)."""
    labelled = labels != ignore_index
    if not labelled.any():
        return logits.sum() * 0.0
    truth = boundaries(labels)[labelled].float()
    share = truth.mean()
    weight = torch.where(truth > 0, 1 - share, share)
    return functional.binary_cross_entropy_with_logits(logits[:, 0][labelled].float(), truth, weight)
