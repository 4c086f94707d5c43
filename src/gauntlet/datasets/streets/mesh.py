"""Flat painted faces in space: what every object of a scene is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Point = tuple[float, float, float]
Color = tuple[float, float, float]

# How a face is painted; `shading` says what the parameters of each mean.
PLAIN, FACADE, LEAF, RAILING, GLASS, ROUND, PLANKS, SPOKES = range(8)

# Columns of the face table.
LABEL, INSTANCE, KIND, BIAS = 0, 1, 2, 3
COLOR_A, COLOR_B, COLOR_C = 4, 7, 10
PARAMETERS, PARAMETER_COUNT = 13, 8
ANCHOR = PARAMETERS + PARAMETER_COUNT
COLUMNS = ANCHOR + 3

_PADDING = tuple((0.0,) * (PARAMETER_COUNT - given) for given in range(PARAMETER_COUNT + 1))

BLACK: Color = (0.0, 0.0, 0.0)


class Paint(NamedTuple):
    """How a face looks.

    Attributes:
        kind: one of PLAIN, FACADE, LEAF, RAILING, GLASS, ROUND, PLANKS, SPOKES.
        color, second, third: reflectances in [0, 1]; their use depends on the kind.
        parameters: up to eight numbers; their meaning depends on the kind.
    """

    kind: int
    color: Color
    second: Color = BLACK
    third: Color = BLACK
    parameters: tuple[float, ...] = ()


def plain(color: Color, roughness: float = 0.15, grain: float = 12.0) -> Paint:
    """One colour, varied by noise of some strength and of `grain` cells per metre."""
    return Paint(PLAIN, color, parameters=(roughness, grain))


@dataclass
class Mesh:
    """Faces in the order they were added; the faces of one instance follow each other.

    Attributes:
        coordinates: x, y, z of the corners of all faces, one after the other, metres.
        ends: for each face, how many corners there are up to its last one.
        cells: the rows of the face table, one after the other.
        instance_labels: the class of every instance; instances are numbered from 1.
        bordered: whether an instance gets a void border in the label map.
    """

    coordinates: list[float] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    cells: list[float] = field(default_factory=list)
    instance_labels: list[int] = field(default_factory=list)
    bordered: list[bool] = field(default_factory=list)

    def new_instance(self, label: int, bordered: bool) -> int:
        """The number of a new instance."""
        self.instance_labels.append(label)
        self.bordered.append(bordered)
        return len(self.instance_labels)

    def add(
        self,
        points: Sequence[Point],
        paint: Paint,
        label: int,
        instance: int = 0,
        bias: float = 0.0,
        anchor: Point | None = None,
    ) -> None:
        """Adds a flat face.

        Args:
            points: its corners, in order; concave outlines are fine.
            paint: how it looks.
            label: its class.
            instance: the instance it belongs to, 0 for none.
            bias: by what share it is treated as nearer than it is; lets details lie on top of a surface.
            anchor: the origin of its texture, its first corner if not given.
        """
        for point in points:
            self.coordinates += point
        self.ends.append(len(self.coordinates) // 3)
        kind, color, second, third, parameters = paint
        padding = _PADDING[len(parameters)]
        self.cells += (label, instance, kind, bias, *color, *second, *third, *parameters, *padding)
        self.cells += anchor or points[0]

    def board(
        self, x: float, z: float, outline: Sequence[tuple[float, float]], paint: Paint, label: int, **more: float
    ) -> None:
        """Adds a face that stands upright and looks at the camera; the outline is (right of x, height)."""
        instance, bias = int(more.get("instance", 0)), more.get("bias", 0.0)
        points = [(x + right, height, z) for right, height in outline]
        self.add(points, paint, label, instance, bias, (x, 0.0, z))

    def tables(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Vertices (V, 3), bounds (F + 1,) and the face table (F, COLUMNS)."""
        return (
            np.array(self.coordinates, np.float64).reshape(-1, 3),
            np.array([0, *self.ends], np.int64),
            np.array(self.cells, np.float64).reshape(-1, COLUMNS),
        )
