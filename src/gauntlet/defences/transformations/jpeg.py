"""JPEG compression with libjpeg's tables and 4:2:0 chroma, the identity backwards."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image

from gauntlet.models.straight_through import straight_through


def jpeg(images: torch.Tensor, qualities: Sequence[int]) -> torch.Tensor:
    """Images (N, 3, H, W) in [0, 1] as they come back from JPEG files; gradients pass through unchanged.

    Args:
        images: rounded half to even to 8 bits first.
        qualities: 1 to 100, one per image.
    """

    def compressed(values: torch.Tensor) -> torch.Tensor:
        levels = (values.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()  # (N, H, W, 3)
        files = [_through_a_file(each, quality) for each, quality in zip(levels, qualities, strict=True)]
        return torch.from_numpy(np.stack(files)).permute(0, 3, 1, 2).to(values) / 255

    return straight_through(compressed)(images)


def _through_a_file(levels: np.ndarray, quality: int) -> np.ndarray:
    """A uint8 image (H, W, 3) written and read again."""
    stream = io.BytesIO()
    Image.fromarray(levels).save(stream, "JPEG", quality=int(quality))
    with Image.open(stream) as image:
        return np.asarray(image)
