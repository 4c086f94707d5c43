"""FMN for dense prediction: a ball whose radius follows the boundary (Pintor et al. 2021; Rony et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gauntlet.threats.attacks.algorithms.minimum_norm import MinimumNorm, Smallest, required, signed_margin
from gauntlet.threats.attacks.engine.constraints import ball
from gauntlet.threats.attacks.engine.norms import image_length, image_norm
from gauntlet.threats.attacks.engine.option_checks import one_of, positive
from gauntlet.threats.attacks.engine.pixels import Pixels
from gauntlet.threats.attacks.engine.problem import Problem
from gauntlet.threats.attacks.engine.result import Result


@dataclass(frozen=True, kw_only=True)
class FastMinimumNorm(MinimumNorm):
    """FMN: the loss is a mean of margins, success the share of fooled pixels.

    Attributes:
        alpha: first step size as root mean square over the elements that may change, so that it means the same at any
            image size (the paper's 1.0 is the Euclidean length, 0.036 for its 784 elements); falls to a hundredth by
            a cosine.
        gamma: first relative change of the radius; falls to `last_gamma` likewise.
        pixels: whose margins count: the "open" ones, still to be won, less the hardest that the threshold lets go
            (as ALMAProx leaves them out), or "all", as in Rony's adaptation. With all of them the mean is soon carried
            by pixels that are won anyway: at a threshold of 0.9 the result is nearly three times as large on the
            reference fixture, at 0.99 it fails there.
    """

    alpha: Any = 0.02
    gamma: Any = 0.05
    last_gamma: Any = 0.001
    pixels: str = "open"

    synonyms: ClassVar[Mapping[str, str]] = {"lr": "alpha"}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(gamma=positive(self.gamma, "gamma"), last_gamma=positive(self.last_gamma, "last_gamma"))
        one_of(self.pixels, "pixels", ("open", "all"))

    def run(self, problem: Problem, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        images = problem.images
        points = images if start is None else start
        kept = Smallest(problem, self.norm, self.threshold)
        furthest = image_norm(torch.maximum(images, 1 - images), self.norm)
        size = torch.full_like(furthest, math.inf)
        counts = problem.counts
        free = torch.full_like(furthest, images[0].numel())
        if problem.region is not None:
            free = images.shape[1] * problem.region.flatten(1).sum(1).double()
        unit_length = free.sqrt().to(images.dtype).view(-1, 1, 1, 1)
        for step in range(self.steps):
            cosine = (1 + math.cos(math.pi * step / self.steps)) / 2
            rate = self.alpha * (0.01 + 0.99 * cosine)
            change = self.last_gamma + (self.gamma - self.last_gamma) * cosine
            fooled = torch.zeros_like(counts)
            losses = torch.zeros_like(furthest)

            def visit(
                pixels: Pixels,
                part: slice,
                fooled: torch.Tensor = fooled,
                losses: torch.Tensor = losses,
                progress: float = step / max(self.steps - 1, 1),
            ) -> torch.Tensor:
                fooled[part] = pixels.fooled_counts
                margin = signed_margin(pixels)
                weights = pixels.counted
                if self.pixels == "open":
                    weights = required(margin.detach(), pixels.counted, counts[part], self.threshold, progress)
                    margin = margin.clamp_min(0)
                values = margin * weights / counts[part].view(-1, 1, 1)
                losses[part] = values.detach().flatten(1).sum(1).double()
                return -values

            slope = problem.sweep(points, visit)
            norms = image_norm(points - images, self.norm)
            successful = kept.offer(points, fooled)
            steepness = slope.abs().flatten(1).sum(1).double() if self.norm == "linf" else image_norm(slope, "l2")
            to_boundary = norms + losses.abs() / steepness.clamp_min(1e-12)
            grown = torch.where(kept.succeeded, size * (1 + change), to_boundary)
            size = torch.where(successful, torch.minimum(size * (1 - change), kept.norms), grown)
            size = torch.minimum(size, furthest)
            allowed = ball(self.norm, images, size, problem.region)
            points = allowed.project(points + rate * unit_length * slope / image_length(slope).clamp_min(1e-12))
        return self.smallest(problem, kept.points, kept.fooled, {})
