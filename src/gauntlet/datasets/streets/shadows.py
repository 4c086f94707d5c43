"""Shadows on the ground, as polygons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gauntlet.datasets.streets.light import CONTACT, SPOT, SUN_BLOCKED
from gauntlet.datasets.streets.mesh import Point

# The corners of a circle; written out, so that no machine's sin and cos come in.
CIRCLE = (
    (1.0, 0.0),
    (0.866025, 0.5),
    (0.5, 0.866025),
    (0.0, 1.0),
    (-0.5, 0.866025),
    (-0.866025, 0.5),
    (-1.0, 0.0),
    (-0.866025, -0.5),
    (-0.5, -0.866025),
    (0.0, -1.0),
    (0.5, -0.866025),
    (0.866025, -0.5),
)


class Shadows:
    """Polygons on the ground that keep light away.

    Args:
        sun: unit vector towards the sun, above the horizon.
    """

    def __init__(self, sun: Point) -> None:
        self._step = (sun[0] / sun[1], sun[2] / sun[1])
        self._coordinates: list[float] = []
        self._ends: list[int] = []
        self._strengths: list[int] = []

    def _add(self, points: Sequence[Point], strength: int) -> None:
        for point in points:
            self._coordinates += point
        self._ends.append(len(self._coordinates) // 3)
        self._strengths.append(strength)

    def cast(self, points: Sequence[Point]) -> None:
        """The shadow that a flat polygon in space casts."""
        dx, dz = self._step
        self._add([(x - y * dx, 0.0, z - y * dz) for x, y, z in points], SUN_BLOCKED)

    def ball(self, x: float, y: float, z: float, radius: float) -> None:
        """The shadow of a ball, about."""
        dx, dz = self._step
        x, z = x - y * dx, z - y * dz
        points = []
        for u, v in CIRCLE:
            along = (u * dx + v * dz) * 0.5
            points.append((x + radius * (u + along * dx), 0.0, z + radius * (v + along * dz)))
        self._add(points, SUN_BLOCKED)

    def post(self, x: float, z: float, width: float, height: float) -> None:
        """The shadow of something upright and narrow."""
        dx, dz = self._step
        length = (dx * dx + dz * dz) ** 0.5
        if length > 1e-6:
            ax, az = dz / length * width / 2, -dx / length * width / 2
            tip_x, tip_z = x - height * dx, z - height * dz
            self._add(
                [
                    (x + ax, 0.0, z + az),
                    (x - ax, 0.0, z - az),
                    (tip_x - ax, 0.0, tip_z - az),
                    (tip_x + ax, 0.0, tip_z + az),
                ],
                SUN_BLOCKED,
            )

    def contact(self, points: Sequence[Point]) -> None:
        """The dark place right under something; there in any weather."""
        self._add(points, CONTACT)

    def spot(self, x: float, z: float, width: float, length: float) -> None:
        """A faint ellipse on the ground around the foot of something, in any weather."""
        self._add([(x + u * width / 2, 0.0, z + v * length / 2) for u, v in CIRCLE], SPOT)

    def tables(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Vertices (V, 3), bounds (P + 1,) and strengths (P,)."""
        return (
            np.array(self._coordinates, np.float64).reshape(-1, 3),
            np.array([0, *self._ends], np.int64),
            np.array(self._strengths, np.uint8),
        )
