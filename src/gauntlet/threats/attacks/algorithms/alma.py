"""ALMAProx: an augmented Lagrangian with a constraint per pixel and a proximal step (docs/specs/attacks.md, 9)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch

from gauntlet.errors import GauntletError
from gauntlet.threats.attacks.algorithms.minimum_norm import MinimumNorm, Smallest, required
from gauntlet.threats.attacks.engine.option_checks import one_of
from gauntlet.threats.attacks.engine.outcome import reached
from gauntlet.threats.attacks.engine.pixels import Pixels
from gauntlet.threats.attacks.engine.problem import Problem
from gauntlet.threats.attacks.engine.result import Result

PENALTY_GRADS = ("exact", "reference")


def constraint(pixels: Pixels, offset: float = 1e-4) -> torch.Tensor:
    """D of docs/specs/attacks.md, 9: the margin over a spread of logits, (N, H, W); at most 0 where a pixel is won."""
    needed = 4 if pixels.targeted else 3
    if pixels.logits.shape[1] < needed:
        raise GauntletError(
            f"alma-prox needs a model of at least {needed} classes here, this one has {pixels.logits.shape[1]}; "
            "use pdpgd or dag."
        )
    if not pixels.targeted:
        return (pixels.margin + offset) / (pixels.spread(0, 2) + 1e-8)
    return -(pixels.margin + offset) / (pixels.spread(0, 2, 3) + 1e-8)


def penalty_slope(
    values: torch.Tensor, rho: torch.Tensor, multiplier: torch.Tensor, penalty_grad: str = "exact"
) -> torch.Tensor:
    """P'(c; ρ, μ) of P = μc + μρc² + ρ²c³/6 for c >= 0 and μc / (1 - max(1, ρ) c) for c < 0.

    The public code has μc in place of μ in the branch c >= 0 ("reference"). Which of both is stronger depends on the
    network and on the number of steps (docs/attacks.md).
    """
    linear = multiplier if penalty_grad == "exact" else multiplier * values
    positive = linear + 2 * multiplier * rho * values + rho**2 * values**2 / 2
    negative = multiplier / (1 - rho.clamp_min(1) * values.clamp_max(0)) ** 2
    return torch.where(values >= 0, positive, negative)


def proximal_linf(
    wanted: torch.Tensor, metric: torch.Tensor, amount: torch.Tensor, low: torch.Tensor, high: torch.Tensor
) -> torch.Tensor:
    """Argmin Σ H (u - v)² + 2 λ |u|_inf over low <= u <= high, per image.

    The solution is v clipped to the box and then to ±σ. σ by ternary search to 1e-6, the way of the reference: the
    attack is chaotic enough for a better search to end elsewhere, no nearer on average.

    Args:
        wanted, metric: v and H, (N, 3, H, W).
        amount: λ, (N, 1, 1, 1).
        low, high: bounds with low <= 0 <= high.
    """
    boxed = torch.minimum(torch.maximum(wanted, low), high)
    levels = [
        _level(boxed[row].abs(), wanted[row].abs(), metric[row], amount[row].item()) for row in range(len(wanted))
    ]
    level = torch.tensor(levels, dtype=boxed.dtype, device=boxed.device).view(-1, 1, 1, 1)
    return torch.minimum(torch.maximum(boxed, -level), level)


def _level(reach: torch.Tensor, pull: torch.Tensor, weight: torch.Tensor, amount: float) -> float:
    """The σ that minimises Σ H (|v| - min(|v̄|, σ))² + 2 λ σ for one image."""
    left, right = 0.0, reach.max().item()
    if right == 0:
        return 0.0
    gap = torch.empty_like(reach)

    def cost(level: float) -> float:
        torch.clamp(reach, max=level, out=gap)
        gap.sub_(pull).square_().mul_(weight)
        return gap.sum().item() + 2 * amount * level

    for _ in range(max(0, math.ceil(math.log(_LEVEL_ERROR / right) / math.log(2 / 3)))):
        lower, upper = left + (right - left) / 3, right - (right - left) / 3
        if cost(lower) >= cost(upper):
            left = lower
        else:
            right = upper
    return (left + right) / 2


_LEVEL_ERROR = 1e-6


@dataclass
class AlmaState:
    """Everything that an iteration reads and writes, per image (N) or per pixel (N, H, W); float64.

    Attributes:
        shift: δ. weight: w. square: running mean of squared gradients. succeeded_at: t of the first success.
        multiplier: μ. rho: ρ. hit: whether the pixel was won since the last check. previous: c at the last check.
        constraint: c of the last visit. metric, rate: H and λ of the last step.
    """

    shift: torch.Tensor
    weight: torch.Tensor
    square: torch.Tensor
    succeeded_at: torch.Tensor
    multiplier: torch.Tensor
    rho: torch.Tensor
    hit: torch.Tensor
    previous: torch.Tensor
    constraint: torch.Tensor
    metric: torch.Tensor
    rate: torch.Tensor

    @classmethod
    def initial(cls, problem: Problem, shift: torch.Tensor, steps: int) -> AlmaState:
        pixels = torch.zeros(problem.labels.shape, dtype=torch.float64, device=shift.device)
        images = torch.zeros(len(problem), 1, 1, dtype=torch.float64, device=shift.device)
        return cls(
            shift=shift.double(),
            weight=images + 1,
            square=torch.zeros_like(shift, dtype=torch.float64),
            succeeded_at=images + steps // 2,
            multiplier=pixels + 1,
            rho=pixels + 0.01,
            hit=torch.zeros_like(problem.counted),
            previous=pixels.clone(),
            constraint=pixels.clone(),
            metric=torch.ones_like(shift, dtype=torch.float64),
            rate=images.clone(),
        )

    def part(self, rows: slice) -> AlmaState:
        """Views of some images: writing in place to them writes here."""
        return AlmaState(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})


@dataclass(frozen=True, kw_only=True)
class AlmaProx(MinimumNorm):
    """ALMAProx in linf.

    Attributes:
        alpha: the initial rate λ₀ (0.001 by Rony and in the text of Halmosi et al.; 0.0001 in their code, which is
            far weaker).
        penalty_grad: "exact", or "reference" for the derivative of the public code.
    """

    alpha: Any = 0.001
    penalty_grad: str = "exact"

    synonyms: ClassVar[Mapping[str, str]] = {"lr": "alpha"}

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.norm, "norm of alma-prox", ("linf",))
        one_of(self.penalty_grad, "penalty_grad", PENALTY_GRADS)

    def run(self, problem: Problem, seeds: Sequence[int], start: torch.Tensor | None) -> Result:
        shift = torch.zeros_like(problem.images) if start is None else start - problem.images
        state = AlmaState.initial(problem, shift, self.steps)
        kept = Smallest(problem, self.norm, self.threshold)
        for step in range(self.steps):
            self.iterate(problem, state, kept, step)
        return self.smallest(problem, kept.points, kept.fooled, {})

    def iterate(self, problem: Problem, state: AlmaState, kept: Smallest, step: int) -> None:
        """One iteration: looks at x + δ, keeps it if it is better, updates duals and δ."""
        images = problem.images
        points = (images + state.shift.to(images.dtype)).clamp(0, 1)
        fooled = torch.zeros_like(problem.counts)
        counts = problem.counts
        # The weight w needs to know whether the point is successful, which only the visit can say.
        had_succeeded = kept.succeeded.clone()

        def visit(pixels: Pixels, part: slice) -> torch.Tensor:
            fooled[part] = pixels.fooled_counts
            return self._penalty(pixels, state.part(part), fooled[part], counts[part], step)

        slope = -problem.sweep(points, visit).double()
        successful = kept.offer(points, fooled)
        if step < self.steps // 2:
            state.succeeded_at[successful & ~had_succeeded] = step
        span = (self.steps - state.succeeded_at).clamp_min(1) / 9  # τ: the rate ends at a tenth
        state.rate = self.alpha * span / ((step - state.succeeded_at).clamp_min(0) + span)
        state.square = 0.8 * state.square + 0.2 * slope**2
        state.metric = (state.square / (1 - 0.8 ** (step + 1))).sqrt().clamp_min(1e-8)
        rate = state.rate.unsqueeze(1)
        exact = images.double()
        state.shift = proximal_linf(state.shift - rate * slope / state.metric, state.metric, rate, -exact, 1 - exact)

    def _penalty(
        self, pixels: Pixels, state: AlmaState, fooled: torch.Tensor, counts: torch.Tensor, step: int
    ) -> torch.Tensor:
        """Minus the penalty of the visited pixels, after the update of w, ρ and μ."""
        successful = reached(fooled, counts, self.threshold).view(-1, 1, 1)
        state.weight.copy_((state.weight / torch.where(successful, 1.02, 0.98)).clamp(0.1, 1))
        distance = constraint(pixels)
        values = distance.detach().double() * state.weight
        state.constraint.copy_(values)
        state.hit.logical_or_(pixels.fooled)
        active = required(values, pixels.counted, counts, self.threshold, step / max(self.steps - 1, 1))
        if step == 0:
            state.previous.copy_(values)
        elif (step + 1) % 10 == 0:
            improved = values * active <= 0.95 * state.previous
            state.rho.mul_(torch.where(state.hit | improved, 1.0, 2.0))
            state.previous.copy_(values)
            state.hit.zero_()
        if step:
            slope = penalty_slope(values, state.rho, state.multiplier, self.penalty_grad) * active
            state.multiplier.copy_((0.8 * state.multiplier + 0.2 * slope).clamp(1e-12, 1))
        slope = penalty_slope(values, state.rho, state.multiplier, self.penalty_grad) * active
        return -(slope * state.weight).to(distance.dtype) * distance
