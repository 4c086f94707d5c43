"""PDPGD (linf) and PDGD (l2): descent on weighted margins, ascent on the weights (docs/specs/attacks.md, 10)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.nn import functional

from gauntlet.threats.attacks.algorithms.minimum_norm import MinimumNorm, Smallest, signed_margin
from gauntlet.threats.attacks.engine.norms import image_length
from gauntlet.threats.attacks.engine.pixels import Pixels
from gauntlet.threats.attacks.engine.problem import Problem
from gauntlet.threats.attacks.engine.result import Result


def shrink_linf(values: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
    """The proximal map of amount * |.|_inf per image: values clipped to the level σ with Σ max(|v| - σ, 0) = amount.

    Equals v - amount * Proj_{|.|_1 <= 1}(v / amount). σ by Newton's method, which is exact after finitely many steps
    since the sum is convex and piecewise linear in σ.

    Args:
        values: (N, 3, H, W).
        amount: (N, 1, 1, 1), positive.
    """
    sizes = values.abs().flatten(1)
    amount = amount.view(-1, 1)
    level = torch.zeros_like(amount)
    for _ in range(100):
        above = (sizes - level).clamp_min(0)
        count = (above > 0).sum(1, keepdim=True).clamp_min(1)
        next_level = level + (above.sum(1, keepdim=True) - amount) / count
        rising = next_level > level * (1 + 4 * torch.finfo(values.dtype).eps)  # image by image: batch mates go on
        if not rising.any():
            break
        level = torch.where(rising, next_level, level)
    # Newton's first step goes below 0 where the whole perturbation is smaller than the amount: nothing is left then.
    level = torch.where(sizes.sum(1, keepdim=True) <= amount, torch.zeros_like(level), level).view(-1, 1, 1, 1)
    return torch.minimum(torch.maximum(values, -level), level)


@dataclass(frozen=True, kw_only=True)
class PrimalDual(MinimumNorm):
    """PDPGD for linf, PDGD for l2.

    Attributes:
        alpha: the primal rate η₀ (0.01 in Halmosi et al. and by Rony; adv_lib's default is 0.1).
    """

    alpha: Any = 0.01

    synonyms: ClassVar[Mapping[str, str]] = {"lr": "alpha"}

    dual_rate: ClassVar[float] = 0.1
    inner_steps: ClassVar[int] = 5

    def run(self, problem: Problem, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        images = problem.images
        shift = torch.zeros_like(images) if start is None else start - images
        kept = Smallest(problem, self.norm, self.threshold)
        duals = torch.where(problem.counted, -problem.counts.to(images).log().view(-1, 1, 1), -math.inf)
        limit = math.log(1e12) if self.norm == "linf" else math.log(1e6)
        weights = _weights(duals)
        first, second = torch.zeros_like(images), torch.zeros_like(images)
        for step in range(self.steps):
            if step:
                weights = 0.9 * weights + 0.1 * _weights(duals)
            points = (images + shift).clamp(0, 1)
            fooled = torch.zeros_like(problem.counts)
            signs = torch.zeros_like(duals)

            def visit(
                pixels: Pixels,
                part: slice,
                fooled: torch.Tensor = fooled,
                signs: torch.Tensor = signs,
                weights: torch.Tensor = weights,
            ) -> torch.Tensor:
                fooled[part] = pixels.fooled_counts
                margin = signed_margin(pixels)
                signs[part] = margin.detach().sign() * pixels.counted
                return -weights[part] * torch.stack([functional.softplus(each) for each in margin])

            slope = -problem.sweep(points, visit)
            kept.offer(points, fooled)
            share = weights.flatten(1).sum(1).view(-1, 1, 1, 1)
            if self.norm == "l2":
                slope = slope + (1 - share) * shift / image_length(shift).clamp_min(1e-12)
            first = 0.9 * first + 0.1 * slope
            second = 0.999 * second + 0.001 * slope**2
            metric = (second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8
            rate = self.alpha * 0.01 ** (step / self.steps)
            shift = _boxed(shift - rate / (1 - 0.9 ** (step + 1)) * first / metric, images)
            if self.norm == "linf":
                shift = self._proximal(shift, metric, (1 - share) / share * rate, images)
            decay = 0.9 * (self.steps - 1 - step) / max(self.steps - 1, 1) + 0.1
            duals = (duals + self.dual_rate * decay * signs).clamp(-limit, limit)
            duals = torch.where(problem.counted, duals, -math.inf)
        return self.smallest(problem, kept.points, kept.fooled, {})

    def _proximal(
        self, shift: torch.Tensor, metric: torch.Tensor, amount: torch.Tensor, images: torch.Tensor
    ) -> torch.Tensor:
        """The proximal step of the norm in the metric of Adam, by up to five inner iterations per image."""
        largest = metric.amax(dim=(1, 2, 3), keepdim=True)
        amount, ratio = amount / largest, metric / largest
        nearest = shift
        going = torch.ones(len(shift), dtype=torch.bool, device=shift.device)
        for _ in range(self.inner_steps):
            moved = nearest - ratio * (nearest - shift)
            following = _boxed(shrink_linf(moved, amount), images)
            change = image_length(following - nearest).flatten() / image_length(following).flatten()
            nearest = torch.where(going.view(-1, 1, 1, 1), following, nearest)
            going &= change > 0.01
            if not going.any():
                break
        return nearest


def _weights(duals: torch.Tensor) -> torch.Tensor:
    """softmax([0, λ]) without its first entry: what each pixel's margin weighs against the norm."""
    flat = torch.cat([torch.zeros_like(duals[:, :1, 0]), duals.flatten(1)], 1)
    return torch.softmax(flat, 1)[:, 1:].view_as(duals)


def _boxed(shift: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    return torch.minimum(torch.maximum(shift, -images), 1 - images)
