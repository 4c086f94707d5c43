"""DAG: normalised gradient steps on the margins of the pixels that are still right (attacks.md, 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gauntlet.threats.attacks.attack import Result, one_of, register
from gauntlet.threats.attacks.minimum import MinimumNorm, signed_margin
from gauntlet.threats.attacks.norms import image_length
from gauntlet.threats.attacks.outcome import reached
from gauntlet.threats.attacks.pixels import Pixels
from gauntlet.threats.attacks.problem import Problem


@dataclass(frozen=True, kw_only=True)
class DenseAdversary(MinimumNorm):
    """DAG; an image stops at its first successful point.

    Attributes:
        alpha: the step γ in the attack's norm (0.001 and 0.003 in S001).
        on_fail: what an image without success returns: its "last" point, or "clean" as adv_lib does.
    """

    steps: int = 200
    alpha: Any = 0.001
    on_fail: str = "last"

    synonyms: ClassVar[Mapping[str, str]] = {"gamma": "alpha"}
    settled: ClassVar[Mapping[str, Any]] = {"random_start": False, "restarts": 1, "returns": "last"}

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.on_fail, "on_fail", ("last", "clean"))

    def run(self, problem: Problem, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        whole_problem = problem
        points = problem.images.clone()
        fooled = torch.zeros_like(problem.counts)
        rows = torch.arange(len(problem), device=points.device)
        shift = torch.zeros_like(points) if start is None else start - points
        for _ in range(self.steps):
            wanted = problem.images + shift
            current = wanted.clamp(0, 1)
            won = torch.zeros_like(problem.counts)

            def visit(pixels: Pixels, part: slice, won: torch.Tensor = won) -> torch.Tensor:
                won[part] = pixels.fooled_counts
                return -signed_margin(pixels).clamp_min(0) * pixels.counted

            slope = problem.sweep(current, visit)
            done = reached(won, problem.counts, self.threshold)
            points[rows[done]], fooled[rows[done]] = current[done], won[done]
            if done.any():
                kept = torch.nonzero(~done).flatten()
                rows, problem = rows[kept], problem.select(kept)
                shift, wanted, current, slope = shift[kept], wanted[kept], current[kept], slope[kept]
                if len(rows) == 0:
                    break
            slope = slope * (wanted == current)  # the box lets no gradient through where it holds a pixel
            size = slope.abs().amax(dim=(1, 2, 3), keepdim=True) if self.norm == "linf" else image_length(slope)
            shift = shift + self.alpha * slope / size.clamp_min(1e-8)
        if len(rows) and self.on_fail == "last":
            points[rows] = (problem.images + shift).clamp(0, 1)
        if len(rows):
            fooled[rows] = problem.look(points[rows]).fooled_counts
        return self.smallest(whole_problem, points, fooled, {})


register("dag", DenseAdversary)
