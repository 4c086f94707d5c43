"""Lines of ±epsilon, chosen by label maps alone (after Chen et al. 2024; docs/specs/beyond.md, 5.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.errors import GauntletError
from gauntlet.threats.attacks.asking.query_attack import (
    Lowest,
    QueryAttack,
    Stream,
    bounding_box,
    regions_of,
    uniform_stream,
)
from gauntlet.threats.attacks.asking.verdicts import LabelJudge
from gauntlet.threats.attacks.engine.option_checks import one_of
from gauntlet.threats.attacks.engine.problem import Problem
from gauntlet.threats.attacks.engine.result import Result
from gauntlet.threats.options import LOSS

SCORES = ("accuracy", "miou")
EXPLORING = 5
"""One of so many queries explores."""

Signs = npt.NDArray[np.float64]


class Lines:
    """The noise of one image: ±1 along its rows or along its columns, and which signs are tried next.

    Lines lie in the bounding box of the region that may change; (h, w) is its size.

    Args:
        image: (C, H, W), clean.
        region: bool (H, W) of pixels that may change, or None for all.
        stream: the draws of this image.
    """

    def __init__(self, image: torch.Tensor, region: torch.Tensor | None, stream: Stream) -> None:
        self.box, self.stream = bounding_box(image, region), stream
        self.image, self.size = image, image[self.box].shape[1:]
        self.axis, self.signs = 0, np.empty(0)
        self.level, self.block = 0, 0
        self._tried: tuple[int, Signs] = (0, self.signs)

    def explore(self, turn: int) -> torch.Tensor:
        """Fresh signs: rows at even turns, columns at odd ones."""
        axis = turn % 2
        self._tried = (axis, np.where(self.stream(self.size[axis]) >= 0.5, 1.0, -1.0))
        return self._field()

    def calibrate(self) -> torch.Tensor:
        """The kept signs with one block flipped: blocks of all lines, of half of them, and so on to single lines."""
        count = len(self.signs)
        length = math.ceil(count / 2**self.level)
        first = self.block * length
        signs = self.signs.copy()
        signs[first : first + length] *= -1
        self._tried = (self.axis, signs)
        self.block += 1
        if self.block * length >= count:
            self.level, self.block = (0 if length == 1 else self.level + 1), 0
        return self._field()

    def keep(self) -> None:
        """What was tried last becomes what is kept."""
        self.axis, self.signs = self._tried

    def _field(self) -> torch.Tensor:
        axis, signs = self._tried
        field = torch.zeros_like(self.image)
        field[self.box] = torch.from_numpy(signs).to(field).view((-1, 1) if axis == 0 else (1, -1))
        return field


@dataclass(frozen=True, kw_only=True)
class LabelOnly(QueryAttack):
    """Needs nothing but label maps: noise that is constant along lines has few signs to find.

    A fifth of the queries draws lines at random; the rest flips blocks of the best ones.

    Attributes:
        loss: what is lowered, "accuracy" (right pixels) or "miou" (of the image).
    """

    queries: int = 200
    loss: str = field(default="accuracy", metadata=LOSS.metadata)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.loss, "loss", SCORES)
        if self.norm != "linf":
            raise GauntletError(f"label-only is defined for the norm linf, not '{self.norm}'; use square for l2.")

    def run(self, problem: Problem, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        if start is not None:
            raise GauntletError("label-only draws lines of its own and has no start; leave it out.")
        judge = LabelJudge(problem, self.loss == "miou")
        allowed = self.ball(problem)
        best = Lowest(problem.images, judge.judge(problem.images), problem.counts, threshold=1.0)
        # The first lines are taken whatever their score; the clean image is what is returned if none is better.
        kept = torch.full_like(best.loss, math.inf)
        lines = [
            Lines(image, region, uniform_stream(seed, "lines"))
            for image, region, seed in zip(problem.images, regions_of(problem), seeds, strict=True)
        ]
        exploring = max(1, self.queries // EXPLORING)
        for turn in range(self.queries if self.epsilon > 0 else 0):
            rows = best.open
            if len(rows) == 0:
                break
            fields = [lines[row].explore(turn) if turn < exploring else lines[row].calibrate() for row in rows.tolist()]
            points = allowed.select(rows).project(problem.images[rows] + self.epsilon * torch.stack(fields))
            verdicts = judge.select(rows).judge(points)
            better = verdicts.loss < kept[rows]
            kept[rows[better]] = verdicts.loss[better]
            for row in rows[better].tolist():
                lines[row].keep()
            best.offer(rows, points, verdicts)
        return Result(best.points, best.fooled)
