"""Gaussian blur with a bandwidth in pixels, differentiable."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn import functional

from gauntlet.errors import GauntletError

NO_BLUR = 1e-3
"""Bandwidths below it, in pixels, are the identity."""


def radius_of(sigma: float) -> int:
    """How many pixels a blur reaches to each side: ceil(4 sigma)."""
    return math.ceil(4 * sigma) if sigma >= NO_BLUR else 0


def check_reach(sigma: float, height: int, width: int) -> None:
    """An error where a blur reaches beyond mirrored images of a size."""
    reach = radius_of(sigma)
    if reach >= min(height, width):
        raise GauntletError(
            f"a blur of sigma {sigma:g} reaches {reach} pixels, but an image is {height}x{width}; its shorter side "
            "must be longer than that."
        )


def blur(images: torch.Tensor, sigmas: Sequence[float]) -> torch.Tensor:
    """Images (N, 3, H, W) convolved with exp(-k^2 / 2 sigma^2), normalised, the border mirrored without its edge.

    Args:
        images: any values.
        sigmas: bandwidths in pixels, one per image.
    """
    check_reach(max(sigmas), *images.shape[-2:])
    if len(set(sigmas)) == 1:
        return _blurred(images, sigmas[0])
    return torch.cat([_blurred(image, sigma) for image, sigma in zip(images[:, None], sigmas, strict=True)])


def _blurred(images: torch.Tensor, sigma: float) -> torch.Tensor:
    reach = radius_of(sigma)
    if reach == 0:
        return images
    offsets = torch.arange(-reach, reach + 1, dtype=torch.float64)
    weights = torch.exp(-(offsets**2) / (2 * sigma**2))
    kernel: list[float] = (weights / weights.sum()).tolist()
    return _along(_along(images, kernel, 2), kernel, 3)


def _along(images: torch.Tensor, kernel: Sequence[float], axis: int) -> torch.Tensor:
    """A convolution along rows (3) or columns (2): a sum of shifted images, several times faster here than conv2d."""
    reach, length = len(kernel) // 2, images.shape[axis]
    sides = (0, 0, reach, reach) if axis == 2 else (reach, reach, 0, 0)
    padded = functional.pad(images, sides, mode="reflect")
    total = padded.narrow(axis, 0, length) * kernel[0]
    for offset, weight in enumerate(kernel[1:], start=1):
        total = torch.add(total, padded.narrow(axis, offset, length), alpha=weight)
    return total
