"""A camera that moves while the shutter is open (docs/specs/corruptions.md, section 4.5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.depth import Depth, relative_depth
from gauntlet.threats.corruptions.draws import Draws
from gauntlet.threats.corruptions.point_cloud import PointCloud, build_cloud, sum_of_views

FRAMES = 60
XY_FRAMES = (20, 30, 40, 50, 60)
Z_FRAMES = (20, 25, 30, 35, 38)
"""How many of the 60 frames of the whole way a severity averages."""
WIDTH = 512
"""Pixels of the image for which the shifts are drawn."""


def xy_motion_blur(image: Image, severity: int, draws: Draws, depth: Depth) -> Image:
    """The camera moves sideways; near things are blurred most. A seed gives all severities the same way."""
    return _blurred(image, depth, *sideways(draws), XY_FRAMES[severity - 1])


def z_motion_blur(image: Image, severity: int, draws: Draws, depth: Depth) -> Image:
    """The camera moves forwards and a little sideways. A seed gives all severities the same way."""
    return _blurred(image, depth, *forwards(draws), Z_FRAMES[severity - 1])


Way = tuple[tuple[int, int], float]
"""How far the nearest point of the middle moves in all, in pixels to the left and up for a width of 512, and the part
of the width that is left in view at the end: 1 for a camera that does not move forwards."""


def sideways(draws: Draws) -> Way:
    """The way of xy_motion_blur."""
    leftwards = draws.integer(2) == 0
    across = draws.integer(25) + (-75 if leftwards else 50)
    return (across, draws.integer(150) - 75), 1.0


def forwards(draws: Draws) -> Way:
    """The way of z_motion_blur."""
    across, down = draws.integer(60) - 30, draws.integer(60) - 30
    return (across, down), draws.uniform(0.5, 0.6)


def frames_of(image: Image, depth: Depth, way: Way) -> list[Image]:
    """The 60 frames of a way, the first one the image itself (up to the half pixel of step 6)."""
    cloud = build_cloud(image, relative_depth(depth))
    return [_recentred_mean(sum_of_views(cloud, shift[None]), 1) for shift in _way(cloud, *way)]


def _blurred(image: Image, depth: Depth, pixels: tuple[int, int], crop: float, frames: int) -> Image:
    """The mean of the first frames of a way.

    Args:
        image, depth: the scene.
        pixels: how far the nearest point of the middle moves in all, to the left and up, for a width of 512.
        crop: the part of the width that is left in view at the end; 1 for a camera that does not move forwards.
        frames: how many of the 60.
    """
    cloud = build_cloud(image, relative_depth(depth))
    return _recentred_mean(sum_of_views(cloud, _way(cloud, pixels, crop)[:frames]), frames)


def _way(cloud: PointCloud, pixels: tuple[int, int], crop: float) -> npt.NDArray[np.float32]:
    """The shifts of the points for every frame, (60, 3): (-t U k Z'/f, -t V k Z'/f, Delta) of step 3, k = W / 512."""
    t = np.arange(FRAMES) / (FRAMES - 1)
    ahead = -t * (1 - crop) * cloud.focus
    scale = -t * (cloud.focus + ahead) / WIDTH  # k / f = 1 / 512
    return np.stack([scale * pixels[0], scale * pixels[1], ahead], axis=1).astype(np.float32)


def _recentred_mean(total: npt.NDArray[np.int32], frames: int) -> Image:
    """The mean of the frames, sampled half a pixel to the right and down as the reference does (steps 6 and 7)."""
    padded = np.pad(total, ((0, 1), (0, 1), (0, 0)), mode="edge")
    squares = padded[:-1, :-1] + padded[:-1, 1:] + padded[1:, :-1] + padded[1:, 1:]
    return np.asarray(squares // (4 * frames), np.uint8)
