"""A loss per pixel and a step rule, for the options `loss` and `rule` of any attack that takes them."""

from __future__ import annotations

import torch

from gauntlet.threats.attacks import PixelLoss, StepRule
from gauntlet.threats.attacks.engine.pixels import Pixels


def brighter(pixels: Pixels) -> torch.Tensor:
    """The logit of day, (N, H, W), whatever the label."""
    return pixels.logits[:, 1]


LAB_LOSS = PixelLoss(brighter)


class Creep(StepRule):
    """A tenth of the sign."""

    def direction(self, gradient: torch.Tensor, step: int) -> torch.Tensor:
        return gradient.sign() / 10
