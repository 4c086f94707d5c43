"""JPEG compression with libjpeg's tables and 4:2:0 chroma, the identity backwards."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import torch

from gauntlet.models.straight_through import straight_through


def jpeg(images: torch.Tensor, qualities: Sequence[int]) -> torch.Tensor:
    """Images (N, 3, H, W) in [0, 1] as they come back from JPEG files; gradients pass through unchanged.

    Args:
        images: rounded half to even to 8 bits first.
        qualities: 1 to 100, one per image.
    """

    def compressed(values: torch.Tensor) -> torch.Tensor:
        seen = values.clamp(0, 1).to("cpu", torch.promote_types(values.dtype, torch.float32)).numpy()  # (N, 3, H, W)
        files = [_through_a_file(each, quality) for each, quality in zip(seen, qualities, strict=True)]
        return torch.from_numpy(np.stack(files)).to(values).div_(255)

    return straight_through(compressed)(images)


def _through_a_file(planes: np.ndarray, quality: int) -> np.ndarray:
    """An image (3, H, W) in [0, 1] written and read again as uint8, as Pillow does in twice the time."""
    red, green, blue = map(_levels, planes)
    _, file = cv2.imencode(".jpg", cv2.merge([blue, green, red]), [cv2.IMWRITE_JPEG_QUALITY, int(quality)])
    return np.stack(cv2.split(cv2.imdecode(file, cv2.IMREAD_COLOR))[::-1])


def _levels(plane: np.ndarray) -> np.ndarray:
    """Grey levels of values in [0, 1], rounded half to even; in single precision in one pass over memory."""
    if plane.dtype == np.float32:
        return np.asarray(cv2.convertScaleAbs(plane, alpha=255))
    return np.asarray(np.rint(255 * plane), dtype=np.uint8)
