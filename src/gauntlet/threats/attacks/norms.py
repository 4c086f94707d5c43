"""Lengths of perturbations and of vectors of logits."""

from __future__ import annotations

import math

import torch


def class_length(values: torch.Tensor) -> torch.Tensor:
    """Euclidean length over classes: (N, K, H, W) to (N, H, W), differentiable (0 at 0)."""
    length: torch.Tensor = torch.linalg.vector_norm(values, dim=1)
    return length


def image_length(values: torch.Tensor) -> torch.Tensor:
    """Euclidean length of every image, as (N, 1, 1, 1), in the type of the values."""
    length: torch.Tensor = torch.linalg.vector_norm(values.flatten(1), dim=1)
    return length.view(-1, 1, 1, 1)


def image_norm(differences: torch.Tensor, norm: str) -> torch.Tensor:
    """Size of every image's perturbation over channels and pixels, "linf" or "l2", float64 (N,)."""
    order = math.inf if norm == "linf" else 2
    size: torch.Tensor = torch.linalg.vector_norm(differences.double().flatten(1), ord=order, dim=1)
    return size
