"""Blurs (docs/specs/corruptions.md, sections 2.4 to 2.7 and 2.17)."""

from __future__ import annotations

import math
from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws, Floats, LegacyDraws, random_word
from gauntlet.threats.corruptions.filters import (
    gaussian_filter,
    gaussian_weights,
    motion_row,
    motion_taps,
    neighbours,
    zoom_positions,
)

DEFOCUS = ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5))
GLASS = ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2))
MOTION = ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15))
ZOOM = ((0.01, 12), (0.01, 16), (0.02, 11), (0.02, 13), (0.03, 11))
FLAT_DEFICIT = np.float32(1e-4)
"""Grey levels by which a defocused flat area misses its level: the reference's kernels sum to just below 1."""
GAUSSIAN_SIGMAS = (1.0, 2.0, 3.0, 4.0, 6.0)


def gaussian_blur(image: Image, severity: int, draws: Draws) -> Image:
    """A Gaussian blur."""
    sigma = GAUSSIAN_SIGMAS[severity - 1]
    return _blurred(image, sigma)


def _blurred(image: Image, sigma: float) -> Image:
    x = gaussian_filter(image / 255.0, (sigma, sigma))
    out = np.empty_like(image)
    _truncate(x.reshape(-1), out.reshape(-1))
    return out


def motion_blur(image: Image, severity: int, draws: Draws) -> Image:
    """A one-sided blur along a random direction within 45 degrees of the horizontal."""
    radius, sigma = MOTION[severity - 1]
    angle = draws.uniform(-45, 45)
    height, width = image.shape[:2]
    weights, rows, columns = motion_taps(radius, sigma, angle, height, width)
    out = np.empty_like(image)
    _motion_blur(image.reshape(height, -1), weights, rows, columns, out.reshape(height, -1))
    return out


def glass_blur(image: Image, severity: int, draws: Draws) -> Image:
    """Blur, pixels copied from random neighbours, blur."""
    sigma, distance, passes = GLASS[severity - 1]
    blurred = _blurred(image, sigma)
    height, width = image.shape[:2]
    if isinstance(draws, LegacyDraws):
        count = passes * (height - 2 * distance) * (width - 2 * distance)
        offsets = draws.generator.randint(-distance, distance, size=(count, 2))
        _walk_given(blurred, distance, passes, offsets)
    else:
        _walk_drawn(blurred, distance, passes, draws.key())
    return _blurred(blurred, sigma)


def zoom_blur(image: Image, severity: int, draws: Draws) -> Image:
    """The mean of the image and enlarged copies of it."""
    step, count = ZOOM[severity - 1]
    factors = [1 + n * ((1 + step) - 1) for n in range(count)]  # the very numbers of numpy.arange(1, end, step)
    height, width = image.shape[:2]
    rows = np.empty((count, height), np.float64)
    columns = np.empty((count, width), np.float64)
    for layer, factor in enumerate(factors):
        rows[layer] = zoom_positions(height, factor)[:height]
        columns[layer] = zoom_positions(width, factor)[:width]
    out = np.empty_like(image)
    x = np.divide(image, 255, dtype=np.float32).reshape(height, -1)
    _zoom_blur(x, *neighbours(rows), *neighbours(columns), out.reshape(height, -1))
    return out


def defocus_blur(image: Image, severity: int, draws: Draws) -> Image:
    """A blur with a disk whose rim is smoothed."""
    radius, smoothing = DEFOCUS[severity - 1]
    taps = gaussian_weights(smoothing, 1 if radius <= 8 else 2)
    border = radius + taps.size - 1
    padded: Image = np.asarray(
        cv2.copyMakeBorder(image, border, border, border, border, cv2.BORDER_REFLECT_101), np.uint8
    )
    height = image.shape[0]
    out = np.empty_like(image)
    _defocus(
        padded.reshape(padded.shape[0], -1),
        _disk_chords(radius),
        taps.astype(np.float32),
        *_defocus_residual(radius, smoothing),
        out.reshape(height, -1),
    )
    return out


def _disk_chords(radius: int) -> npt.NDArray[np.int64]:
    """Half heights of the columns -radius .. radius of the disk i^2 + j^2 <= radius^2."""
    return np.array([math.isqrt(radius**2 - j**2) for j in range(-radius, radius + 1)])


@lru_cache(maxsize=8)
def _defocus_residual(
    radius: int, smoothing: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """What the kernel has beyond "disk, then Gaussian": rows, columns and weights of the difference.

    The kernel is the disk smoothed inside its own square with mirrored borders (docs/specs/corruptions.md, 2.4). Where
    the disk touches the border (radius 8 and 10) this cuts off the outermost smoothing and mirrors the rim inwards, so
    that the kernel sums to 1.01298 and 1.01079.
    """
    half = max(8, radius)
    taps = gaussian_weights(smoothing, 1 if radius <= 8 else 2)
    reach = taps.size - 1
    both_sides = np.concatenate([taps[:0:-1], taps])
    distances = np.arange(-half, half + 1)
    disk = (distances[:, None] ** 2 + distances[None, :] ** 2 <= radius**2).astype(np.float64)
    disk /= disk.sum()

    def smoothed(square: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        for axis in (0, 1):
            square = np.apply_along_axis(np.convolve, axis, square, both_sides, mode="valid")
        return square

    kernel = np.pad(smoothed(np.pad(disk, reach, mode="reflect")), reach)
    plain = smoothed(np.pad(disk, 2 * reach))
    difference = kernel - plain
    rows, columns = np.nonzero(abs(difference) > 1e-12)
    return rows - half - reach, columns - half - reach, difference[rows, columns].astype(np.float32)


@compiled
def _truncate(x: Floats, out: npt.NDArray[np.uint8]) -> None:
    """[0, 1] to bytes, truncated."""
    for i in range(out.size):
        out[i] = np.uint8(np.int32(min(max(x[i], 0.0), 1.0) * 255.0))


@compiled
def _motion_blur(
    image: npt.NDArray[np.uint8],
    weights: Floats,
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> None:
    height, length = image.shape
    result = np.empty(length, weights.dtype)
    for y in range(height):
        motion_row(image, 3, y, weights, rows, columns, result)
        for i in range(length):
            out[y, i] = np.uint8(np.int32(min(max(result[i], 0.0), 255.0)))


@compiled
def _walk_given(image: Image, distance: int, passes: int, offsets: npt.NDArray[np.int64]) -> None:
    """Copies neighbours onto pixels, in place, from given (column, row) offsets.

    A copy, not a swap: docs/specs/corruptions.md, 2.5. Rows and columns run downwards, so a pass reads what it wrote.
    """
    height, width = image.shape[:2]
    position = 0
    for _ in range(passes):
        for y in range(height - distance, distance, -1):
            for x in range(width - distance, distance, -1):
                source_y = y + offsets[position, 1]
                source_x = x + offsets[position, 0]
                position += 1
                for channel in range(3):
                    image[y, x, channel] = image[source_y, source_x, channel]


@compiled
def _walk_drawn(image: Image, distance: int, passes: int, key: np.uint64) -> None:
    """As `_walk_given`, with offsets drawn from -distance .. distance - 1 by 16 random bits each."""
    height, width = image.shape[:2]
    position = np.uint64(0)
    span = np.uint64(2 * distance)
    for _ in range(passes):
        for y in range(height - distance, distance, -1):
            for x in range(width - distance, distance, -1):
                if position % np.uint64(2) == 0:
                    word = random_word(key, position // np.uint64(2))
                column = np.int64(((word & np.uint64(0xFFFF)) * span) >> np.uint64(16)) - distance
                word = word >> np.uint64(16)
                row = np.int64(((word & np.uint64(0xFFFF)) * span) >> np.uint64(16)) - distance
                word = word >> np.uint64(16)
                position += np.uint64(1)
                for channel in range(3):
                    image[y, x, channel] = image[y + row, x + column, channel]


@compiled
def _zoom_blur(
    image: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int32],
    row_weights: npt.NDArray[np.float32],
    columns: npt.NDArray[np.int32],
    column_weights: npt.NDArray[np.float32],
    out: npt.NDArray[np.uint8],
) -> None:
    """Adds the layers row by row: first between two rows of the image, then between two columns of the result."""
    height, length = image.shape
    layers, width = columns.shape
    total = np.empty(length, np.float32)
    line = np.zeros(length + 3, np.float32)  # one pixel more: the last column has a next one of weight 0
    count = np.float32(layers + 1)
    for y in range(height):
        for i in range(length):
            total[i] = 0
        for layer in range(layers):
            upper = image[rows[layer, y]]
            lower = image[min(rows[layer, y] + 1, height - 1)]
            weight = row_weights[layer, y]
            for i in range(length):
                line[i] = upper[i] + weight * (lower[i] - upper[i])
            for x in range(width):
                start = columns[layer, x] * 3
                weight = column_weights[layer, x]
                for channel in range(3):
                    left = line[start + channel]
                    total[3 * x + channel] += left + weight * (line[start + 3 + channel] - left)
        for i in range(length):
            mean = (image[y, i] + total[i]) / count
            out[y, i] = np.uint8(np.int32(min(mean, np.float32(1)) * np.float32(255)))


@compiled
def _defocus(
    padded: npt.NDArray[np.uint8],
    chords: npt.NDArray[np.int64],
    taps: npt.NDArray[np.float32],
    extra_rows: npt.NDArray[np.int64],
    extra_columns: npt.NDArray[np.int64],
    extra_weights: npt.NDArray[np.float32],
    out: npt.NDArray[np.uint8],
) -> None:
    """Disk sums in whole numbers, updated from row to row by the disk's rims, then the small Gaussian."""
    height, length = out.shape
    radius = chords.size // 2
    reach = taps.size - 1
    border = radius + reach
    count = 0
    sums = np.zeros(length + 6 * reach, np.int32)
    for j in range(chords.size):
        count += 2 * chords[j] + 1
        for i in range(-chords[j], chords[j] + 1):
            row = padded[radius + i]
            for x in range(sums.size):
                sums[x] += row[3 * j + x]
    scale = np.float32(1.0 / count)
    ring = np.empty((2 * reach + 1, length), np.float32)
    result = np.empty(length, np.float32)
    for line in range(height + 2 * reach):
        centre = radius + line
        if line > 0:
            for j in range(chords.size):
                entering = padded[centre + chords[j]]
                leaving = padded[centre - 1 - chords[j]]
                for x in range(sums.size):
                    sums[x] += np.int32(entering[3 * j + x]) - np.int32(leaving[3 * j + x])
        smooth = ring[line % ring.shape[0]]
        weight = taps[0] * scale
        for x in range(length):
            smooth[x] = np.float32(sums[3 * reach + x]) * weight
        for distance in range(1, reach + 1):
            weight = taps[distance] * scale
            for x in range(length):
                smooth[x] += np.float32(sums[3 * (reach - distance) + x] + sums[3 * (reach + distance) + x]) * weight
        y = line - 2 * reach
        if y < 0:
            continue
        smooth = ring[(y + reach) % ring.shape[0]]
        for x in range(length):
            result[x] = smooth[x] * taps[0]
        for distance in range(1, reach + 1):
            above = ring[(y + reach - distance) % ring.shape[0]]
            below = ring[(y + reach + distance) % ring.shape[0]]
            for x in range(length):
                result[x] += (above[x] + below[x]) * taps[distance]
        for tap in range(extra_weights.size):
            row = padded[y + border + extra_rows[tap]]
            start = 3 * (border + extra_columns[tap])
            for x in range(length):
                result[x] += extra_weights[tap] * np.float32(row[start + x])
        for x in range(length):
            out[y, x] = np.uint8(np.int32(min(max(result[x] - FLAT_DEFICIT, np.float32(0)), np.float32(255))))
