"""Walls of a scene and places for billboards: where something flat could hang, in metres; the camera as matrices."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gauntlet.datasets.streets.camera import SUPERSAMPLING, Camera
from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.mesh import FACADE, KIND
from gauntlet.datasets.streets.world import Scene, sample_scene

Floats = npt.NDArray[np.float64]
PREFIX = "streets/"

_NEAREST, _FARTHEST = 3.0, 40.0  # metres; nearer walls leave the picture, farther ones are too small to see
_STEP = 1.0
_ABOVE_GROUND = (0.5, 1.5, 2.5, 4.0)
_YAWS = (-0.35, 0.0, 0.35)  # radians by which a billboard is turned from facing the camera's way


class View(NamedTuple):
    """A camera as two matrices.

    Attributes:
        extrinsic: (4, 4), the scene's x right, y up, z forward to the camera's x right, y down, z forward.
        intrinsic: (3, 3), to pixels of the picture.
    """

    extrinsic: Floats
    intrinsic: Floats


@lru_cache(maxsize=256)
def _scene(sample_id: str) -> Scene:
    return sample_scene(Dice(sample_id))


def view_of(sample_id: str, size: tuple[int, int]) -> View:
    """The camera of a scene for a picture of (height, width)."""
    camera = Camera.of(_scene(sample_id).lens, size)
    focal, x, y = (value / SUPERSAMPLING for value in (camera.focal, camera.center_x, camera.center_y))
    extrinsic = np.diag([1.0, -1.0, 1.0, 1.0])
    extrinsic[1, 3] = camera.eye
    return View(extrinsic, np.array([[focal, 0.0, x], [0.0, focal, y], [0.0, 0.0, 1.0]]))


def on_facades(sample_id: str, size: tuple[float, float]) -> Floats:
    """Rectangles of (height, width) metres on the walls of a scene: (n, 4, 3), from the top left on, clockwise."""
    vertices, bounds, faces = _scene(sample_id).mesh.tables()
    places = []
    for face in np.flatnonzero(faces[:, KIND] == FACADE):
        corners = vertices[bounds[face] : bounds[face + 1]]
        start, end, top = corners[0], corners[1], corners[2, 1]
        along = end - start
        length = float(np.hypot(along[0], along[2]))
        for begin in np.arange(0.0, length - size[1] + 1e-9, _STEP):
            left, right = start + along * (begin / length), start + along * ((begin + size[1]) / length)
            if min(left[2], right[2]) >= _NEAREST and max(left[2], right[2]) <= _FARTHEST:
                places += [_upright(left, right, y, size[0]) for y in _ABOVE_GROUND if y + size[0] <= top]
    return np.array(places).reshape(-1, 4, 3)


def for_billboards(sample_id: str, size: tuple[float, float]) -> Floats:
    """Rectangles of (height, width) metres that stand over the pavements of a scene: (n, 4, 3), as for facades."""
    street = _scene(sample_id).street
    places = []
    for side in (-1, 1):
        for z in np.arange(_NEAREST + 3.0, _FARTHEST, _STEP):
            x = street.x(side * (street.half_width + street.pavement_width / 2), float(z))
            for yaw in _YAWS:
                half = np.array([np.cos(yaw), 0.0, np.sin(yaw)]) * size[1] / 2
                middle = np.array([x, 0.0, z])
                places += [_upright(middle - half, middle + half, y, size[0]) for y in _ABOVE_GROUND[1:3]]
    return np.array(places).reshape(-1, 4, 3)


def _upright(left: Floats, right: Floats, bottom: float, height: float) -> Floats:
    """An upright rectangle over an edge, (4, 3); its left is where the camera sees it on the left."""
    if left[0] / max(left[2], _NEAREST) > right[0] / max(right[2], _NEAREST):
        left, right = right, left
    low, high = np.array([0.0, bottom, 0.0]), np.array([0.0, bottom + height, 0.0])
    ground = np.array([1.0, 0.0, 1.0])
    return np.stack([left * ground + high, right * ground + high, right * ground + low, left * ground + low])
