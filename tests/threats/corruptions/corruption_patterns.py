"""The synthetic test images of docs/specs/corruptions.md, section 7.1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]


def _levels(channels: list[npt.NDArray[np.float64]]) -> Image:
    return np.clip(np.floor(np.stack(channels, axis=2) + 0.5), 0, 255).astype(np.uint8)


def waves() -> Image:
    """S1, 256 x 256."""
    y, x = np.mgrid[:256, :256]
    red = 40 + x // 2 + 50 * np.sin(2 * np.pi * x / 32) * np.sin(2 * np.pi * y / 32) + 30 * ((x // 32 + y // 32) % 2)
    green = 30 + y // 2 + 50 * np.sin(2 * np.pi * (x + y) / 24) + 40 * ((x // 16 + y // 16) % 2)
    blue = 200 - (x + y) // 4 + 40 * np.cos(2 * np.pi * (x - 2 * y) / 40)
    return _levels([red, green, blue])


def zone_plates() -> Image:
    """S2, 256 x 256."""
    y, x = np.mgrid[:256, :256]
    plates = ((127, 127, 512, 100, 120), (64, 192, 640, 70, 100), (200, 60, 768, 90, 140))
    return _levels(
        [b + a * np.cos(2 * np.pi * ((x - cx) ** 2 + (y - cy) ** 2) / (2 * k)) for cx, cy, k, a, b in plates]
    )


def blocks() -> Image:
    """S3, 192 x 320: flat blocks, a sky, a striped road, thin bright lines."""
    y, x, c = np.mgrid[:192, :320, :3]
    across, down = x // 16, y // 16
    v = 20 + (((73 * across + 151 * down + 31 * across * down + 57 * c) % 256) * 200) // 255
    v = np.where(y < 64, np.array([150, 185, 230])[c] - y // 2, v)
    v = np.where(y >= 168, 12 + 5 * c + x % 7, v)
    line = (y >= 64) & (y < 168) & ((x % 40 == 0) | (y % 52 == 0))
    image: Image = np.where(line, np.array([250, 245, 235])[c], v).astype(np.uint8)
    return image


PATTERNS = {"S1": waves, "S2": zone_plates, "S3": blocks}


def depth_of(height: int, width: int) -> npt.NDArray[np.float32]:
    """The depth of section 7.2 in metres: a floor, a slanted box, a disc, and eight rows without depth."""
    y, x = np.mgrid[:height, :width]
    raw = 1500 + 22 * (height - 1 - y)
    box = (x >= width // 4) & (x < width // 2) & (y >= height // 3) & (y < 4 * height // 5)
    raw = np.where(box, 900 + 2 * (x - width // 4), raw)
    raw = np.where((x - 3 * width // 4) ** 2 + (y - height // 2) ** 2 < (height // 6) ** 2, 2400, raw)
    return np.where(y < 8, np.inf, raw / 512).astype(np.float32)
