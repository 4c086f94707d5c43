"""Attacks on a linear model, where the optimal perturbation is known."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from gauntlet.threats.attacks import build

WEIGHTS = torch.tensor([0.9, -0.5, 0.2], dtype=torch.float64)
COUNT, SIDE = 3, 12


def linear(images: torch.Tensor) -> torch.Tensor:
    """Class 1 against class 0 by the sign of a weighted sum of the colours; two classes more that never win."""
    score = (images * WEIGHTS.to(images).view(1, 3, 1, 1)).sum(1) - 0.3
    low = torch.full_like(score, -2.0)
    return torch.stack([-score / 2, score / 2, low, 1.5 * low], 1)


def example() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images away from the box, their labels, and the margin |w x + b| of every pixel."""
    images = torch.rand(COUNT, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    images = 0.35 + 0.3 * images
    logits = linear(images)
    return images, logits.argmax(1), (logits[:, 1] - logits[:, 0]).abs()


@pytest.mark.parametrize("name", ["fgsm", "bim", "pgd", "segpgd", "cospgd", "apgd", "padam-ce", "sea-mce", "mifgsm"])
def test_linf_attacks_flip_exactly_what_can_be_flipped(name: str) -> None:
    images, labels, margins = example()
    epsilon = 0.06
    options = {} if name == "fgsm" else {"steps": 20, "alpha": 0.01} if name != "apgd" else {"steps": 20}
    if name.startswith("sea"):
        options = {"steps": 20}
    made = build(name, epsilon=epsilon, **options)(linear, images, labels).images
    flippable = margins < epsilon * float(WEIGHTS.abs().sum())
    assert torch.equal(linear(made).argmax(1) != labels, flippable)
    assert 0.1 < flippable.double().mean() < 0.9


def smallest_linf(margins: torch.Tensor, threshold: float) -> torch.Tensor:
    """Each pixel needs margin / |w|_1 on its own; the share decides how many of them are paid."""
    needed = math.ceil(threshold * SIDE * SIDE - 1e-9)
    return margins.flatten(1).sort(1).values[:, needed - 1] / WEIGHTS.abs().sum()


def smallest_l2(margins: torch.Tensor, threshold: float) -> torch.Tensor:
    """The cheapest pixels are paid, each with margin / |w|_2."""
    needed = math.ceil(threshold * SIDE * SIDE - 1e-9)
    cheapest = margins.flatten(1).sort(1).values[:, :needed] / torch.linalg.vector_norm(WEIGHTS)
    norm: torch.Tensor = torch.linalg.vector_norm(cheapest, dim=1)
    return norm


MINIMUM_LINF: dict[str, tuple[dict[str, Any], float]] = {
    "alma-prox": ({"steps": 300}, 1.10),
    "pdpgd": ({"steps": 200}, 1.10),
    "fmn": ({"steps": 100}, 1.05),
    "dag": ({"alpha": 0.002, "steps": 400}, 2.0),
    "minimal-pgd": ({"steps": 30}, 1.05),
}


# How many pixels a share is does not depend on the attack: the other shares are those of the cheapest attacks.
@pytest.mark.parametrize(("name", "threshold"), [*((name, 0.9) for name in MINIMUM_LINF), ("fmn", 0.99), ("fmn", 0.5)])
def test_minimum_linf(name: str, threshold: float) -> None:
    images, labels, margins = example()
    options, factor = MINIMUM_LINF[name]
    outcome = build(name, threshold=threshold, **options)(linear, images, labels)
    optimum = smallest_linf(margins, threshold)
    assert outcome.success.all()
    assert (outcome.norms >= optimum * (1 - 1e-9)).all(), "smaller than possible"
    assert (outcome.norms <= optimum * factor).all(), (outcome.norms / optimum).tolist()


MINIMUM_L2: dict[str, tuple[dict[str, Any], float]] = {
    "pdgd": ({"steps": 300}, 2.0),
    "fmn": ({"steps": 300, "norm": "l2"}, 1.3),
    "minimal-pgd": ({"norm": "l2", "largest": 4, "loss": "mce"}, 1.3),
}


@pytest.mark.parametrize(("name", "threshold"), [*((name, 0.9) for name in MINIMUM_L2), ("fmn", 0.99)])
def test_minimum_l2(name: str, threshold: float) -> None:
    images, labels, margins = example()
    options, factor = MINIMUM_L2[name]
    outcome = build(name, threshold=threshold, **options)(linear, images, labels)
    optimum = smallest_l2(margins, threshold)
    assert outcome.success.all()
    assert (outcome.norms >= optimum * (1 - 1e-9)).all(), "smaller than possible"
    assert (outcome.norms <= optimum * factor).all(), (outcome.norms / optimum).tolist()


def test_targeted_class_zero() -> None:
    images, labels, margins = example()
    epsilon = 0.06
    outcome = build("bim", epsilon=epsilon, steps=20)(linear, images, labels, target=0)
    reachable = (labels == 0) | (margins < epsilon * float(WEIGHTS.abs().sum()))
    assert torch.equal(linear(outcome.images).argmax(1) == 0, reachable)
    assert torch.equal(outcome.fooled, reachable.flatten(1).sum(1))
