"""What a model around a model must also withstand: attacks by someone who knows of the wrapper.

docs/specs/defences.md, 0 and 8. A wrapper that only makes the usual attack weak falls to one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from gauntlet.models.contract import SegmentationModel
from gauntlet.models.randomness import random_parts
from gauntlet.threats.attacks.checks.gradient import accuracy, attack_seeds, iterative_attack, judging
from gauntlet.threats.attacks.checks.suspicion import BEST_SLACK, Suspicion, Trial
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.option_checks import radius
from gauntlet.threats.attacks.presets import build

TARGETED = "ifgsm-ll"
SAMPLES = 10
"""Draws over which a gradient is averaged."""


@dataclass(frozen=True)
class Withstood:
    """Pixel accuracy in [0, 1] that a wrapper keeps; of a random one, the mean over draws.

    Attributes:
        attack: under the iterative attack on itself, along one draw per step.
        inside: what the models inside keep under the attack on themselves, the most of them.
        from_inside: under the attacks made on the models inside, the strongest.
        targeted: under the attack on itself towards the least likely classes, averaged over draws.
        averaged: under the attack with gradients averaged over draws, or None where nothing is drawn.
        straight_through: under the attack with the gradient of the one model inside in the place of its own, averaged
            over draws, or None where there are several.
    """

    attack: float
    inside: float
    from_inside: float
    targeted: float
    averaged: float | None
    straight_through: float | None

    @property
    def along_itself(self) -> float:
        """Under the attack along the wrapper's own gradient, averaged over draws where that is stronger."""
        return self.attack if self.averaged is None else min(self.attack, self.averaged)


class StraightThrough(nn.Module):
    """The logits of a wrapper with the gradient of the model inside it.

    Args:
        wrapper: around `inside`.
        inside: asked with the same images.
    """

    def __init__(self, wrapper: SegmentationModel, inside: nn.Module) -> None:
        super().__init__()
        self.wrapper, self.inside = wrapper, inside
        self.ignore_index = wrapper.ignore_index

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        gradient: torch.Tensor = self.inside(images)
        with torch.no_grad():
            values: torch.Tensor = self.wrapper(images)
        return gradient + (values - gradient.detach())


def inside_of(model: Any) -> list[SegmentationModel]:
    """The models inside a wrapper; none for any other model."""
    inner = getattr(model, "inner", ()) if isinstance(model, SegmentationModel) else ()
    return [each for each in inner if isinstance(each, SegmentationModel)]


def withstand(
    model: SegmentationModel, images: torch.Tensor, labels: Any, trial: Trial, attack: float | None = None
) -> Withstood:
    """Attacks a wrapper in every way that knows of it; arguments as for `check_attack`.

    Args:
        attack: what it keeps under the iterative attack on itself, where that is known.
    """
    inside = inside_of(model)
    draws = bool(random_parts(model))
    samples = SAMPLES if draws else 1  # one draw would aim at a wrapper that nobody meets again
    size = radius(trial.epsilon, trial.norm)
    problem, seeds = judging(model, images, labels, trial), attack_seeds(trial, len(images))
    strong = iterative_attack(size, trial.steps, "best", trial.norm, trial.ignore_index)
    targeted = build(
        TARGETED,
        epsilon=size,
        alpha=2.5 * size / trial.steps or 1.0,
        steps=trial.steps,
        norm=trial.norm,
        ignore_index=trial.ignore_index,
        samples=samples,
    )
    averaged = replace(strong, samples=samples)

    def kept(attack: Attack, against: nn.Module = model) -> float:
        return accuracy(problem, attack(against, images, labels, seed=seeds).images)

    def against(each: nn.Module) -> Attack:
        return averaged if random_parts(each) else strong

    def on_itself(each: SegmentationModel) -> float:
        return accuracy(judging(each, images, labels, trial), against(each)(each, images, labels, seed=seeds).images)

    return Withstood(
        attack=kept(strong) if attack is None else attack,
        inside=max(map(on_itself, inside)),
        from_inside=min(kept(against(each), each) for each in inside),
        targeted=kept(targeted),
        averaged=kept(averaged) if draws else None,
        straight_through=kept(averaged, StraightThrough(model, inside[0])) if len(inside) == 1 else None,
    )


def judge_wrapper(kept: Withstood) -> list[Suspicion]:
    """What is suspicious about a wrapper."""
    return [suspicion for rule in RULES for suspicion in rule(kept)]


def averaging_stronger(kept: Withstood) -> Iterator[Suspicion]:
    """Averaged over draws, the gradient leads further."""
    yield from _stronger(
        "averaging-stronger",
        kept.attack,
        kept.averaged,
        f"gradients averaged over {SAMPLES} draws",
        "the randomness hides it",
    )


def inside_stronger(kept: Withstood) -> Iterator[Suspicion]:
    """Images made without the wrapper fool it better than those made with it."""
    yield from _stronger(
        "inside-stronger",
        kept.along_itself,
        kept.from_inside,
        "images made on the model inside",
        "the wrapper hides its gradient",
    )


def straight_through_stronger(kept: Withstood) -> Iterator[Suspicion]:
    """The gradient of the model inside leads further than that of the wrapper."""
    yield from _stronger(
        "straight-through-stronger",
        kept.along_itself,
        kept.straight_through,
        "gradients passed straight through the wrapper",
        "its own gradient misleads",
    )


def targeted_stronger(kept: Withstood) -> Iterator[Suspicion]:
    """A wrapper that seems to gain against the untargeted attack falls to targets.

    Without a gain it says nothing: a broken model may be broken a little more by either.
    """
    if kept.along_itself > kept.inside + BEST_SLACK:
        yield from _stronger(
            "targeted-stronger",
            kept.along_itself,
            kept.targeted,
            "an attack towards the least likely classes",
            "the loss of the untargeted one is saturated",
        )


RULES: Sequence[Callable[[Withstood], Iterator[Suspicion]]] = (
    averaging_stronger,
    inside_stronger,
    straight_through_stronger,
    targeted_stronger,
)
"""Every rule, in the order of their suspicions."""


def _stronger(code: str, usual: float, other: float | None, what: str, why: str) -> Iterator[Suspicion]:
    """A suspicion where an attack leaves less than the one along the wrapper's own gradient."""
    if other is not None and other < usual - BEST_SLACK:
        yield Suspicion(
            code,
            "error",
            f"the wrapper keeps accuracy {usual:.3f} under the usual attack, {other:.3f} under {what}: {why}.",
            {"attack": usual, "stronger": other},
        )
