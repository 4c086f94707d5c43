"""What an attack without gradients sees: a number to lower, and how much is won (docs/specs/beyond.md, 5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from gauntlet.threats.attacks.engine.labels import image_figures
from gauntlet.threats.attacks.engine.pixels import Pixels
from gauntlet.threats.attacks.engine.problem import Problem


@dataclass(frozen=True)
class Verdicts:
    """What the model's answers to N points are worth to an attack.

    Attributes:
        loss: float64 (N,), what the attack lowers.
        fooled: int64 (N,), how much is won, out of the `counts` of the problem.
    """

    loss: torch.Tensor
    fooled: torch.Tensor

    def select(self, rows: torch.Tensor) -> Verdicts:
        """Those on some of the points."""
        return Verdicts(self.loss[rows], self.fooled[rows])


class Judge(ABC):
    """Asks the model about points of some images, once each, and says what the answers are worth."""

    @abstractmethod
    def select(self, rows: torch.Tensor) -> Judge:
        """The judge of some of the images."""

    @abstractmethod
    def judge(self, points: torch.Tensor) -> Verdicts:
        """One query per image about its point, (N, 3, H, W)."""


PixelScore = Callable[[Pixels], torch.Tensor]
"""A number per pixel that is lower the nearer the attack is to what it wants, (N, H, W)."""


def margin(pixels: Pixels) -> torch.Tensor:
    """The label's logit less its strongest rival's; of a target the rival's less the label's."""
    return -pixels.margin if pixels.targeted else pixels.margin


def clipped(pixels: Pixels) -> torch.Tensor:
    """The margin where the attack has not won yet, 0 where it has."""
    return margin(pixels).clamp_min(0)


def confidence(pixels: Pixels) -> torch.Tensor:
    """The logarithm of the label's probability, ln p; of a target -ln p."""
    return pixels.cross_entropy if pixels.targeted else -pixels.cross_entropy


def standing(pixels: Pixels) -> torch.Tensor:
    """1 where the attack has not won, 0 where it has: all that a label map tells."""
    return (~pixels.fooled).double()


PIXEL_SCORES: dict[str, PixelScore] = {"margin": margin, "accuracy": standing, "ce": confidence, "clipped": clipped}
"""The losses of the Square Attack by name; summed over the pixels that count."""


@dataclass(frozen=True)
class PixelJudge(Judge):
    """Sums a score over the pixels that count."""

    problem: Problem
    score: PixelScore

    def select(self, rows: torch.Tensor) -> PixelJudge:
        return replace(self, problem=self.problem.select(rows))

    def judge(self, points: torch.Tensor) -> Verdicts:
        with torch.no_grad():
            pixels = self.problem.look(points)
            values = self.score(pixels).masked_fill(~pixels.counted, 0)
            return Verdicts(values.flatten(1).sum(1, dtype=torch.float64), pixels.fooled_counts)


@dataclass(frozen=True)
class LabelJudge(Judge):
    """Sees nothing but label maps: the right pixels that are left, or the mIoU of the image that is left.

    Of a target what is not yet there: pixels that differ from it, or 1 - mIoU with it.
    """

    problem: Problem
    overlap: bool

    def select(self, rows: torch.Tensor) -> LabelJudge:
        return replace(self, problem=self.problem.select(rows))

    def judge(self, points: torch.Tensor) -> Verdicts:
        problem = self.problem
        maps, classes = problem.label_maps(points)
        labels = problem.labels
        agreeing = ((maps == labels) & problem.counted).flatten(1).sum(1)
        fooled = agreeing if problem.targeted else problem.counts - agreeing
        if not self.overlap:
            return Verdicts((problem.counts - fooled).double(), fooled)
        overlap = image_figures(maps, labels, problem.counted, classes)[1].to(points.device)
        return Verdicts(1 - overlap if problem.targeted else overlap, fooled)
