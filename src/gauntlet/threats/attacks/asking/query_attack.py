"""What attacks share that ask the model and never differentiate it: a budget of queries, and draws per image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.errors import GauntletError
from gauntlet.seeding import numpy_generator
from gauntlet.tasks import SEGMENTATION
from gauntlet.threats.attacks.asking.verdicts import Verdicts
from gauntlet.threats.attacks.engine.constraints import Ball, ball
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.option_checks import radius, whole
from gauntlet.threats.attacks.engine.outcome import reached
from gauntlet.threats.attacks.engine.problem import BatchProblem
from gauntlet.threats.attacks.engine.seeds import image_seed
from gauntlet.threats.attacks.watching import show_points
from gauntlet.threats.options import EPSILON, QUERIES
from gauntlet.threats.passes import Passes

Stream = Callable[[int], npt.NDArray[np.float64]]
"""The next numbers of an image, uniform in [0, 1): how many to an array."""


def uniform_stream(seed: int, purpose: str) -> Stream:
    """The draws of one image for one purpose."""
    return numpy_generator(image_seed(seed, purpose)).random


Window = tuple[slice, slice, slice]
"""A rectangle of an image (C, H, W), with all of its channels."""


def bounding_box(image: torch.Tensor, region: torch.Tensor | None) -> Window:
    """The smallest rectangle of an image (C, H, W) that holds its region, bool (H, W); all of it without one."""
    if region is None:
        return slice(None), slice(0, image.shape[1]), slice(0, image.shape[2])
    rows, columns = (torch.nonzero(region.any(axis)).flatten().tolist() for axis in (1, 0))
    if not rows:
        return slice(None), slice(0, 1), slice(0, 1)
    return slice(None), slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def regions_of(problem: BatchProblem) -> list[torch.Tensor | None]:
    """For every image the pixels that may change, bool (H, W), or None for all."""
    return [None] * len(problem) if problem.region is None else [*problem.region]


@dataclass(frozen=True, kw_only=True)
class QueryAttack(Attack):
    """An attack that asks the model about one point after the other.

    The first look is at the clean image: what an attack returns is never worse than that by its own loss.

    Attributes:
        epsilon: radius on the [0, 1] scale; 8/255 (linf) or 64/255 (l2) by default.
        queries: how often the model is asked about an image after the look at the clean one, at most, in every restart.
    """

    needs_gradient: ClassVar[bool] = False

    epsilon: Any = field(default=None, metadata=EPSILON.metadata)
    queries: int = field(default=1000, metadata=QUERIES.metadata)

    def __post_init__(self) -> None:
        super().__post_init__()
        default = 8 / 255 if self.norm == "linf" else 64 / 255
        self._set(epsilon=radius(default if self.epsilon is None else self.epsilon, self.norm))
        whole(self.queries, "queries", 1)
        if self.samples != 1:
            raise GauntletError(f"the attack '{self.name}' has no gradients to average; leave samples at 1.")

    def passes(self, task: str = SEGMENTATION) -> Passes:
        return self.posing_passes(task) + Passes(forward=1 + self.queries)

    def ball(self, problem: BatchProblem) -> Ball:
        """Where the attack may go."""
        size = torch.full((len(problem),), self.epsilon, dtype=torch.float64, device=problem.images.device)
        return ball(self.norm, problem.images, size, problem.region)


class Lowest:
    """The point of every image with the lowest loss so far; one that succeeds is taken whatever its loss.

    Args:
        points: (N, 3, H, W), the first ones. verdicts: on them.
        counts: int64 (N,), what there is to win. threshold: share of it from which an image is done.
    """

    def __init__(self, points: torch.Tensor, verdicts: Verdicts, counts: torch.Tensor, threshold: float) -> None:
        self.points = points.clone()
        self.loss, self.fooled = verdicts.loss.clone(), verdicts.fooled.clone()
        self.counts, self.threshold = counts, threshold

    @property
    def open(self) -> torch.Tensor:
        """The rows of the images that have not succeeded."""
        return torch.nonzero(~reached(self.fooled, self.counts, self.threshold)).flatten()

    def offer(self, rows: torch.Tensor, points: torch.Tensor, verdicts: Verdicts) -> torch.Tensor:
        """Points of some rows, in order; which of them are taken, bool (n,)."""
        done = reached(verdicts.fooled, self.counts[rows], self.threshold)
        taken = done | (verdicts.loss < self.loss[rows])
        where = rows[taken]
        self.points[where] = points[taken]
        self.loss[where], self.fooled[where] = verdicts.loss[taken], verdicts.fooled[taken]
        show_points(self.points)
        return taken
