"""The spatial kernel, exact at any size: a Gaussian of positions is one along rows times one along columns."""

from __future__ import annotations

import torch


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
        self.rows, self.columns = (_gaussian(side, theta).to(like) for side in size)  # (H, H), (W, W)
        self.own = like.new_ones(size[0] * size[1], 1)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """Sum over j of k(i, j) values_j, (P, K), in O(P (H + W) K)."""
        height, width = self.size
        down = (self.rows @ values.reshape(height, -1)).view(height, width, -1)
        return (self.columns @ down).view(height * width, -1)


def _gaussian(side: int, theta: float) -> torch.Tensor:
    """Gaussian of the distances between the pixels of one side, (side, side), float64."""
    positions = torch.arange(side, dtype=torch.float64) / theta
    return torch.exp(-(positions[:, None] - positions).square() / 2)
