"""What an algorithm hands back for the images it ran on, and the outcome of the whole batch made from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gauntlet.threats.attacks.engine.norms import image_norm
from gauntlet.threats.attacks.engine.outcome import Outcome, Queries
from gauntlet.threats.attacks.engine.problem import BatchProblem, Tally, steady


@dataclass
class Result:
    """The points that an algorithm made of the images of a problem.

    Attributes:
        points: (N, 3, H, W), allowed points.
        fooled: how much is won at these points, int64 (N,), or None when they were not evaluated.
        norms: float64 (N,), or None for the norm of points - images.
        unclipped: the points before clipping to epsilon, or None.
        details: facts per image by name, lists of N entries.
    """

    points: torch.Tensor
    fooled: torch.Tensor | None
    norms: torch.Tensor | None = None
    unclipped: torch.Tensor | None = None
    details: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def of_nothing(cls, images: torch.Tensor) -> Result:
        """The result where no image has anything to attack."""
        return cls(images[:0].clone(), torch.zeros(0, dtype=torch.int64, device=images.device))


def outcome_of(problem: BatchProblem, rows: torch.Tensor, result: Result, *, norm: str, threshold: float) -> Outcome:
    """The outcome of a batch.

    Args:
        problem: the whole batch.
        rows: which of its images were attacked; the others are returned clean.
        result: for these rows, in order.
        norm, threshold: of the attack.
    """
    images = _with_rows(problem.images, rows, result.points)
    norms = image_norm(images - problem.images, norm)
    if result.norms is not None:
        norms[rows] = result.norms.to(norms)
    unclipped = None if result.unclipped is None else _with_rows(problem.images, rows, result.unclipped)
    tally = problem.tally
    judged = images if unclipped is None else unclipped
    return Outcome(
        images=images,
        norms=norms,
        queries=Queries(tally.forward.clone(), tally.backward.clone()),
        threshold=threshold,
        counted=problem.counts,
        count_fooled=_counter(problem, rows, judged, result.fooled),
        details={**_gradient_details(tally), **_spread(result.details, rows.tolist(), len(images))},
        region=problem.region,
        unclipped=unclipped,
        originals=problem.images,
    )


def _with_rows(images: torch.Tensor, rows: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """The images with some rows replaced."""
    replaced = images.clone()
    replaced[rows] = points
    return replaced


def _gradient_details(tally: Tally) -> dict[str, list[Any]]:
    """What the gradients of every image looked like; None where an image never had one."""
    return {
        "zero_gradient_share": [None if math.isnan(value) else value for value in tally.zero_gradient.tolist()],
        "non_finite_gradients": tally.non_finite.tolist(),
    }


def _spread(details: Mapping[str, Sequence[Any]], rows: Sequence[int], count: int) -> dict[str, list[Any]]:
    """Facts about some rows as facts about all `count` images, None elsewhere."""
    columns: dict[str, list[Any]] = {}
    for key, values in details.items():
        columns[key] = [None] * count
        for row, value in zip(rows, values, strict=True):
            columns[key][row] = value
    return columns


def _counter(
    problem: BatchProblem, rows: torch.Tensor, images: torch.Tensor, fooled: torch.Tensor | None
) -> Callable[[], torch.Tensor]:
    """A function that counts what is won at the images, int64 (N,); it asks the model where `fooled` is unknown."""

    def count() -> torch.Tensor:
        total = torch.zeros(len(images), dtype=torch.int64, device=images.device)
        if fooled is not None:
            total[rows] = fooled
        elif len(rows):
            with steady(problem.model, images.device, 0):
                total[rows] = problem.select(rows).won(images[rows])
        return total

    return count
