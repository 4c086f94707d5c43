"""APGD and the SEA attacks: momentum, step halving and restarts from the best point, all per image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import torch

from gauntlet.numbers import parse_fraction
from gauntlet.tasks import DETECTION, SEGMENTATION
from gauntlet.threats.attacks.algorithms.gradient import BallAttack, Best
from gauntlet.threats.attacks.detection.problem import ObjectProblem
from gauntlet.threats.attacks.engine.constraints import Ball
from gauntlet.threats.attacks.engine.option_checks import one_of, positive
from gauntlet.threats.attacks.engine.problem import BatchProblem, PassResult, Problem
from gauntlet.threats.attacks.engine.result import Result
from gauntlet.threats.attacks.engine.step_rules import unit
from gauntlet.threats.passes import Passes

BEST_MIOU = "best-miou"
MOMENTUM = 0.75
RISING_SHARE = 0.75
"""A window in which the loss rose less often than this halves the step (rho of the paper)."""


@dataclass
class Ascent:
    """What a run of APGD ends with.

    Attributes:
        points, fooled: the iterate with the most fooled pixels, and how many, int64 (N,); on a detector that of the
            points of highest loss that were looked at. With returns="best-miou" that of the lowest mIoU, and
            `Pixels.won_overlap` there.
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


@dataclass
class Climb:
    """One run of APGD: where each of its images stands. Images that are lost entirely can leave it.

    Attributes:
        problem, allowed: the n images that are left, and where they may go.
        rows: their positions among the images that the run began with, (n,). counts: what there is to win, (n,).
        points, previous: the current iterate and the one before, (n, 3, H, W). slope: the gradient at the current one.
        size: step size, (n, 1, 1, 1).
        peak, peak_points, peak_slope: the highest tracked loss, (n,), its iterate and the gradient there.
        history: the tracked loss after every step, (n, steps), 0 for steps to come.
        last_peak, halved: at the end of the last window: the highest loss, and whether the step was halved, (n,).
        fooled: what was won when it was last counted, int64 (n,).
    """

    problem: BatchProblem
    allowed: Ball
    rows: torch.Tensor
    counts: torch.Tensor
    points: torch.Tensor
    previous: torch.Tensor
    slope: torch.Tensor
    size: torch.Tensor
    peak: torch.Tensor
    peak_points: torch.Tensor
    peak_slope: torch.Tensor
    history: torch.Tensor
    last_peak: torch.Tensor
    halved: torch.Tensor
    fooled: torch.Tensor

    @classmethod
    def begin(
        cls,
        problem: BatchProblem,
        allowed: Ball,
        points: torch.Tensor,
        first: PassResult,
        steps: int,
        first_step: float,
    ) -> Climb:
        """A run of `steps` steps from given points.

        Args:
            problem, allowed, points: see the attributes.
            first: what a pass with a gradient saw at the points.
            steps: how many there will be.
            first_step: length of the first one in units of the radius.
        """
        counts = problem.counts
        return cls(
            problem=problem,
            allowed=allowed,
            rows=torch.arange(len(points), device=points.device),
            counts=counts,
            points=points,
            previous=points,
            slope=first.gradient,
            size=(first_step * allowed.radius).to(points.dtype),
            peak=first.tracked,
            peak_points=points,
            peak_slope=first.gradient,
            history=torch.zeros(len(points), steps, dtype=points.dtype, device=points.device),
            last_peak=first.tracked,
            halved=torch.ones(len(points), dtype=torch.bool, device=points.device),
            fooled=first.fooled if len(first.fooled) else torch.zeros_like(counts),
        )

    def keep_open(self) -> bool:
        """Drops images that are fully fooled and returns whether any is left; if none is, keeps them all."""
        going = self.fooled < self.counts
        if not going.all() and going.any():
            kept = torch.nonzero(going).flatten()
            for each in fields(self):
                value = getattr(self, each.name)
                setattr(self, each.name, value[kept] if isinstance(value, torch.Tensor) else value.select(kept))
        return bool(going.any())

    def move(self, norm: str, momentum: float) -> None:
        """One step: towards the steepest direction, `1 - momentum` of it in the direction of the step before."""
        ahead = self.allowed.project(torch.addcmul(self.points, self.size, unit(self.slope, norm)))
        moved = self.points + momentum * (ahead - self.points) + (1 - momentum) * (self.points - self.previous)
        self.previous, self.points = self.points, self.allowed.project(moved)

    def note(self, seen: PassResult, step: int) -> None:
        """Takes the loss at the current points, and the gradient unless this was the last step."""
        self.history[:, step] = seen.tracked
        higher = seen.tracked > self.peak
        self.peak = torch.where(higher, seen.tracked, self.peak)
        self.peak_points = torch.where(higher.view(-1, 1, 1, 1), self.points, self.peak_points)
        if len(seen.gradient):
            self.slope = seen.gradient
            self.peak_slope = torch.where(higher.view(-1, 1, 1, 1), self.slope, self.peak_slope)

    def look_back(self, step: int, length: int) -> torch.Tensor:
        """At the end of a window of `length` steps: halves steps and goes back to the peak; for which images, (n,).

        That is where the loss rose too rarely, or where neither step nor peak has changed since the last window.
        """
        oscillates = self._rises(step, length) <= RISING_SHARE * length
        stuck = ~self.halved & (self.last_peak >= self.peak)
        self.halved, self.last_peak = oscillates | stuck, self.peak
        back = self.halved.view(-1, 1, 1, 1)
        self.size = torch.where(back, self.size / 2, self.size)
        self.points = torch.where(back, self.peak_points, self.points)
        self.slope = torch.where(back, self.peak_slope, self.slope)
        return self.halved

    def _rises(self, step: int, length: int) -> torch.Tensor:
        """In how many of the last `length` iterations the loss rose, (n,).

        The iteration before the first counts as 0, as in the reference, which reads a zeroed buffer there.
        """
        window = self.history[:, step - length + 1 : step + 1]
        before = self.history[:, step - length, None] if step >= length else torch.zeros_like(window[:, :1])
        return (window > torch.cat([before, window[:, :-1]], 1)).sum(1)


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

    @property
    def first_length(self) -> float:
        """Length of the first step of a run in units of its radius."""
        return 2.0

    def climb_passes(self, task: str) -> Passes:
        return self.ascent_passes(self.steps, task)

    def ascent_passes(self, steps: int, task: str) -> Passes:
        """How often `ascend` asks the model, at most: a gradient before every step, the loss after the last one."""
        looks = math.ceil(steps / ObjectProblem.count_every) if task == DETECTION and self.returns == "best" else 0
        return Passes(forward=looks + 1) + steps * Passes(self.samples, self.samples)

    def climb(self, problem: BatchProblem, seeds: Sequence[int], start: torch.Tensor | None, restart: int) -> Result:
        allowed = self.ball(problem)
        start_points = self.first_points(allowed, seeds, start, restart)
        return self._result(allowed, self.ascend(problem, allowed, start_points, self.steps))

    def _result(self, allowed: Ball, end: Ascent) -> Result:
        """The iterate that `returns` asks for."""
        details = {"halvings": end.halvings.tolist()}
        if self.returns == "best":
            return Result(allowed.finish(end.points), end.fooled, details=details)
        points = {"last": end.last_points, "best-loss": end.peak_points, BEST_MIOU: end.points}[self.returns]
        return Result(allowed.finish(points), None, details=details)

    def ascend(self, problem: BatchProblem, allowed: Ball, points: torch.Tensor, steps: int) -> Ascent:
        """N steps from given points; with a best one to return an image leaves once it is seen to be lost entirely."""
        loss = self.pixel_loss
        by_overlap = self.returns == BEST_MIOU
        stopping = self.returns == "best" or by_overlap
        counting = problem.count_every == 1
        looking = self.returns == "best" and not counting
        halvings = torch.zeros_like(problem.counts)
        windows = Windows(steps)
        first = problem.evaluate(points, loss, 0.0, count=counting, track=True, overlap=by_overlap)
        run = Climb.begin(problem, allowed, points, first, steps, self.first_length)
        best = Best(points, torch.float64 if by_overlap else torch.int64)
        if counting:
            best.offer(run.rows, points, first.overlap if by_overlap else first.fooled)
        for step in range(steps):
            if stopping and not run.keep_open():
                break
            run.move(self.norm, 1.0 if step == 0 else MOMENTUM)
            last = step == steps - 1
            seen = run.problem.evaluate(
                run.points, loss, (step + 1) / steps, gradient=not last, count=counting, track=True, overlap=by_overlap
            )
            run.note(seen, step)
            if counting:
                run.fooled = seen.fooled
                best.offer(run.rows, run.points, seen.overlap if by_overlap else seen.fooled)
            elif looking and (last or run.problem.counts_after(step + 1)):
                run.fooled = run.problem.won(run.peak_points)
                best.offer(run.rows, run.peak_points, run.fooled)
            if not last and windows.closes():
                halvings[run.rows] += run.look_back(step, windows.length)
                windows.open_next()
        return Ascent(best.points, best.fooled, run.peak_points, run.points, halvings)


SCHEDULES: Mapping[str, Sequence[tuple[float, float]]] = {
    "reduction": ((2.0, 0.3), (1.5, 0.3)),  # SEA's
    "fixed": (),
    "wave": ((1.0, 0.2), (1.5, 0.35)),  # ours: find a basin, look around it, come back
}
"""Radii in units of epsilon, each with its share of the steps; epsilon itself takes the rest."""


@dataclass(frozen=True, kw_only=True)
class Sea(AutoPgd):
    """APGD in a shrinking ball: radii 2, 1.5 and 1 epsilon, each stage from the last one's best point.

    docs/specs/attacks.md, 6.

    Attributes:
        radius: "reduction", or "fixed" for the whole budget at epsilon (the code of Halmosi et al.).
    """

    steps: int = 300
    random_start: bool = True
    radius: str = "reduction"

    schedules: ClassVar[Sequence[str]] = ("reduction", "fixed")

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.radius, "radius", self.schedules)

    def climb_passes(self, task: str) -> Passes:
        return sum((self.ascent_passes(steps, task) for _, steps in self.stages() if steps), Passes())

    def stages(self) -> list[tuple[float, int]]:
        """The radii in units of epsilon, each with its number of steps."""
        early = [(factor, int(share * self.steps)) for factor, share in SCHEDULES[self.radius]]
        return [*early, (1.0, self.steps - sum(steps for _, steps in early))]

    def climb(self, problem: BatchProblem, seeds: Sequence[int], start: torch.Tensor | None, restart: int) -> Result:
        if self.radius == "fixed":
            return super().climb(problem, seeds, start, restart)
        allowed = self.ball(problem, self.stages()[0][0])
        points = self.first_points(allowed, seeds, start, restart)
        halvings = torch.zeros_like(problem.counts)
        for factor, steps in self.stages():
            allowed = self.ball(problem, factor)
            points = allowed.project(points)
            if steps == 0:
                continue
            end = self.ascend(problem, allowed, points, steps)
            halvings += end.halvings
            points = end.points
        end.halvings = halvings
        return self._result(allowed, end)


@dataclass(frozen=True, kw_only=True)
class Lean(Sea):
    """APGD as a member of the battery `gauntlet` (docs/specs/attacks.md, 19).

    Attributes:
        radius: "wave", epsilon, 1.5 epsilon, epsilon again for 20, 35 and 45 % of the steps, besides those of `Sea`.
        returns: "best-miou" for the point with the lowest mIoU of the image, besides those of `AutoPgd`.
        first_step: length of the first step of a stage in units of its radius.
        warm_start: in a battery, the metric, "accuracy" or "miou", by whose worst case so far it starts; None for a
            start of its own. An attack outside a battery is given its `start` by the caller.
        worth_from: in a battery, leave out an image whose figures are all at most this.
    """

    steps: int = 50
    radius: str = "fixed"
    first_step: float = 2.0
    warm_start: str | None = None
    worth_from: float = 0.0

    returnable: ClassVar[Sequence[str]] = (*AutoPgd.returnable, BEST_MIOU)
    schedules: ClassVar[Sequence[str]] = tuple(SCHEDULES)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            first_step=positive(self.first_step, "first_step"),
            worth_from=parse_fraction(self.worth_from, "worth_from"),
        )
        if self.warm_start is not None:
            one_of(self.warm_start, "warm_start", Problem.metrics)

    @property
    def first_length(self) -> float:
        return self.first_step

    @property
    def starts_from(self) -> str | None:
        return self.warm_start

    @property
    def worth_above(self) -> float:
        return self.worth_from

    @property
    def tasks(self) -> tuple[str, ...]:
        """Pixels only: mIoU and its losses have no counterpart on boxes."""
        return (SEGMENTATION,)
