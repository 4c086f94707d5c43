"""Grey images from any weighting of the channels, differentiable."""

from __future__ import annotations

import torch


def grey(images: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Images (N, 3, H, W) whose three channels are the weighted sum of the channels.

    Args:
        images: any values.
        weights: (N, 3), each row sums to 1.
    """
    return (images * weights[:, :, None, None]).sum(dim=1, keepdim=True).expand_as(images)
