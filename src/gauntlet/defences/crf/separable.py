"""The spatial kernel, exact at any size: a Gaussian of positions is one along rows times one along columns."""

from __future__ import annotations

import math
from typing import Any

import torch

from gauntlet.defences.crf.mean_field import smallest_sum

REACH = 9.0
"""Standard deviations beyond which a Gaussian, 3e-18, is lost beside nearer ones even in double precision."""

BLOCK = 64
"""Rows of a Gaussian matrix that are multiplied at once, with the columns in their reach."""


class SeparableKernel:
    """k(i, j) = exp(-|p_i - p_j|² / 2 theta²) of the pixels of an image, applied to values (P, K).

    With R and C along rows and columns the kernel is R C, and without the self term R C - 1 = R (C - 1) + (R - 1): the
    diagonals of C - 1 and R - 1 are 0, so that no small weight is lost beside a 1.
    """

    def __init__(self, size: tuple[int, int], theta: float, like: torch.Tensor, *, self_term: bool = True) -> None:
        """Makes the kernel.

        Args:
            size: height and width of the image.
            theta: standard deviation in pixels.
            like: a tensor of the type and device to compute with.
            self_term: whether a pixel hears itself.
        """
        self.size = size
        self.reach = math.ceil(REACH * theta)
        self.rows, self.columns = (_gaussian(side, theta).to(like) for side in size)  # (H, H), (W, W)
        self.pixels, self.floor = size[0] * size[1], smallest_sum(like.dtype)
        self.others = None  # R - 1, where the self term is left out; `columns` is C - 1 then
        if not self_term:
            self.others = self.rows.clone().fill_diagonal_(0)
            self.columns.fill_diagonal_(0)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Sum over j of k(i, j) values_j, (P, K)."""
        result: torch.Tensor = _Apply.apply(values, self)  # type: ignore[no-untyped-call]
        return result

    def filtered(self, values: torch.Tensor) -> torch.Tensor:
        """The sum, without a derivative."""
        height, width = self.size
        plane = self._down(self.rows, values).view(height, width, -1)
        parts = [self.columns[columns, near] @ plane[:, near] for columns, near in _bands(width, self.reach)]
        across = torch.cat(parts, dim=1).view(height * width, -1)
        return across if self.others is None else across + self._down(self.others, values).view_as(across)

    def _down(self, weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Weights of rows (H, H) times values, (H, W K)."""
        height = self.size[0]
        down = torch.empty_like(values).view(height, -1)
        for rows, near in _bands(height, self.reach):
            torch.matmul(weights[rows, near], values.view(height, -1)[near], out=down[rows])
        return down


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
