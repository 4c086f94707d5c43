"""Pictures as arrays: from tensors, enlarged, and the difference of two made visible."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

Image = npt.NDArray[np.uint8]
"""(H, W, 3), RGB."""
Color = tuple[int, int, int]


def from_tensor(image: torch.Tensor) -> Image:
    """(3, H, W) on [0, 1] as a picture (H, W, 3)."""
    return np.asarray((image.permute(1, 2, 0) * 255).round().byte().cpu().numpy())


def enlarge(image: Image, factor: int) -> Image:
    """A small picture made larger without smoothing."""
    return np.ascontiguousarray(np.repeat(np.repeat(image, factor, axis=0), factor, axis=1))


def amplified_difference(image: Image, other: Image) -> tuple[Image, float]:
    """The difference of two images around grey, scaled so that its largest value is visible; and the factor."""
    difference = other.astype(np.float32) - image.astype(np.float32)
    largest = float(np.abs(difference).max())
    factor = 127 / largest if largest else 1.0
    return np.clip(128 + factor * difference, 0, 255).astype(np.uint8), factor
