"""Step rules: from a gradient to a direction of travel, per image, with whatever memory the rule needs."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from gauntlet.registry import Registry, subclass_of
from gauntlet.threats.attacks.engine.norms import image_length


def unit(gradient: torch.Tensor, norm: str) -> torch.Tensor:
    """The steepest direction of a norm: sgn g for linf, g / max(|g|_2, 1e-12) for l2; sgn(0) = 0."""
    if norm == "linf":
        return gradient.sign()
    return gradient / image_length(gradient).clamp_min(1e-12)


class StepRule(ABC):
    """Turns gradients into directions; one object per run.

    Args:
        norm: "linf" or "l2".
        like: (N, 3, H, W), for the shape of the memory.
    """

    def __init__(self, norm: str, like: torch.Tensor) -> None:
        self.norm = norm

    @abstractmethod
    def direction(self, gradient: torch.Tensor, step: int) -> torch.Tensor:
        """Where to go, to be multiplied by the step size; `step` counts from 0."""

    def select(self, rows: torch.Tensor) -> None:  # noqa: B027 - most rules remember nothing
        """Keeps the memory of some of the images."""


step_rules: Registry[type[StepRule]] = Registry("step rule", "gauntlet.step_rules", check=subclass_of(StepRule))
"""Step rules by the name that an attack's option `rule` takes."""


@step_rules.register("steepest")
class Steepest(StepRule):
    """Sign of the gradient (linf) or the normalised gradient (l2)."""

    def direction(self, gradient: torch.Tensor, step: int) -> torch.Tensor:
        return unit(gradient, self.norm)


@step_rules.register("sign")
class Sign(StepRule):
    """The sign in any norm: what DetecBench does in l2 (docs/specs/attacks.md, 1)."""

    def direction(self, gradient: torch.Tensor, step: int) -> torch.Tensor:
        return gradient.sign()


@step_rules.register("raw")
class Raw(StepRule):
    """The gradient as it is: Arnab et al. Eq. 8 as printed (docs/specs/attacks.md, 14)."""

    def direction(self, gradient: torch.Tensor, step: int) -> torch.Tensor:
        return gradient


@step_rules.register("momentum")
class Momentum(StepRule):
    """MI-FGSM: G <- G + g / |g|_1, then the steepest direction of G (docs/specs/attacks.md, 1)."""

    def __init__(self, norm: str, like: torch.Tensor) -> None:
        super().__init__(norm, like)
        self.velocity = torch.zeros_like(like)

    def direction(self, gradient: torch.Tensor, step: int) -> torch.Tensor:
        length = gradient.abs().flatten(1).sum(1).clamp_min(1e-12)
        self.velocity = self.velocity + gradient / length.view(-1, 1, 1, 1)
        return unit(self.velocity, self.norm)

    def select(self, rows: torch.Tensor) -> None:
        self.velocity = self.velocity[rows]


@step_rules.register("amsgrad")
class AmsGrad(StepRule):
    """Adam with the running maximum of the uncorrected second moment (Halmosi et al., PAdam).

    The projection of the points leaves the moments alone.
    """

    decay, second_decay, constant = 0.9, 0.999, 1e-8

    def __init__(self, norm: str, like: torch.Tensor) -> None:
        super().__init__(norm, like)
        self.first = torch.zeros_like(like)
        self.second = torch.zeros_like(like)
        self.largest = torch.zeros_like(like)

    def direction(self, gradient: torch.Tensor, step: int) -> torch.Tensor:
        self.first.mul_(self.decay).add_(gradient, alpha=1 - self.decay)
        self.second.mul_(self.second_decay).addcmul_(gradient, gradient, value=1 - self.second_decay)
        torch.maximum(self.largest, self.second, out=self.largest)
        correction = (1 - self.second_decay ** (step + 1)) ** 0.5
        denominator = self.largest.sqrt().div_(correction).add_(self.constant)
        return (self.first / denominator).div_(1 - self.decay ** (step + 1))

    def select(self, rows: torch.Tensor) -> None:
        self.first, self.second, self.largest = self.first[rows], self.second[rows], self.largest[rows]
