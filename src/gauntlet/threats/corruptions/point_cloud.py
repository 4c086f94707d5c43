"""An image with depth as a cloud of points, and what a moved camera sees of it (docs/specs/corruptions.md, 4.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.depth import Depth

NEAREST_DISPARITY = 40.0
"""Disparity of the nearest point; that of a point at Z is 40 f / Z."""
EDGE = 0.03 * NEAREST_DISPARITY
SMALLEST_Z = np.float32(0.001)
LINES = (
    *((-1, 1), (0, 1), (1, 1), (1, 0), (-1, 2), (1, 2), (2, 1), (2, -1)),
    *((-2, 3), (-1, 3), (1, 3), (2, 3), (3, 2), (3, 1), (3, -1), (3, -2)),
)
"""Directions in which a hole looks for its rim, both ways each."""

Singles = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class PointCloud:
    """The points of an image in the camera's frame: x to the right, y down, z ahead, in units in which f is its width.

    Attributes:
        positions: float32 (N, 3).
        colors: uint8 (N, 3).
        size: (height, width) of the image.
        focus: z of the nearest point of the middle of the image (margins of a quarter).
    """

    positions: Singles
    colors: Image
    size: tuple[int, int]
    focus: float


def build_cloud(image: Image, d: Depth) -> PointCloud:
    """Every pixel as a point at Z = f d / min d, but for those on smeared depth edges (4.5, step 1)."""
    height, width = d.shape
    z = width * d / d.min()
    x = (np.arange(width) - (width - 1) / 2)[None, :] * z / width
    y = (np.arange(height) - (height - 1) / 2)[:, None] * z / width
    kept = ~_on_edge(NEAREST_DISPARITY * width / z)
    middle = z[height // 4 : height - height // 4, width // 4 : width - width // 4]
    positions = np.stack([x[kept], y[kept], z[kept]], axis=1).astype(np.float32)
    return PointCloud(positions, image[kept], (height, width), float(middle.min()))


def _on_edge(disparity: Depth) -> npt.NDArray[np.bool_]:
    """|4 D - D_up - D_upright - D_left - D_downleft| / 40 >= .03, with replicated borders."""
    padded = np.pad(disparity, 1, mode="edge")
    around = padded[:-2, 1:-1] + padded[:-2, 2:] + padded[1:-1, :-2] + padded[2:, :-2]
    return np.asarray(np.abs(4 * disparity - around) >= EDGE)


def sum_of_views(cloud: PointCloud, shifts: Singles) -> Integers:
    """The sum of the views of the cloud after each of the shifts (n, 3), int32 (H, W, 3) in grey levels."""
    total = np.zeros((*cloud.size, 3), np.int32)
    _add_views(cloud.positions, cloud.colors, shifts, _line_steps(max(cloud.size)), total)
    return total


def _line_steps(length: int) -> Integers:
    """Offsets (x, y) after 0, 1, 2, ... unit steps along every line, rounded; (16, 2 length, 2)."""
    lines = np.array(LINES, np.float64)
    units = lines / np.sqrt((lines**2).sum(axis=1, keepdims=True))
    steps: Integers = np.rint(units[:, None, :] * np.arange(2 * length)[None, :, None]).astype(np.int32)
    return steps


@compiled
def _add_views(positions: Singles, colors: Image, shifts: Singles, steps: Integers, total: Integers) -> None:
    height, width = total.shape[:2]
    projected = np.empty((positions.shape[0], 3), np.float32)
    keys = np.empty((height, width), np.float32)
    cleaned = np.empty((height, width), np.float32)
    splats = np.empty((height, width, 5), np.float32)
    frame = np.empty((height, width, 3), np.uint8)
    z = np.empty((height, width), np.float32)
    for view in range(shifts.shape[0]):
        _project(positions, shifts[view], projected, keys)
        _degrid(keys, cleaned)
        _splat(positions, shifts[view], projected, colors, cleaned, splats)
        holes = _resolve(splats, frame, z)
        if holes > 0:
            _fill_holes(z, steps, frame)
        for y in range(height):
            for x in range(width):
                for channel in range(3):
                    total[y, x, channel] += frame[y, x, channel]


@compiled
def _project(positions: Singles, shift: Singles, projected: Singles, keys: Singles) -> None:
    """Column, row and disparity of every point (-1: behind the camera); the largest disparity at every pixel."""
    height, width = keys.shape
    keys[:] = 0
    focal = np.float32(width)
    centre_x, centre_y = np.float32((width - 1) / 2), np.float32((height - 1) / 2)
    half = np.float32(0.5)
    for point in range(positions.shape[0]):
        z = positions[point, 2] + shift[2]
        if z < SMALLEST_Z:
            projected[point, 2] = -1
            continue
        scale = focal / z
        u = (positions[point, 0] + shift[0]) * scale + centre_x
        v = (positions[point, 1] + shift[1]) * scale + centre_y
        disparity = np.float32(NEAREST_DISPARITY) * scale
        if not (-1 < u < width and -1 < v < height):
            disparity = np.float32(-1)
        projected[point, 0], projected[point, 1], projected[point, 2] = u, v, disparity
        if disparity < 0:
            continue
        column, row = int(np.floor(u + half)), int(np.floor(v + half))
        if 0 <= column < width and 0 <= row < height and disparity > keys[row, column]:
            keys[row, column] = disparity


@compiled
def _degrid(keys: Singles, cleaned: Singles) -> None:
    """A pixel farther than both pixels of an opposite pair by a disparity of 1 takes the mean of all such pairs."""
    height, width = keys.shape
    one = np.float32(1)
    for y in range(height):
        for x in range(width):
            limit = keys[y, x] + one
            total, count = np.float32(0), 0
            inside_x, inside_y = 0 < x < width - 1, 0 < y < height - 1
            if inside_x:
                a, b = keys[y, x - 1], keys[y, x + 1]
                if a >= limit and b >= limit:
                    total, count = total + (a + b), count + 2
            if inside_y:
                a, b = keys[y - 1, x], keys[y + 1, x]
                if a >= limit and b >= limit:
                    total, count = total + (a + b), count + 2
            if inside_x and inside_y:
                a, b = keys[y - 1, x - 1], keys[y + 1, x + 1]
                if a >= limit and b >= limit:
                    total, count = total + (a + b), count + 2
                a, b = keys[y - 1, x + 1], keys[y + 1, x - 1]
                if a >= limit and b >= limit:
                    total, count = total + (a + b), count + 2
            cleaned[y, x] = total / np.float32(count) if count > 0 else keys[y, x]


@compiled
def _splat(
    positions: Singles, shift: Singles, projected: Singles, colors: Image, keys: Singles, splats: Singles
) -> None:
    """Adds colour, z and weight of every point to the four pixels around it, unless it is behind what they show."""
    height, width = keys.shape
    splats[:] = 0
    one = np.float32(1)
    for point in range(projected.shape[0]):
        disparity = projected[point, 2]
        if disparity < 0:
            continue
        u, v = projected[point, 0], projected[point, 1]
        left, top = int(np.floor(u)), int(np.floor(v))
        right_share, lower_share = u - np.float32(left), v - np.float32(top)
        z = positions[point, 2] + shift[2]
        for row in range(max(top, 0), min(top + 2, height)):
            row_share = lower_share if row > top else one - lower_share
            for column in range(max(left, 0), min(left + 2, width)):
                if disparity < keys[row, column] - one:
                    continue
                share = row_share * (right_share if column > left else one - right_share)
                splats[row, column, 0] += share * np.float32(colors[point, 0])
                splats[row, column, 1] += share * np.float32(colors[point, 1])
                splats[row, column, 2] += share * np.float32(colors[point, 2])
                splats[row, column, 3] += share * z
                splats[row, column, 4] += share


@compiled
def _resolve(splats: Singles, frame: Image, z: Singles) -> int:
    """Colours and z from the sums of weighted ones; holes get z = 0 and are counted.

    The reference adds 1e-7 to the weight, which darkens pixels that a point only just touches; this does not.
    """
    holes = 0
    for y in range(z.shape[0]):
        for x in range(z.shape[1]):
            weight = splats[y, x, 4]
            if weight > 0:
                z[y, x] = splats[y, x, 3] / weight
                for channel in range(3):
                    frame[y, x, channel] = np.uint8(np.int32(min(splats[y, x, channel] / weight, np.float32(255))))
            else:
                z[y, x] = 0
                holes += 1
    return holes


@compiled
def _fill_holes(z: Singles, steps: Integers, frame: Image) -> None:
    """Holes between seen pixels take the farther end of the shortest line across them, others the nearest pixel."""
    height, width = z.shape
    first, last = _hull(z)
    above = np.full((height, width), -1, np.int32)
    below = np.full((height, width), height, np.int32)
    _nearest_rows(z, above, below)
    right = np.empty(width, np.int32)
    for y in range(height):
        seen = width
        for x in range(width - 1, -1, -1):
            seen = x if z[y, x] > 0 else seen
            right[x] = seen
        left = -1
        for x in range(width):
            if z[y, x] > 0:
                left = x
                continue
            row, column = -1, -1
            if first[y] <= x <= last[y]:
                longest = steps.shape[1] - 1
                if left >= 0 and right[x] < width:
                    longest = min(longest, right[x] - left)
                if above[y, x] >= 0 and below[y, x] < height:
                    longest = min(longest, below[y, x] - above[y, x])
                row, column = _across(z, steps, y, x, longest)
            if row < 0:
                row, column = _nearest(above, below, y, x)
            if row >= 0:
                for channel in range(3):
                    frame[y, x, channel] = frame[row, column, channel]
            else:  # nothing at all is seen
                frame[y, x] = 0


@compiled
def _hull(z: Singles) -> tuple[Integers, Integers]:
    """Per row, the first and last column of the convex hull of what is seen, and a pixel more for rounding.

    A line that meets seen pixels on both sides of a hole exists inside the hull only; most holes at the border of a
    view lie outside, and need not look for one in 32 directions.
    """
    height, width = z.shape
    bounds = np.empty((2, height), np.int32)
    chain = np.empty(height, np.int32)
    ends = np.empty(height, np.int32)
    for side in range(2):
        length = 0
        for y in range(height):
            end = 0
            while end < width and z[y, width - 1 - end if side else end] == 0:
                end += 1
            ends[y] = end
            bounds[side, y] = width
            if end == width:
                continue
            while length >= 2:  # keeps the chain convex
                p, q = chain[length - 2], chain[length - 1]
                if (ends[q] - ends[p]) * (y - p) >= (end - ends[p]) * (q - p):
                    length -= 1
                else:
                    break
            chain[length] = y
            length += 1
        for part in range(length):
            p = chain[part]
            q = chain[min(part + 1, length - 1)]
            for y in range(p, q + 1):
                between = ends[p] if p == q else ends[p] + (ends[q] - ends[p]) * (y - p) // (q - p)
                bounds[side, y] = between - 1
    return bounds[0], width - 1 - bounds[1]


@compiled
def _across(z: Singles, steps: Integers, y: int, x: int, longest: int) -> tuple[int, int]:
    """Row and column of the farther end of the shortest line of unit steps across a hole, or -1, -1.

    `longest` is a number of steps that a line is known not to exceed (those along the row and the column are cheap).
    """
    shortest = longest + 1
    row, column = -1, -1
    for line in range(steps.shape[0]):
        ahead = _walk(z, steps, line, 1, y, x, shortest - 1)
        if ahead == 0:
            continue
        back = _walk(z, steps, line, -1, y, x, shortest - ahead)
        if back == 0:
            continue
        shortest = ahead + back
        ahead_x, ahead_y = x + steps[line, ahead, 0], y + steps[line, ahead, 1]
        back_x, back_y = x - steps[line, back, 0], y - steps[line, back, 1]
        if z[ahead_y, ahead_x] >= z[back_y, back_x]:
            row, column = ahead_y, ahead_x
        else:
            row, column = back_y, back_x
    return row, column


@compiled
def _walk(z: Singles, steps: Integers, line: int, sign: int, y: int, x: int, limit: int) -> int:
    """After how many steps, fewer than the limit, a line first meets a seen pixel; 0 if it does not."""
    height, width = z.shape
    for step in range(1, limit):
        column, row = x + sign * steps[line, step, 0], y + sign * steps[line, step, 1]
        if not (0 <= column < width and 0 <= row < height):
            return 0
        if z[row, column] > 0:
            return step
    return 0


@compiled
def _nearest_rows(z: Singles, above: Integers, below: Integers) -> None:
    """The rows of the nearest seen pixels of the same column, upwards (-1: none) and downwards (height: none)."""
    height, width = z.shape
    for y in range(height):
        for x in range(width):
            if z[y, x] > 0:
                above[y, x] = y
            elif y > 0:
                above[y, x] = above[y - 1, x]
    for y in range(height - 1, -1, -1):
        for x in range(width):
            if z[y, x] > 0:
                below[y, x] = y
            elif y < height - 1:
                below[y, x] = below[y + 1, x]


@compiled
def _nearest(above: Integers, below: Integers, y: int, x: int) -> tuple[int, int]:
    """Row and column of the nearest seen pixel, or -1, -1."""
    height, width = above.shape
    best = 4 * (height * height + width * width)
    row, column = -1, -1
    for distance in range(width):
        if distance * distance >= best:
            break
        for side in range(2):
            there = x + distance if side else x - distance
            if not 0 <= there < width:
                continue
            for source in (above[y, there], below[y, there]):
                if 0 <= source < height and (source - y) ** 2 + distance * distance < best:
                    best = (source - y) ** 2 + distance * distance
                    row, column = source, there
    return row, column
