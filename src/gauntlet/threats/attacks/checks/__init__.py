"""Is a model robust, or does it only hide its gradient?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gauntlet.models.contract import GauntletModel
from gauntlet.models.probe import probe_model
from gauntlet.models.randomness import random_parts
from gauntlet.numbers import Number
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.checks.gradient import (
    BLACK_BOX,
    ITERATIVE,
    SINGLE_STEP,
    ZERO_ALARM,
    ZERO_INVALID,
    Measured,
    judge,
    measure,
)
from gauntlet.threats.attacks.checks.suspicion import BEST_SLACK, LAST_SLACK, Suspicion, Trial
from gauntlet.threats.attacks.checks.wrappers import SAMPLES, inside_of, judge_wrapper, withstand
from gauntlet.threats.attacks.engine.request import MODEL_IGNORE_INDEX

__all__ = [
    "BEST_SLACK",
    "BLACK_BOX",
    "ITERATIVE",
    "LAST_SLACK",
    "SINGLE_STEP",
    "ZERO_ALARM",
    "ZERO_INVALID",
    "Measured",
    "Suspicion",
    "Trial",
    "check_attack",
    "differs_from_itself",
    "expected_gradients",
    "judge",
    "measure",
]


def expected_gradients(model: Any) -> int:
    """About how many passes with a gradient `check_attack` makes per image with its default settings."""
    trial = Trial()
    ways = 5  # the attack twice, at twice epsilon, with twice the steps
    inside = inside_of(model)
    if inside:
        knowing = 1 + (len(inside) == 1)  # targeted, straight through
        ways += (knowing + 1) * SAMPLES if random_parts(model) else knowing  # and averaged over draws
    return ways * trial.steps + trial.whole_box_steps + 1


def differs_from_itself(model: Any) -> list[Suspicion]:
    """Finds a model that gives other answers when it is asked again, which no attack can be judged on."""
    if not isinstance(model, GauntletModel) or not probe_model(model).random:
        return []
    sentence = (
        "the model differs from itself: asked again for the same images, it gives other answers, so no figure of it "
        "can be repeated, and an attack that fails proves nothing"
    )
    return [Suspicion("differs-from-itself", "error", sentence)]


def check_attack(
    model: Any,
    images: torch.Tensor,
    labels: torch.Tensor | Sequence[Boxes],
    *,
    epsilon: Number = "8/255",
    steps: int = 20,
    norm: str = "linf",
    other_model: Any = None,
    noises: int = 20,
    whole_box_steps: int = 100,
    ignore_index: int | str | None = MODEL_IGNORE_INDEX,
    seed: int = 0,
    queries: int = 100,
) -> list[Suspicion]:
    """Attacks a model in several ways and reports what a model with a useful gradient would not show.

    A model around a model (`gauntlet.defences`) is also attacked by someone who knows of the wrapper.

    Args:
        model: any model that attacks take; a detector is judged by the mean F1 of its images in place of accuracy.
        images, labels: a few images are enough; for a detector boxes.
        epsilon, steps, norm: of the attack that is checked.
        other_model: a model to transfer attacks from, or None to leave that check out.
        noises: random noises to compare with.
        whole_box_steps: steps of the attack without a bound, 0 to leave it out; 100 or more are meaningful.
        ignore_index: as for attacks.
        seed: of the random noise, and of the attack without a gradient.
        queries: of the Square Attack, which needs no gradient; 0 to leave it out.

    Returns:
        what is suspicious; empty when nothing is.
    """
    trial = Trial(epsilon, steps, norm, other_model, noises, whole_box_steps, ignore_index, seed, queries)
    measured = measure(model, images, labels, trial)
    found = [*differs_from_itself(model), *judge(measured)]
    if not inside_of(model):
        return found
    return [*found, *judge_wrapper(withstand(model, images, labels, trial, measured.attack))]
