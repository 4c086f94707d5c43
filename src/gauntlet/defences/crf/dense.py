"""The bilateral kernel of a small image, exact: every pixel hears every other one, O(P²)."""

from __future__ import annotations

from typing import Any

import torch

from gauntlet.defences.crf.mean_field import smallest_sum

CHUNK = 2**24
"""Entries of the kernel that are worked on at once."""


class DenseKernel:
    """k(i, j) = exp(-|f_i - f_j|² / 2) of features (P, D), applied to values (P, K); differentiable in both.

    The matrix is kept, P² numbers, and shared by all iterations. Without the self term its diagonal is 0: beside a 1
    that is taken away again, the weights of far neighbours would be lost.
    """

    def __init__(self, features: torch.Tensor, *, self_term: bool = True) -> None:
        self.features = features
        self.pixels, self.floor = len(features), smallest_sum(features.dtype)
        self.matrix = _matrix(features.detach())
        if not self_term:
            self.matrix.fill_diagonal_(0)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Sum over j of k(i, j) values_j, (P, K)."""
        result: torch.Tensor = _Apply.apply(values, self.features, self.matrix)  # type: ignore[no-untyped-call]
        return result


def _matrix(features: torch.Tensor) -> torch.Tensor:
    """The kernel, (P, P)."""
    matrix = features.new_empty(len(features), len(features))
    for rows in _chunks(len(features)):
        distance = torch.zeros_like(matrix[rows])
        for feature in features.T:  # differences, not |a|² - 2ab + |b|²: that cancels where features are large
            distance += (feature[rows, None] - feature).square_()
        torch.exp(distance.mul_(-0.5), out=matrix[rows])
    return matrix


class _Apply(torch.autograd.Function):
    """The kernel times values; the gradient to the features goes through every entry of the kernel."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, features: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(values, features, matrix)
        return matrix @ values

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
        values, features, matrix = ctx.saved_tensors
        to_values = matrix.T @ gradient if ctx.needs_input_grad[0] else None
        to_features = None
        if ctx.needs_input_grad[1]:
            centred = features - features.mean(dim=0)  # only differences count; small numbers lose fewer digits
            to_features = torch.zeros_like(features)
            for rows in _chunks(len(features)):
                # dL/dk_ij k_ij; dk_ij/df_i = k_ij (f_j - f_i) = -dk_ij/df_j
                pull = (gradient[rows] @ values.T).mul_(matrix[rows])
                to_features[rows] += pull @ centred - pull.sum(1, keepdim=True) * centred[rows]
                to_features += pull.T @ centred[rows] - pull.sum(0)[:, None] * centred
        return to_values, to_features, None


def _chunks(pixels: int) -> list[slice]:
    rows = max(1, CHUNK // pixels)
    return [slice(first, first + rows) for first in range(0, pixels, rows)]
