"""Gaussian noise in [0, 1] units, not clipped: what randomised smoothing averages over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gauntlet.seeding import numpy_generator


def noisy(images: torch.Tensor, numbers: Sequence[int], sigma: float) -> torch.Tensor:
    """Images (N, 3, H, W) plus noise of standard deviation `sigma`, drawn in HWC order from one number per image."""
    _, channels, height, width = images.shape
    fields = [numpy_generator(number).standard_normal((height, width, channels)) for number in numbers]
    return images + sigma * torch.from_numpy(np.stack(fields)).permute(0, 3, 1, 2).to(images)
