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


def blur(images: torch.Tensor, sigmas: Sequence[float]) -> torch.Tensor:
    """Images (N, 3, H, W) convolved with exp(-k^2 / 2 sigma^2), normalised, the border mirrored without its edge.

    Args:
        images: any values.
        sigmas: bandwidths in pixels, one per image.
    """
    height, width = images.shape[-2:]
    reach = radius_of(max(sigmas))
    if reach >= min(height, width):
        raise GauntletError(
            f"a blur of sigma {max(sigmas):g} reaches {reach} pixels, but an image is {height}x{width}; its shorter "
            "side must be longer than that."
        )
    if len(set(sigmas)) == 1:
        return _blurred(images, sigmas[0])
    return torch.cat([_blurred(image, sigma) for image, sigma in zip(images.split(1), sigmas, strict=True)])


def _blurred(images: torch.Tensor, sigma: float) -> torch.Tensor:
    reach = radius_of(sigma)
    if reach == 0:
        return images
    offsets = torch.arange(-reach, reach + 1, dtype=torch.float64)
    weights = torch.exp(-(offsets**2) / (2 * sigma**2))
    kernel = (weights / weights.sum()).to(images)
    planes = images.flatten(0, 1).unsqueeze(1)  # (3N, 1, H, W): the same kernel for every channel
    planes = functional.conv2d(functional.pad(planes, (0, 0, reach, reach), mode="reflect"), kernel.view(1, 1, -1, 1))
    planes = functional.conv2d(functional.pad(planes, (reach, reach, 0, 0), mode="reflect"), kernel.view(1, 1, 1, -1))
    return planes.view_as(images)
