"""Polygons into buffers: which face is seen at which sample, and where the ground lies in shadow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import inlined
from gauntlet.datasets.streets.camera import Camera
from gauntlet.datasets.streets.mesh import ANCHOR, BIAS, INSTANCE, KIND, LEAF, PARAMETERS, RAILING, SPOKES
from gauntlet.datasets.streets.noise_tiles import Tile, smooth

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

NEAR = 0.5  # metres; what is nearer to the camera is cut off
MOST_CORNERS = 64
_SUBPIXEL = 256.0  # corners are rounded to this fraction of a sample, which hides the last bits of sin and cos


class Buffers(NamedTuple):
    """What is nearest at every sample; each (rows, columns) of samples.

    Attributes:
        nearness, seen: 1/z (0 where there is none) and number of the nearest opaque face (-1 where there is none).
        screen_nearness, screen: the same for faces that one looks through (railings, spokes).
        shadow: strength of the shadow on the ground.
    """

    nearness: Floats
    seen: Integers
    screen_nearness: Floats
    screen: Integers
    shadow: npt.NDArray[np.uint8]

    @classmethod
    def empty(cls, samples: tuple[int, int]) -> Buffers:
        """Buffers in which nothing has been drawn."""
        nothing = np.full(samples, -1, np.int32)
        return cls(np.zeros(samples), nothing, np.zeros(samples), nothing.copy(), np.zeros(samples, np.uint8))


@inlined
def project(vertices: Floats, start: int, stop: int, camera: Camera, xs: Floats, ys: Floats) -> int:
    """Cuts a polygon at the near plane (Sutherland-Hodgman) and projects it; the number of its corners."""
    eye, focal, center_x, center_y = camera.eye, camera.focal, camera.center_x, camera.center_y
    count = 0
    for i in range(start, stop):
        j = i + 1 if i + 1 < stop else start
        z0, z1 = vertices[i, 2], vertices[j, 2]
        if z0 >= NEAR:
            xs[count] = center_x + focal * vertices[i, 0] / z0
            ys[count] = center_y - focal * (vertices[i, 1] - eye) / z0
            count += 1
        if (z0 >= NEAR) != (z1 >= NEAR):
            t = (NEAR - z0) / (z1 - z0)
            x = vertices[i, 0] + t * (vertices[j, 0] - vertices[i, 0])
            y = vertices[i, 1] + t * (vertices[j, 1] - vertices[i, 1])
            xs[count] = center_x + focal * x / NEAR
            ys[count] = center_y - focal * (y - eye) / NEAR
            count += 1
    for i in range(count):
        xs[i] = np.floor(xs[i] * _SUBPIXEL + 0.5) / _SUBPIXEL
        ys[i] = np.floor(ys[i] * _SUBPIXEL + 0.5) / _SUBPIXEL
    return count


@inlined
def rows_of(ys: Floats, count: int, height: int) -> tuple[int, int]:
    """The rows [first, last) whose centres the polygon may cover."""
    low, high = ys[0], ys[0]
    for i in range(1, count):
        low, high = min(low, ys[i]), max(high, ys[i])
    first = int(max(0.0, np.ceil(low - 0.5)))
    last = int(min(float(height), np.ceil(high - 0.5)))
    return first, last


@inlined
def crossings(xs: Floats, ys: Floats, count: int, y: float, places: Floats) -> int:
    """Where the outline crosses a row's centre, in ascending order; the number of crossings (even-odd rule)."""
    number = 0
    for i in range(count):
        j = i + 1 if i + 1 < count else 0
        if (ys[i] <= y) != (ys[j] <= y):
            x = xs[i] + (y - ys[i]) * (xs[j] - xs[i]) / (ys[j] - ys[i])
            k = number
            while k > 0 and places[k - 1] > x:
                places[k] = places[k - 1]
                k -= 1
            places[k] = x
            number += 1
    return number


@inlined
def span(places: Floats, pair: int, width: int) -> tuple[int, int]:
    """First column, and first one beyond, whose centres lie between two neighbouring crossings of a row."""
    left = int(max(0.0, np.ceil(places[pair] - 0.5)))
    return left, int(min(float(width), np.ceil(places[pair + 1] - 0.5)))


@inlined
def orient(vertices: Floats, bounds: npt.NDArray[np.int64], camera: Camera, normals: Floats, planes: Floats) -> None:
    """The unit normal of every face, turned to the camera, and the plane of 1/z over samples: a x + b y + c."""
    eye, focal, center_x, center_y = camera.eye, camera.focal, camera.center_x, camera.center_y
    for face in range(len(bounds) - 1):
        start, stop = bounds[face], bounds[face + 1]
        nx, ny, nz = 0.0, 0.0, 0.0
        mx, my, mz = 0.0, 0.0, 0.0
        for i in range(start, stop):  # Newell's method
            j = i + 1 if i + 1 < stop else start
            x0, y0, z0 = vertices[i, 0], vertices[i, 1], vertices[i, 2]
            x1, y1, z1 = vertices[j, 0], vertices[j, 1], vertices[j, 2]
            nx += (y0 - y1) * (z0 + z1)
            ny += (z0 - z1) * (x0 + x1)
            nz += (x0 - x1) * (y0 + y1)
            mx, my, mz = mx + x0, my + y0, mz + z0
        length = np.sqrt(nx * nx + ny * ny + nz * nz)
        if length < 1e-9:
            continue
        corners = stop - start
        nx, ny, nz = nx / length, ny / length, nz / length
        distance = (nx * mx + ny * (my - eye * corners) + nz * mz) / corners
        if distance > 0.0:
            nx, ny, nz, distance = -nx, -ny, -nz, -distance
        normals[face, 0], normals[face, 1], normals[face, 2] = nx, ny, nz
        if distance > -1e-4:  # seen edge-on
            continue
        planes[face, 0] = nx / (focal * distance)
        planes[face, 1] = -ny / (focal * distance)
        planes[face, 2] = (nz - (nx * center_x - ny * center_y) / focal) / distance


@inlined
def leaf_is_hole(row: Floats, x: float, y: float, noise: Tile) -> bool:
    """Whether a disc of leaves (parameters: radius, raggedness, cells per metre) lets the view through at (x, y)."""
    radius, ragged, grain = row[PARAMETERS], row[PARAMETERS + 1], row[PARAMETERS + 2]
    u, v = (x - row[ANCHOR]) / radius, (y - row[ANCHOR + 1]) / radius
    out = u * u + v * v
    if out <= 1.0 - ragged:
        return False
    return bool(out > 1.0 - ragged * smooth(noise, (x + 7.0 * row[ANCHOR + 2]) * grain, y * grain))


@inlined
def fill_faces(
    vertices: Floats,
    bounds: npt.NDArray[np.int64],
    faces: Floats,
    planes: Floats,
    camera: Camera,
    noise: Tile,
    buffers: Buffers,
    stamp: Integers,
    silhouettes: npt.NDArray[np.int64],
) -> None:
    """Fills the buffers with the nearest face at every sample; the order of the faces does not matter.

    Args:
        vertices, bounds, faces: the mesh's tables.
        planes: from `orient`.
        camera: where from.
        noise: the tile that makes leaves ragged.
        buffers: filled here, but for the shadow.
        stamp: which instance touched a sample last; scratch.
        silhouettes: for each instance, how many samples it would cover if nothing stood before it.
    """
    nearness, seen, screen_nearness, screen, _ = buffers  # reading the tuple in the inner loop is slower
    height, width = stamp.shape
    eye, focal, center_x, center_y = camera.eye, camera.focal, camera.center_x, camera.center_y
    xs, ys, places = np.empty(2 * MOST_CORNERS), np.empty(2 * MOST_CORNERS), np.empty(2 * MOST_CORNERS)
    for face in range(len(bounds) - 1):
        a, b, c = planes[face, 0], planes[face, 1], planes[face, 2]
        if a == 0.0 and b == 0.0 and c == 0.0:
            continue
        count = project(vertices, bounds[face], bounds[face + 1], camera, xs, ys)
        if count < 3:
            continue
        kind, instance = int(faces[face, KIND]), int(faces[face, INSTANCE])
        gain = 1.0 + faces[face, BIAS]
        see_through = kind in (RAILING, SPOKES)
        first, last = rows_of(ys, count, height)
        for row in range(first, last):
            center = row + 0.5
            number = crossings(xs, ys, count, center, places)
            for k in range(0, number - 1, 2):
                left, right = span(places, k, width)
                for column in range(left, right):
                    inverse = (a * (column + 0.5) + b * center + c) * gain
                    if inverse <= 0.0:
                        continue
                    if kind == LEAF:
                        x = (column + 0.5 - center_x) / (focal * inverse)
                        y = eye - (center - center_y) / (focal * inverse)
                        if leaf_is_hole(faces[face], x, y, noise):
                            continue
                    if instance > 0 and stamp[row, column] != instance:
                        stamp[row, column] = instance
                        silhouettes[instance] += 1
                    if see_through:
                        if inverse > screen_nearness[row, column]:
                            screen_nearness[row, column] = inverse
                            screen[row, column] = face
                    elif inverse > nearness[row, column]:
                        nearness[row, column] = inverse
                        seen[row, column] = face


@inlined
def fill_shadows(
    vertices: Floats,
    bounds: npt.NDArray[np.int64],
    strengths: npt.NDArray[np.uint8],
    camera: Camera,
    shadow: npt.NDArray[np.uint8],
) -> None:
    """Fills ground polygons with the strength of their shadow; the strongest one stays."""
    height, width = shadow.shape
    xs, ys, places = np.empty(2 * MOST_CORNERS), np.empty(2 * MOST_CORNERS), np.empty(2 * MOST_CORNERS)
    for polygon in range(len(bounds) - 1):
        count = project(vertices, bounds[polygon], bounds[polygon + 1], camera, xs, ys)
        if count < 3:
            continue
        strength = strengths[polygon]
        first, last = rows_of(ys, count, height)
        for row in range(first, last):
            number = crossings(xs, ys, count, row + 0.5, places)
            for k in range(0, number - 1, 2):
                left, right = span(places, k, width)
                for column in range(left, right):
                    if shadow[row, column] < strength:
                        shadow[row, column] = strength
