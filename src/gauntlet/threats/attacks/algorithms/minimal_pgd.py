"""Minimal-PGD: bisection on the radius of a PGD, per image (docs/specs/attacks.md, 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gauntlet.tasks import SEGMENTATION
from gauntlet.threats.attacks.algorithms.gradient import GradientAttack
from gauntlet.threats.attacks.algorithms.minimum_norm import MinimumNorm
from gauntlet.threats.attacks.engine.constraints import ball
from gauntlet.threats.attacks.engine.losses import losses
from gauntlet.threats.attacks.engine.option_checks import step_length, whole
from gauntlet.threats.attacks.engine.outcome import reached
from gauntlet.threats.attacks.engine.problem import Problem
from gauntlet.threats.attacks.engine.result import Result
from gauntlet.threats.options import LOSS, Option
from gauntlet.threats.passes import Passes


@dataclass(frozen=True, kw_only=True)
class MinimalPgd(MinimumNorm):
    """The smallest radius, to 2 ** -rounds of the largest, at which PGD from the clean image succeeds.

    Attributes:
        steps: of each PGD.
        alpha: its step size in units of the radius.
        rounds: bisections.
        largest: radius that certainly succeeds, ε_max; 1 (linf) or 80 (l2) by default. The search starts at it.
        loss: name of a loss per pixel.
    """

    steps: int = 40
    alpha: Any = 0.1 / 3
    rounds: int = field(default=13, metadata=Option(swept=True, axis="rounds").metadata)
    largest: Any = None
    loss: str = field(default="ce", metadata=LOSS.metadata)

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.rounds, "rounds", 1)
        largest = (1.0 if self.norm == "linf" else 80.0) if self.largest is None else self.largest
        self._set(largest=step_length(largest, self.norm, "largest"), loss=losses.canonical(self.loss))

    def passes(self, task: str = SEGMENTATION) -> Passes:
        looks = self.posing_passes(task) + Passes(forward=1)  # the last at what no round has won
        return looks + (self.rounds * self.steps) * Passes(self.samples, self.samples)

    def run(self, problem: Problem, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        inner = GradientAttack(
            name="pgd", norm=self.norm, steps=self.steps, loss=self.loss, returns="best", evaluate_last=False
        )
        points = problem.images.clone()
        fooled = torch.zeros_like(problem.counts)
        low = torch.zeros(len(problem), dtype=torch.float64, device=points.device)
        high = torch.full_like(low, 2 * self.largest)
        succeeded = torch.zeros_like(low, dtype=torch.bool)
        for _ in range(self.rounds):
            size = (low + high) / 2
            allowed = ball(self.norm, problem.images, size, problem.region)
            first = problem.images if start is None else allowed.project(start)
            ended = inner.ascend(problem, allowed, first, self.alpha * size.view(-1, 1, 1, 1))
            assert ended.fooled is not None
            success = reached(ended.fooled, problem.counts, self.threshold)
            points[success], fooled[success] = ended.points[success], ended.fooled[success]
            high, low = torch.where(success, size, high), torch.where(success, low, size)
            succeeded |= success
        failed = torch.nonzero(~succeeded).flatten()
        if len(failed):
            fooled[failed] = problem.select(failed).look(points[failed]).fooled_counts
        return self.smallest(problem, points, fooled, {})
