"""Mean-field inference of a fully connected CRF (Krähenbühl and Koltun; docs/specs/defences.md, section 5).

Pixels are rows here: P = H * W rows of K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

NONE, MEAN, BEFORE, AFTER, SYMMETRIC = "none", "mean", "before", "after", "symmetric"
NORMALISATIONS = (NONE, MEAN, BEFORE, AFTER, SYMMETRIC)


class Kernel(Protocol):
    """Weights k(i, j) between pixels, with those of pixels for themselves or without.

    Attributes:
        pixels: how many there are, P.
        floor: sums of weights below this count as this much: a pixel without neighbours hears nothing, rather than
            noise.
    """

    pixels: int
    floor: float

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Sum over j of k(i, j) values_j, (P, K)."""


class NormalisedKernel:
    """A kernel whose weights are divided by their sums s_i = sum over j of k(i, j).

    Args:
        kernel: the weights.
        normalisation: "none" k_ij, "mean" k_ij N / sum of s, "before" k_ij / s_j, "after" k_ij / s_i, "symmetric"
            k_ij / sqrt(s_i s_j).
        like: a tensor of the type and device of the values.
    """

    def __init__(self, kernel: Kernel, normalisation: str, like: torch.Tensor) -> None:
        self.kernel = kernel
        self.before: torch.Tensor | None = None  # (P, 1), multiplies what is said
        self.after: torch.Tensor | None = None  # (P, 1) or (), multiplies what is heard
        if normalisation == NONE:
            return
        sums = kernel(like.new_ones(kernel.pixels, 1))
        if normalisation == MEAN:
            self.after = kernel.pixels / sums.sum().clamp(min=kernel.floor)
            return
        sums = sums.clamp(min=kernel.floor)
        if normalisation == BEFORE:
            self.before = 1 / sums
        elif normalisation == AFTER:
            self.after = 1 / sums
        else:
            self.before = self.after = sums.rsqrt()

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Messages (P, K) from values (P, K)."""
        heard = self.kernel(values if self.before is None else values * self.before)
        return heard if self.after is None else heard * self.after


def smallest_sum(kind: torch.dtype) -> float:
    """The floor of a kernel that is exact: 1 / s and its derivative -1 / s² are still numbers of the type."""
    return float(torch.finfo(kind).tiny ** (1 / 3))


@dataclass(frozen=True)
class Term:
    """One kernel of the energy with its weight: one number, or one per class of the message, (K,)."""

    kernel: NormalisedKernel
    weight: float | torch.Tensor


def mean_field(
    unary: torch.Tensor, terms: Sequence[Term], iterations: int, compatibility: torch.Tensor | None = None
) -> torch.Tensor:
    """Logits (P, K) after some iterations of Q = softmax(z - mu m), m = sum of weighted messages.

    Args:
        unary: z, the negative unary energies, (P, K); Q starts as their softmax.
        terms: kernels and weights.
        iterations: at least 1.
        compatibility: mu, (K, K); the Potts model by default. That is 1 - I, for which -I stands: their difference is
            the same for all classes, which softmax does not see.
    """
    logits = unary
    for _ in range(iterations):
        beliefs = logits.softmax(dim=1)  # Q, (P, K)
        message = torch.stack([term.kernel(beliefs) * term.weight for term in terms]).sum(dim=0)
        logits = unary + message if compatibility is None else unary - message @ compatibility.T
    return logits
