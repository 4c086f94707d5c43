"""APGD and the SEA attacks: momentum, step halving and restarts from the best point, all per image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from gauntlet.threats.attacks.algorithms.gradient import BallAttack, Best
from gauntlet.threats.attacks.detection.problem import ObjectProblem
from gauntlet.threats.attacks.engine.constraints import Ball
from gauntlet.threats.attacks.engine.contract import Result, one_of, register
from gauntlet.threats.attacks.engine.posing import DETECTION
from gauntlet.threats.attacks.engine.problem import BatchProblem
from gauntlet.threats.attacks.engine.steps import unit
from gauntlet.threats.passes import Passes

MOMENTUM = 0.75
RISING_SHARE = 0.75
"""A window in which the loss rose less often than this halves the step (rho of the paper)."""


@dataclass
class Ascent:
    """What a run of APGD found.

    Attributes:
        points, fooled: the iterate with the most fooled pixels, and how many, int64 (N,); on a detector that of the
            points of highest loss that were looked at.
        peak_points, last_points: the iterate with the highest tracked loss, and the last one; only of the images that
            did not leave early (all of them unless the attack returns the best).
        halvings: how often the step of each image was halved, int64 (N,).
    """

    points: torch.Tensor
    fooled: torch.Tensor
    peak_points: torch.Tensor
    last_points: torch.Tensor
    halvings: torch.Tensor


class Windows:
    """When APGD looks back: after k iterations, k shrinking from 0.22 N by 0.03 N down to 0.06 N (truncated)."""

    def __init__(self, steps: int) -> None:
        self.length = max(int(0.22 * steps), 1)
        self.shortest = max(int(0.06 * steps), 1)
        self.shrink = max(int(0.03 * steps), 1)
        self.passed = 0

    def closes(self) -> bool:
        """Counts one iteration; whether a window ends with it."""
        self.passed += 1
        return self.passed == self.length

    def open_next(self) -> None:
        """Starts the next, shorter window."""
        self.length = max(self.length - self.shrink, self.shortest)
        self.passed = 0


@dataclass(frozen=True, kw_only=True)
class AutoPgd(BallAttack):
    """APGD per image (docs/specs/attacks.md, 5).

    Attributes:
        returns: "best" (most fooled pixels), "best-loss" (highest tracked loss, as SemSegBench) or "last". "best" on a
            detector looks at the point of highest loss after every tenth step and at the end, and takes the one with
            the lowest F1 of these; an image that is lost stops.
    """

    steps: int = 100
    returns: str = "best"

    returnable: ClassVar[Sequence[str]] = ("best", "best-loss", "last")

    def climb_passes(self, task: str) -> Passes:
        return self.ascent_passes(self.steps, task)

    def ascent_passes(self, steps: int, task: str) -> Passes:
        """How often `ascend` asks the model, at most: a gradient before every step, the loss after the last one."""
        looks = math.ceil(steps / ObjectProblem.count_every) if task == DETECTION and self.returns == "best" else 0
        return Passes(forward=looks + 1) + steps * Passes(self.samples, self.samples)

    def climb(self, problem: BatchProblem, seeds: Sequence[int], start: torch.Tensor | None, restart: int) -> Result:
        allowed = self.ball(problem)
        found = self.ascend(problem, allowed, self.first_points(allowed, seeds, start, restart), self.steps)
        return self._result(allowed, found)

    def _result(self, allowed: Ball, found: Ascent) -> Result:
        details = {"halvings": found.halvings.tolist()}
        if self.returns == "best":
            return Result(allowed.finish(found.points), found.fooled, details=details)
        points = found.last_points if self.returns == "last" else found.peak_points
        return Result(allowed.finish(points), None, details=details)

    def ascend(self, problem: BatchProblem, allowed: Ball, points: torch.Tensor, steps: int) -> Ascent:
        """N steps from given points; with returns="best" an image leaves once it is seen to be lost entirely."""
        loss = self.pixel_loss
        counts = problem.counts
        rows = torch.arange(len(problem), device=points.device)
        counting = problem.count_every == 1
        looking = self.returns == "best" and not counting
        found = problem.evaluate(points, loss, 0.0, count=counting, track=True)
        best = Best(points)
        if counting:
            best.offer(rows, points, found.fooled)
        halvings = torch.zeros_like(counts)
        size = (2 * allowed.radius).to(points.dtype)
        previous, slope = points, found.gradient
        peak_points, peak_slope, peak = points, slope, found.tracked
        history = torch.zeros(steps, len(points), dtype=points.dtype, device=points.device)
        peak_at_check, halved = peak, torch.ones_like(peak, dtype=torch.bool)
        windows = Windows(steps)
        fooled = found.fooled if counting else torch.zeros_like(counts)
        for step in range(steps):
            if self.returns == "best" and not (going := fooled < counts[rows]).all():
                kept = torch.nonzero(going).flatten()
                if len(kept) == 0:
                    break
                rows, problem, allowed = rows[kept], problem.select(kept), allowed.select(kept)
                points, previous, slope, size = points[kept], previous[kept], slope[kept], size[kept]
                peak_points, peak_slope, peak = peak_points[kept], peak_slope[kept], peak[kept]
                history, peak_at_check, halved = history[:, kept], peak_at_check[kept], halved[kept]
                fooled = fooled[kept]
            ahead = allowed.project(torch.addcmul(points, size, unit(slope, self.norm)))
            momentum = 1.0 if step == 0 else MOMENTUM
            moved = points + momentum * (ahead - points) + (1 - momentum) * (points - previous)
            previous, points = points, allowed.project(moved)
            last = step == steps - 1
            found = problem.evaluate(points, loss, (step + 1) / steps, gradient=not last, count=counting, track=True)
            if counting:
                fooled = found.fooled
                best.offer(rows, points, fooled)
            history[step] = found.tracked
            higher = found.tracked > peak
            peak = torch.where(higher, found.tracked, peak)
            peak_points = torch.where(higher.view(-1, 1, 1, 1), points, peak_points)
            if looking and (last or problem.counts_after(step + 1)):
                fooled = problem.won(peak_points)
                best.offer(rows, peak_points, fooled)
            if last:
                break
            slope = found.gradient
            peak_slope = torch.where(higher.view(-1, 1, 1, 1), slope, peak_slope)
            if windows.closes():
                oscillates = self._rises(history, step, windows.length) <= RISING_SHARE * windows.length
                stuck = ~halved & (peak_at_check >= peak)
                halved, peak_at_check = oscillates | stuck, peak
                back = halved.view(-1, 1, 1, 1)
                size = torch.where(back, size / 2, size)
                points = torch.where(back, peak_points, points)
                slope = torch.where(back, peak_slope, slope)
                halvings[rows] += halved
                windows.open_next()
        return Ascent(best.points, best.fooled, peak_points, points, halvings)

    @staticmethod
    def _rises(history: torch.Tensor, step: int, length: int) -> torch.Tensor:
        """In how many of the last `length` iterations the loss rose, (N,).

        The iteration before the first counts as 0, as in the reference, which reads a zeroed buffer there.
        """
        window = history[step - length + 1 : step + 1]
        before = history[step - length : step - length + 1] if step >= length else torch.zeros_like(history[:1])
        return (window > torch.cat([before, window[:-1]])).sum(0)


STAGES = ((2.0, 0.3), (1.5, 0.3), (1.0, None))
"""SEA's radii in units of epsilon, each with its share of the steps (the last one takes the rest)."""


@dataclass(frozen=True, kw_only=True)
class Sea(AutoPgd):
    """APGD in a shrinking ball: radii 2, 1.5 and 1 epsilon, each stage from the last one's best point (docs/specs/attacks.md, 6).

    Attributes:
        radius: "reduction", or "fixed" for the whole budget at epsilon (the code of Halmosi et al.).
    """

    steps: int = 300
    random_start: bool = True
    radius: str = "reduction"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.radius, "radius", ("reduction", "fixed"))

    def climb_passes(self, task: str) -> Passes:
        if self.radius == "fixed":
            return super().climb_passes(task)
        return sum((self.ascent_passes(steps, task) for _, steps in self.stages() if steps), Passes())

    def stages(self) -> list[tuple[float, int]]:
        """The radii in units of epsilon, each with its number of steps."""
        early = [(factor, int(share * self.steps)) for factor, share in STAGES if share is not None]
        return [*early, (STAGES[-1][0], self.steps - sum(steps for _, steps in early))]

    def climb(self, problem: BatchProblem, seeds: Sequence[int], start: torch.Tensor | None, restart: int) -> Result:
        if self.radius == "fixed":
            return super().climb(problem, seeds, start, restart)
        allowed = self.ball(problem, STAGES[0][0])
        points = self.first_points(allowed, seeds, start, restart)
        halvings = torch.zeros_like(problem.counts)
        for factor, steps in self.stages():
            allowed = self.ball(problem, factor)
            points = allowed.project(points)
            if steps == 0:
                continue
            found = self.ascend(problem, allowed, points, steps)
            halvings += found.halvings
            points = found.points
        found.halvings = halvings
        return self._result(allowed, found)


register("apgd", AutoPgd, random_start=True)
register("sea-jsd", Sea, loss="jsd")
register("sea-mce", Sea, loss="mce")
register("sea-msl", Sea, loss="msl")
register("sea-bce", Sea, loss="segpgd")
register("sea-mce-bal", Sea, loss="mce-bal")
