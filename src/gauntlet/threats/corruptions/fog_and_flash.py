"""Light on its way through the scene: fog and flash (docs/specs/corruptions.md, sections 4.2 and 4.3)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.depth import REACH, Depth, relative_depth
from gauntlet.threats.corruptions.draws import Draws
from gauntlet.threats.corruptions.filters import gaussian_filter

FOG_DENSITIES = (4, 8, 12, 16, 20)
FLASH_DIVISORS = (2.4, 1.4, 0.9, 0.6, 0.4)
LAMP = 1.6
"""Energy 2.5, times .8 for the lamp and .8 for the surface."""
FALLOFF = 8.0
"""Square metres: the light fades as 8 / (8 + R^2)."""
NORMAL_SIGMA = 1.5
"""Pixels by which depth is smoothed before its slope is taken."""


def fog_3d(image: Image, severity: int, draws: Draws, depth: Depth) -> Image:
    """Fog between scene and camera, as grey as the image is on the average."""
    transmission = np.exp(-FOG_DENSITIES[severity - 1] * relative_depth(depth))[..., None]
    airlight = image.mean()
    return np.asarray(transmission * image + (1 - transmission) * airlight, np.float64).astype(np.uint8)


def flash(image: Image, severity: int, draws: Draws, depth: Depth) -> Image:
    """A lamp at the camera, brighter on what is near and faces it."""
    return flashed(image, severity, camera_shading(relative_depth(depth)))


def flashed(image: Image, severity: int, shading: npt.NDArray[np.floating]) -> Image:
    """The image times 1 + shading / k, at most white; shading in [0, 1]."""
    gain = 1 + shading[..., None] / FLASH_DIVISORS[severity - 1]
    return np.minimum(image * gain, 255).astype(np.uint8)


def camera_shading(d: Depth) -> Depth:
    """clip(1.6 max(0, n l) 8 / (8 + R^2), 0, 1): Lambertian shading by a point light at the camera.

    The scene is what the pinhole camera (f = width, in pixels) sees: P = Z (u, v, 1) with u = (x - (W - 1) / 2) / f.
    Its normal is P_x x P_y, which in terms of the slopes Z_x, Z_y (metres per pixel) is, up to a positive factor,
    (-f Z_x, -f Z_y, Z + f (u Z_x + v Z_y)); so n l = Z / (|n| |(u, v, 1)|) is never negative.
    """
    height, width = d.shape
    metres = REACH * d
    smooth = REACH * gaussian_filter(d, (NORMAL_SIGMA, NORMAL_SIGMA))
    padded = np.pad(smooth, 1, mode="edge")
    across = width * (padded[1:-1, 2:] - padded[1:-1, :-2]) / 2
    down = width * (padded[2:, 1:-1] - padded[:-2, 1:-1]) / 2
    u = ((np.arange(width) - (width - 1) / 2) / width)[None, :]
    v = ((np.arange(height) - (height - 1) / 2) / width)[:, None]
    normal = np.sqrt(across**2 + down**2 + (smooth + u * across + v * down) ** 2)
    facing = smooth / (normal * np.sqrt(u**2 + v**2 + 1))
    return np.asarray(np.minimum(LAMP * facing * FALLOFF / (FALLOFF + metres**2), 1), np.float64)
