"""Places for a patch in a scene of `streets`: on facades and billboards, in perspective, behind what is nearer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.samples import Sample
from gauntlet.threats.fitted.projecting import NEAREST, Floats, plane_depth, project

FACADE, BILLBOARD, SURFACE = "facade", "billboard", "surface"
SURFACES = (FACADE, BILLBOARD, SURFACE)

_NEARER = 1.03  # a patch on a wall has the wall's depth, up to rounding and to what the renderer draws on top of it
_LEAST_SEEN = 0.6  # share of a patch that nothing covers
_LEAST_AREA = 0.004  # share of the image
_LOOKS = 5  # points per side that decide how much of a patch is seen


@dataclass(frozen=True)
class ScenePlace:
    """A rectangle in a scene as it is seen.

    Attributes:
        corners: (4, 2) x, y in pixels. depths: (4,) in metres.
    """

    corners: Floats
    depths: Floats

    def hidden(self, sample: Sample) -> npt.NDArray[np.bool_]:
        """Where something stands before the plane of the rectangle, (H, W)."""
        depth = _depth(sample)
        return np.asarray(plane_depth(self.corners, self.depths, *depth.shape) > depth * _NEARER)


def scene_places(sample: Sample, on: str, size: tuple[float, float]) -> list[ScenePlace]:
    """Every place of a patch that is inside the picture and mostly seen, by falling area; an error without geometry.

    Args:
        sample: of `streets`.
        on: one of `SURFACES`.
        size: height and width in metres.
    """
    depth = _depth(sample)
    views = _views(sample.id, on, size, (depth.shape[0], depth.shape[1]))
    seen = (views.distances <= depth[views.rows, views.columns] * _NEARER).mean(1)
    return [
        ScenePlace(corners, depths)
        for corners, depths in zip(views.corners[seen >= _LEAST_SEEN], views.depths[seen >= _LEAST_SEEN], strict=True)
    ]


class _Views(NamedTuple):
    """Rectangles inside a picture, by falling area: corners (n, 4, 2) and their depths (n, 4); for a grid of points on
    each, the pixel that it falls on and its distance, (n, points)."""

    corners: Floats
    depths: Floats
    rows: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]
    distances: Floats


@lru_cache(maxsize=512)
def _views(sample_id: str, on: str, size: tuple[float, float], image: tuple[int, int]) -> _Views:
    from gauntlet.datasets.streets import surfaces  # here, for it loads the compiler

    view = surfaces.view_of(sample_id, image)
    parts = []
    if on in (FACADE, SURFACE):
        parts.append(surfaces.on_facades(sample_id, size))
    if on in (BILLBOARD, SURFACE):
        parts.append(surfaces.for_billboards(sample_id, size))
    rectangles = np.concatenate(parts)
    corners, depths = project(rectangles, view.extrinsic, view.intrinsic)
    inside = (corners >= 0).all((1, 2)) & (corners <= np.array([image[1], image[0]])).all((1, 2))
    area = _area(corners) / (image[0] * image[1])
    chosen = np.flatnonzero(inside & (depths > NEAREST).all(1) & (area >= _LEAST_AREA))
    chosen = chosen[np.argsort(-area[chosen], kind="stable")]
    pixels, distances = project(_points_on(rectangles[chosen]), view.extrinsic, view.intrinsic)
    columns = np.clip(pixels[..., 0].astype(np.intp), 0, image[1] - 1)
    rows = np.clip(pixels[..., 1].astype(np.intp), 0, image[0] - 1)
    return _Views(corners[chosen], depths[chosen], rows, columns, distances)


def _area(corners: Floats) -> Floats:
    """(n,) of quadrilaterals (n, 4, 2), in pixels."""
    following = np.roll(corners, -1, axis=1)
    return np.asarray(np.abs((corners[..., 0] * following[..., 1] - following[..., 0] * corners[..., 1]).sum(1)) / 2)


def _points_on(rectangles: Floats) -> Floats:
    """A grid of points on each rectangle, (n, points, 3)."""
    steps = (np.arange(_LOOKS) + 0.5) / _LOOKS
    right, down = np.meshgrid(steps, steps)
    origin = rectangles[:, None, 0]
    across, along = rectangles[:, None, 1] - origin, rectangles[:, None, 3] - origin
    return np.asarray(origin + right.reshape(1, -1, 1) * across + down.reshape(1, -1, 1) * along)


def _depth(sample: Sample) -> npt.NDArray[np.float32]:
    from gauntlet.datasets.streets import surfaces  # here, for it loads the compiler

    if sample.depth is None or not sample.id.startswith(surfaces.PREFIX):
        raise GauntletError(
            f"image '{sample.id}' has no known walls: patches on facades and billboards need the scenes of streets; "
            "place the patch on the image, or give its corners in pixels."
        )
    return sample.depth
