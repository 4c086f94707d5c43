"""Square Attack: random squares, kept where the loss falls (Andriushchenko et al. 2020; docs/specs/beyond.md, 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from gauntlet.numbers import parse_fraction
from gauntlet.tasks import DETECTION, SEGMENTATION
from gauntlet.threats.attacks.asking.object_verdicts import first_look
from gauntlet.threats.attacks.asking.query_attack import Lowest, QueryAttack, regions_of, uniform_stream
from gauntlet.threats.attacks.asking.square_moves import L2Moves, LinfMoves, Moves, square_share
from gauntlet.threats.attacks.asking.verdicts import PIXEL_SCORES, Judge, PixelJudge, Verdicts
from gauntlet.threats.attacks.detection.problem import ObjectProblem
from gauntlet.threats.attacks.engine.constraints import Ball
from gauntlet.threats.attacks.engine.option_checks import one_of, whole
from gauntlet.threats.attacks.engine.problem import BatchProblem
from gauntlet.threats.attacks.engine.result import Result
from gauntlet.threats.options import LOSS, Option
from gauntlet.threats.passes import Passes

MOVES: dict[str, type[Moves]] = {"linf": LinfMoves, "l2": L2Moves}
ON_DETECTORS = ("margin", "accuracy")
"""The losses that a detector has: the scores of its own detections, and the share of F1 that stands."""


@dataclass(frozen=True, kw_only=True)
class Square(QueryAttack):
    """A candidate differs from the best point in one random square; it is taken where the loss is lower.

    Squares shrink with the number of queries. An image stops when it succeeds (`threshold`).

    Attributes:
        loss: what is lowered, summed over the pixels that count: "margin" (the label's logit less its strongest
            rival's), "accuracy" (right pixels), "ce" (ln p of the label), "clipped" (positive margins). On a detector
            "margin" is the sum of the scores of its own confident detections, "accuracy" the share of F1 that stands.
        restarts: runs with fresh draws; the best point of all is kept.
        share: of the pixels that the first squares cover.
    """

    loss: str = field(default="margin", metadata=LOSS.metadata)
    restarts: int = field(default=1, metadata=Option(place=2, swept=True).metadata)
    share: Any = field(default=0.8, metadata=Option(swept=True).metadata)

    losses: ClassVar[Sequence[str]] = tuple(PIXEL_SCORES)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.loss, "loss", self.losses)
        whole(self.restarts, "restarts", 1)
        self._set(share=parse_fraction(self.share, "share"))

    @property
    def tasks(self) -> tuple[str, ...]:
        return (SEGMENTATION, DETECTION) if self.loss in ON_DETECTORS else (SEGMENTATION,)

    def passes(self, task: str = SEGMENTATION) -> Passes:
        return self.posing_passes(task) + Passes(forward=1 + self.restarts * self.queries)

    def run(self, problem: Any, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        judge, clean = self._first_look(problem)
        best = Lowest(problem.images, clean, problem.counts, self.threshold)
        for restart in range(self.restarts if self.epsilon > 0 else 0):
            rows = best.open
            if len(rows) == 0:
                break
            begin = None if start is None or restart > 0 else start[rows]
            part = problem.select(rows)
            found = self._walk(part, judge.select(rows), [seeds[row] for row in rows.tolist()], begin, restart)
            best.offer(rows, found.points, Verdicts(found.loss, found.fooled))
        return Result(self.ball(problem).finish(best.points), best.fooled)

    def _first_look(self, problem: Any) -> tuple[Judge, Verdicts]:
        """Who judges points, and what it says about the clean images; one query."""
        if isinstance(problem, ObjectProblem):
            return first_look(problem, self.loss, self.object_confidence)
        judge = PixelJudge(problem, PIXEL_SCORES[self.loss])
        return judge, judge.judge(problem.images)

    def _walk(
        self, problem: BatchProblem, judge: Judge, seeds: Sequence[int], start: torch.Tensor | None, restart: int
    ) -> Lowest:
        """One run of every image: the first point counts as a query too."""
        allowed = self.ball(problem)
        moves = [
            MOVES[self.norm](image, region, self.epsilon, uniform_stream(seed, f"square|{restart}"))
            for image, region, seed in zip(problem.images, regions_of(problem), seeds, strict=True)
        ]
        points = start if start is not None else torch.stack([each.start() for each in moves])
        points = allowed.project(points) if start is not None else self._inside(allowed, points)
        best = Lowest(points, judge.judge(points), problem.counts, self.threshold)
        rows, near, asked = torch.arange(len(problem), device=points.device), allowed, judge
        steps = self.queries - 1
        for step in range(steps):
            if len(best.open) < len(rows):
                rows = best.open
                if len(rows) == 0:
                    break
                near, asked = allowed.select(rows), judge.select(rows)
            share = square_share(self.share, step, steps)
            candidates = torch.stack([moves[row].step(best.points[row], share) for row in rows.tolist()])
            candidates = self._inside(near, candidates)
            best.offer(rows, candidates, asked.judge(candidates))
        return best

    def _inside(self, allowed: Ball, points: torch.Tensor) -> torch.Tensor:
        """Points in the ball and the box; in l2 moves end on the sphere, up to rounding that the result is freed of."""
        return allowed.project(points) if self.norm == "linf" else points.clamp(0, 1)
