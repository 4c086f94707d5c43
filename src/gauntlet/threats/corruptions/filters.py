"""Filters that several corruptions share: Gaussian, one-sided motion, zoom."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled
from gauntlet.threats.corruptions.draws import Floats

BLOCK = 512

NEAREST, REFLECT = 0, 1
"""Borders: edge replication (a a | a b c), and half-sample symmetric reflection (b a | a b c)."""


@lru_cache(maxsize=64)
def gaussian_bell(sigma: float, radius: int) -> npt.NDArray[np.float64]:
    """exp(-n^2 / 2 sigma^2) for n = 0 .. radius.

    Every value is rounded correctly from 30 digits: on flat areas, where a blur gives a whole grey level up to the last
    bit and is then truncated, a last-bit difference between two machines' exponentials would show.
    """
    with localcontext() as context:
        context.prec = 30
        scale = 2 * Decimal(repr(sigma)) ** 2
        bell = np.array([float((-Decimal(n * n) / scale).exp()) for n in range(radius + 1)])
    bell.setflags(write=False)
    return bell


def gaussian_weights(sigma: float, radius: int) -> npt.NDArray[np.float64]:
    """The weights n = 0 .. radius of a symmetric Gaussian kernel that sums to 1."""
    bell = gaussian_bell(sigma, radius)
    weights: npt.NDArray[np.float64] = bell / np.concatenate([bell[:0:-1], bell]).sum()
    return weights


def gaussian_filter(
    field: Floats, sigma: tuple[float, float], *, truncate: float = 4.0, border: int = NEAREST
) -> Floats:
    """Separable Gaussian of a plane (H, W) or of the channels of (H, W, C), rows first, in the field's precision."""
    height, width = field.shape[:2]
    vertical, horizontal = (np.asarray(gaussian_weights(s, int(truncate * s + 0.5)), field.dtype) for s in sigma)
    planes = 1 if field.ndim == 2 else field.shape[2]
    out = np.empty((height, width * planes), field.dtype)
    _separable_filter(field.reshape(height, -1), planes, vertical, horizontal, border, out)
    return out.reshape(field.shape)


@compiled
def mirrored(index: int, length: int) -> int:
    """The position inside 0 .. length - 1 under half-sample symmetric reflection."""
    period = 2 * length
    index = index % period
    return index if index < length else period - 1 - index


@compiled
def symmetric_sum(
    sources: npt.NDArray[np.generic], starts: npt.NDArray[np.int64], weights: Floats, result: Floats
) -> None:
    """result[i] = w_0 s_0[i] + sum_n w_n (s_-n[i] + s_n[i]), outermost first, as SciPy adds.

    Args:
        sources: a flat array that holds all 2 R + 1 sources.
        starts: where the sources -R .. R start in it.
        weights: from the centre outwards.
        result: as many values as are wanted.
    """
    radius = weights.size - 1
    for block in range(0, result.size, BLOCK):  # small enough to stay in the first-level cache
        part = result[block : min(block + BLOCK, result.size)]
        centre = sources[starts[radius] + block :]
        weight = weights[0]
        for i in range(part.size):
            part[i] = centre[i] * weight
        for distance in range(radius, 0, -1):
            before = sources[starts[radius - distance] + block :]
            after = sources[starts[radius + distance] + block :]
            weight = weights[distance]
            for i in range(part.size):
                part[i] += (before[i] + after[i]) * weight


@compiled
def _separable_filter(
    field: Floats, planes: int, vertical: Floats, horizontal: Floats, border: int, out: Floats
) -> None:
    """Filters interleaved rows (W * planes) with symmetric weights given from the centre outwards."""
    height, length = field.shape
    width = length // planes
    reach = vertical.size - 1
    radius = horizontal.size - 1
    everything = field.reshape(-1)
    row_starts = np.empty(2 * reach + 1, np.int64)
    shifts = np.empty(2 * radius + 1, np.int64)
    for tap in range(shifts.size):
        shifts[tap] = tap * planes
    padded = np.empty((width + 2 * radius) * planes, field.dtype)
    middle = padded[radius * planes : radius * planes + length]
    for y in range(height):
        for offset in range(-reach, reach + 1):
            row = mirrored(y + offset, height) if border == REFLECT else min(max(y + offset, 0), height - 1)
            row_starts[reach + offset] = row * length
        symmetric_sum(everything, row_starts, vertical, middle)
        for pad in range(radius):
            left = mirrored(-1 - pad, width) if border == REFLECT else 0
            right = mirrored(width + pad, width) if border == REFLECT else width - 1
            for plane in range(planes):
                padded[(radius - 1 - pad) * planes + plane] = middle[left * planes + plane]
                padded[(radius + width + pad) * planes + plane] = middle[right * planes + plane]
        symmetric_sum(padded, shifts, horizontal, out[y])


def motion_taps(
    radius: int, sigma: float, angle: float, height: int, width: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Weights and row and column offsets of the one-sided motion kernel (docs/specs/corruptions.md, 2.6).

    Args:
        angle: direction in degrees.
        height, width: size of the image; the kernel ends, without renormalising, where it leaves it.
    """
    bell = gaussian_bell(sigma, 2 * radius) / (math.sqrt(2 * math.pi) * sigma)
    weights = bell / bell.sum()
    steps = np.arange(2 * radius + 1)
    rows = np.ceil(steps * math.sin(math.radians(angle)) - 0.5).astype(np.int64)
    columns = np.ceil(steps * math.cos(math.radians(angle)) - 0.5).astype(np.int64)
    outside = np.flatnonzero((abs(rows) >= height) | (abs(columns) >= width))
    end = int(outside[0]) if outside.size else steps.size
    return weights[:end], rows[:end], columns[:end]


@compiled
def motion_row(
    image: npt.NDArray[np.generic],
    planes: int,
    y: int,
    weights: Floats,
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    result: Floats,
) -> None:
    """One row of sum_i k_i image(y + rows_i, x + columns_i), positions clamped to the image, of interleaved rows."""
    height, length = image.shape
    size = result.size
    for i in range(size):
        result[i] = 0
    for tap in range(weights.size):
        weight = weights[tap]
        source = image[min(max(y + rows[tap], 0), height - 1)]
        shift = columns[tap] * planes
        start = min(max(-shift, 0), size)
        stop = max(min(length - shift, size), start)
        for i in range(start):
            result[i] += weight * source[i % planes]
        inside = source[start + shift : stop + shift]
        part = result[start:stop]
        for i in range(part.size):
            part[i] += weight * inside[i]
        for i in range(stop, size):
            result[i] += weight * source[length - planes + i % planes]


def zoom_window(length: int, factor: float) -> slice:
    """The centred part of an axis that a zoom enlarges (docs/specs/corruptions.md, 2.7)."""
    inner = math.ceil(length / factor)
    start = (length - inner) // 2
    return slice(start, start + inner)


def zoom_positions(length: int, factor: float) -> npt.NDArray[np.float64]:
    """Where the samples of a zoomed axis lie on the original one: corner-aligned, at least `length` of them."""
    window = zoom_window(length, factor)
    inner = window.stop - window.start
    count = round(inner * factor)
    inside = np.minimum(np.arange(count) * ((inner - 1) / (count - 1)), inner - 1)
    return np.asarray(inside + window.start, np.float64)


def neighbours(positions: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """For linear interpolation: the whole part of every position and the weight of the next one."""
    lower = np.floor(positions)
    return lower.astype(np.int32), (positions - lower).astype(np.float32)
