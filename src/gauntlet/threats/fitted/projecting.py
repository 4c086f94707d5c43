"""Planes in space seen by a camera: corners in metres to pixels, and the homography of a rectangle.

docs/specs/beyond.md, 7. Pixel (r, q) has its centre at x = q + 1/2, y = r + 1/2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
NEAREST = 0.1
"""Metres in front of the camera; nearer points are behind it."""


def project(points: Floats, extrinsic: Floats, intrinsic: Floats) -> tuple[Floats, Floats]:
    """Where points in space are seen, (..., 2) x and y in pixels, and their depth, (...) in metres.

    Args:
        points: (..., 3) in metres.
        extrinsic: (4, 4), world to camera: x right, y down, z forward.
        intrinsic: (3, 3), camera to pixels.
    """
    homogeneous = np.concatenate([points, np.ones((*points.shape[:-1], 1))], axis=-1)
    seen = homogeneous @ extrinsic.T
    seen = seen[..., :3] / seen[..., 3:]
    pixels = seen @ intrinsic.T
    # What is behind the camera has no place in the picture; its depth says so.
    depth = seen[..., 2]
    return pixels[..., :2] / np.where(np.abs(depth) < 1e-9, 1e-9, depth)[..., None], depth


def upright_corners(offset: tuple[float, float, float], pixels: tuple[int, int], metres: float) -> Floats:
    """The corners (4, 3) of a patch on the plane x = o_x: top left, top right, bottom right, bottom left.

    Args:
        offset: of the top left corner; y points left, z up.
        pixels: height and width of the patch.
        metres: of one pixel.
    """
    x, y, z = offset
    height, width = (side * metres for side in pixels)
    return np.array([(x, y, z), (x, y - width, z), (x, y - width, z - height), (x, y, z - height)])


def rectangle(height: float, width: float) -> Floats:
    """The corners (4, 2) of a patch in its own pixels: x and y, from the top left in the order of the clock."""
    return np.array([(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)])


def homography(sources: Floats, targets: Floats) -> Floats:
    """The (3, 3) map that takes four points x, y to four others; its last element is 1."""
    rows = []
    for (x, y), (u, v) in zip(sources, targets, strict=True):
        rows.append((x, y, 1, 0, 0, 0, -u * x, -u * y))
        rows.append((0, 0, 0, x, y, 1, -v * x, -v * y))
    solved = np.linalg.solve(np.array(rows, np.float64), targets.reshape(-1))
    return np.append(solved, 1.0).reshape(3, 3)


def plane_depth(corners: Floats, depths: Floats, height: int, width: int) -> Floats:
    """The depth of a plane at every pixel, (H, W) in metres; inf behind its horizon.

    1 / depth is linear in x and y.

    Args:
        corners: (4, 2) in pixels. depths: (4,) in metres.
        height, width: of the image.
    """
    known = np.concatenate([corners, np.ones((4, 1))], axis=1)
    slope = np.linalg.lstsq(known, 1 / depths, rcond=None)[0]
    y, x = np.mgrid[:height, :width] + 0.5
    inverse = slope[0] * x + slope[1] * y + slope[2]
    return np.where(inverse > 1e-9, 1 / np.maximum(inverse, 1e-9), np.inf)
