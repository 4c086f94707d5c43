"""What minimum-perturbation attacks share: success at a share of pixels, the smallest point, clipping to epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from gauntlet.threats.attacks.engine.constraints import ball
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.norms import image_norm
from gauntlet.threats.attacks.engine.option_checks import one_of, radius, step_length, whole
from gauntlet.threats.attacks.engine.outcome import reached
from gauntlet.threats.attacks.engine.pixels import Pixels
from gauntlet.threats.attacks.engine.problem import BatchProblem, Problem
from gauntlet.threats.attacks.engine.result import Result
from gauntlet.threats.options import ALPHA, EPSILON, STEPS

CLIPS = ("elementwise", "rescale")


def signed_margin(pixels: Pixels) -> torch.Tensor:
    """M of docs/specs/attacks.md: negative where the attack has what it wants, (N, H, W), differentiable."""
    return -pixels.margin if pixels.targeted else pixels.margin


def required(
    values: torch.Tensor, counted: torch.Tensor, counts: torch.Tensor, threshold: float, progress: float
) -> torch.Tensor:
    """Pixels that an attack works on, bool (N, H, W): the hardest are left out, more and more of them.

    At the end as many are left out as the threshold allows to fail, less one: of the pixels that may fail, the easiest
    is kept (docs/specs/attacks.md, 9.4).

    Args:
        values: (N, H, W), larger where a pixel is harder.
        counted: bool (N, H, W). counts: their number per image.
        threshold: share of pixels that must be fooled.
        progress: of the attack, in [0, 1].
    """
    spared = ((1 - threshold) * counts.double() * progress).floor().long()
    active = counted.clone()
    masked = values.masked_fill(~counted, float("-inf")).flatten(1)
    for row in torch.nonzero(spared >= 1).flatten().tolist():
        bound = masked[row].topk(int(spared[row])).values[-1]
        active[row] &= values[row] <= bound
    return active


@dataclass(frozen=True, kw_only=True)
class MinimumNorm(Attack):
    """An attack that looks for the smallest perturbation that fools a share of the pixels.

    Attributes:
        threshold: this share, 0.99 by default.
        steps: iterations; None where they depend on the task.
        alpha: step size; its meaning is the attack's own; None where it depends on the task.
        epsilon: None for the result as it is; else `images` are clipped to this ball, while `norms` and `success`
            still speak of the result before clipping (`unclipped`).
        clip: "elementwise" clamps each element (the code of Halmosi et al.), "rescale" shrinks the whole perturbation
            (their text); in l2 both shrink.
    """

    steps: Any = field(default=500, metadata=STEPS.metadata)
    alpha: Any = field(default=0.01, metadata=ALPHA.metadata)
    epsilon: Any = field(default=None, metadata=EPSILON.metadata)
    clip: str = "elementwise"

    settled: ClassVar[Mapping[str, Any]] = {"random_start": False, "restarts": 1, "returns": "best"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps is not None:
            whole(self.steps, "steps", 1)
        if self.alpha is not None:
            self._set(alpha=step_length(self.alpha, self.norm))
        if self.epsilon is not None:
            self._set(epsilon=radius(self.epsilon, self.norm))
        one_of(self.clip, "clip", CLIPS)

    def smallest(
        self, problem: BatchProblem, points: torch.Tensor, fooled: torch.Tensor | None, details: dict[str, Any]
    ) -> Result:
        """The result from an attack's points, clipped where an epsilon is given; `fooled` where it is known."""
        norms = image_norm(points - problem.images, self.norm)
        if self.epsilon is None:
            return Result(points, fooled, norms, details=details)
        sizes = torch.full((len(points),), self.epsilon, dtype=torch.float64, device=points.device)
        allowed = ball(self.norm, problem.images, sizes, problem.region)
        clipped = points
        if self.clip == "rescale" and self.norm == "linf":
            factor = (sizes / norms.clamp_min(1e-12)).clamp(max=1).view(-1, 1, 1, 1)
            clipped = problem.images + (points - problem.images) * factor.to(points.dtype)
        return Result(allowed.finish(allowed.project(clipped)), fooled, norms, points, details)


class Smallest:
    """The smallest successful point of every image; before there is one, the one that fools most.

    docs/specs/attacks.md, 9.2.

    Args:
        problem: the images.
        norm: "linf" or "l2".
        threshold: share of counted pixels that makes a point successful.
    """

    def __init__(self, problem: Problem, norm: str, threshold: float) -> None:
        count = len(problem)
        device = problem.images.device
        self.points = problem.images.clone()
        self.norms = torch.full((count,), float("inf"), dtype=torch.float64, device=device)
        self.fooled = torch.zeros(count, dtype=torch.int64, device=device)
        self.succeeded = torch.zeros(count, dtype=torch.bool, device=device)
        self._problem, self._norm, self._threshold = problem, norm, threshold

    def offer(self, points: torch.Tensor, fooled: torch.Tensor) -> torch.Tensor:
        """Takes the points that are better; returns which are successful, bool (N,)."""
        counts = self._problem.counts
        norms = image_norm(points - self._problem.images, self._norm)
        successful = reached(fooled, counts, self._threshold)
        more = (fooled >= self.fooled) | successful
        better = (successful & (norms <= self.norms)) | (~self.succeeded & more)
        self.succeeded |= successful
        self.points[better] = points[better]
        self.fooled[better] = fooled[better]
        self.norms[better] = norms[better]
        return successful
