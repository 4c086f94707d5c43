"""The spatial kernel, exact at any size: a Gaussian of positions is one along rows times one along columns."""

from __future__ import annotations

import math
from typing import Any

import torch

REACH = 9.0
"""Standard deviations beyond which a Gaussian, 3e-18, is lost beside its own 1 even in double precision."""

BLOCK = 64
"""Rows of a Gaussian matrix that are multiplied at once, with the columns in their reach."""


class SeparableKernel:
    """k(i, j) = exp(-|p_i - p_j|² / 2 theta²) of the pixels of an image, applied to values (P, K).

    Attributes:
        own: k(i, i), (P, 1).
    """

    def __init__(self, size: tuple[int, int], theta: float, like: torch.Tensor) -> None:
        """Makes the kernel.

        Args:
            size: height and width of the image.
            theta: standard deviation in pixels.
            like: a tensor of the type and device to compute with.
        """
        self.size = size
        self.reach = math.ceil(REACH * theta)
        self.rows, self.columns = (_gaussian(side, theta).to(like) for side in size)  # (H, H), (W, W)
        self.own = like.new_ones(size[0] * size[1], 1)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Sum over j of k(i, j) values_j, (P, K)."""
        result: torch.Tensor = _Apply.apply(values, self)  # type: ignore[no-untyped-call]
        return result

    def filtered(self, values: torch.Tensor) -> torch.Tensor:
        """The sum, without a derivative."""
        height, width = self.size
        down = torch.empty_like(values).view(height, -1)
        for rows, near in _bands(height, self.reach):
            torch.matmul(self.rows[rows, near], values.view(height, -1)[near], out=down[rows])
        plane = down.view(height, width, -1)
        parts = [self.columns[columns, near] @ plane[:, near] for columns, near in _bands(width, self.reach)]
        return torch.cat(parts, dim=1).view(height * width, -1)


class _Apply(torch.autograd.Function):
    """The kernel is symmetric: what it is to values, it is to gradients."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, kernel: SeparableKernel) -> torch.Tensor:
        ctx.kernel = kernel
        return kernel.filtered(values.contiguous())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.kernel.filtered(gradient.contiguous()), None


def _gaussian(side: int, theta: float) -> torch.Tensor:
    """Gaussian of the distances between the pixels of one side, (side, side), float64."""
    positions = torch.arange(side, dtype=torch.float64) / theta
    return torch.exp(-(positions[:, None] - positions).square() / 2)


def _bands(side: int, reach: int) -> list[tuple[slice, slice]]:
    """Blocks of rows of a Gaussian matrix, and the columns that count for them."""
    return [
        (slice(first, first + BLOCK), slice(max(0, first - reach), first + BLOCK + reach))
        for first in range(0, side, BLOCK)
    ]
