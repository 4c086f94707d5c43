"""The fixture of docs/specs/attacks.md, section 17: a two-layer tanh network, two 16x16 images, 5 classes, float64."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from paths import DATA

VOID = 255
EPSILON = 8 / 255
CLASSES = 5


def _series(count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float64)


_k1, _k2 = _series(6 * 27), _series(5 * 54)
FIRST = (0.6 * torch.cos(1.0 + 0.7 * _k1 + 0.013 * _k1**2)).view(6, 3, 3, 3)
FIRST_BIAS = 0.1 * torch.sin(1.3 * _series(6))
SECOND = (0.9 * torch.sin(0.5 + 1.1 * _k2 + 0.017 * _k2**2)).view(5, 6, 3, 3)
SECOND_BIAS = 0.05 * torch.cos(2 * _series(5))


def network(images: torch.Tensor) -> torch.Tensor:
    """Logits (N, 5, H, W) in the type of the images."""
    hidden = torch.tanh(functional.conv2d(images - 0.5, FIRST.to(images), FIRST_BIAS.to(images), padding=1))
    return functional.conv2d(hidden, SECOND.to(images), SECOND_BIAS.to(images), padding=1)


def _images() -> torch.Tensor:
    n, c, r, q = torch.meshgrid(_series(2), _series(3), _series(16), _series(16), indexing="ij")
    wave = torch.sin(0.7 * (c + 1) + 0.9 * r * (1 + 0.15 * n) + 0.55 * q)
    return 0.5 + 0.5 * wave * torch.cos(0.31 * r - 0.47 * q + 0.8 * n)


IMAGES = _images()
PREDICTIONS = network(IMAGES).argmax(1)
_n, _r, _q = torch.meshgrid(torch.arange(2), torch.arange(16), torch.arange(16), indexing="ij")
LABELS = torch.where((3 * _r + 5 * _q + 7 * _n) % 13 == 0, (PREDICTIONS + 1) % 5, PREDICTIONS)
VOID_LABELS = torch.where((_r <= 1) & (_q < 12), VOID, LABELS)
FORMULA_START = (IMAGES + EPSILON * torch.sin(0.37 + 1.9 * _series(IMAGES.numel())).view_as(IMAGES)).clamp(0, 1)

REFERENCE: dict[str, Any] = json.loads((DATA / "attack_reference.json").read_text())
"""Expected values and tolerances by section; the sections are explained in the file itself under "about"."""


def correct(images: torch.Tensor, labels: torch.Tensor = LABELS) -> list[int]:
    """Correct pixels per image, by a forward pass of its own and torch's argmax."""
    with torch.no_grad():
        hits = (network(images).argmax(1) == labels) & (labels != VOID)
    return [int(each) for each in hits.flatten(1).sum(1)]


def at_class(images: torch.Tensor, target: int) -> list[int]:
    with torch.no_grad():
        return [int(each) for each in (network(images).argmax(1) == target).flatten(1).sum(1)]


def mean_cross_entropy(images: torch.Tensor, labels: torch.Tensor, over: str = "all") -> list[float]:
    """Mean over all positions (void counts 0) or over the valid ones, per image."""
    with torch.no_grad():
        losses = functional.cross_entropy(network(images), labels, reduction="none", ignore_index=VOID)
    total = losses.flatten(1).sum(1)
    count = torch.full_like(total, losses[0].numel()) if over == "all" else (labels != VOID).flatten(1).sum(1)
    return [float(each) for each in total / count]


class Recorder:
    """A model that remembers every batch it was shown."""

    def __init__(self) -> None:
        self.seen: list[torch.Tensor] = []

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        self.seen.append(images.detach().clone())
        return network(images)


def check_images(
    images: torch.Tensor,
    expected: dict[str, Any],
    labels: torch.Tensor = LABELS,
    *,
    pixels: int = 0,
    sums: float = 1e-4,
    sizes: float = 1e-6,
) -> None:
    """Compares adversarial images with an entry of the reference file.

    Args:
        pixels: tolerance of the counts. sums: absolute, of sum and L1 norm. sizes: relative, of Linf and L2 norms.
    """
    difference = (images - IMAGES).flatten(1)
    close(difference.abs().amax(1), expected["linf"], relative=sizes)
    close(torch.linalg.vector_norm(difference, dim=1), expected["l2"], relative=sizes)
    close(difference.sum(1), expected["sum_delta"], absolute=sums)
    close(difference.abs().sum(1), expected["l1"], absolute=sums)
    if "correct_pixels" in expected:
        close(torch.tensor(correct(images, labels)).double(), expected["correct_pixels"], absolute=pixels + 1e-9)


def close(values: torch.Tensor, expected: Sequence[float], *, relative: float = 0.0, absolute: float = 1e-12) -> None:
    wanted = torch.tensor(expected, dtype=torch.float64)
    assert torch.all((values.double() - wanted).abs() <= absolute + relative * wanted.abs()), (
        values.tolist(),
        expected,
    )
