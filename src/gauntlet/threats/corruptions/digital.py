"""Elastic transform, pixelate, JPEG (docs/specs/corruptions.md, sections 2.13 to 2.15)."""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws
from gauntlet.threats.corruptions.filters import REFLECT, gaussian_filter, mirrored

ELASTIC_STRENGTHS = (12.5, 16.25, 21.25, 25.0, 30.0)
PIXELATE_SCALES = (0.6, 0.5, 0.4, 0.3, 0.25)
JPEG_QUALITIES = (25, 18, 15, 10, 7)

_WEIGHT_BITS = 22  # fixed point of the box filter's weights, enough for exact rounding of up to 255 samples


def elastic_transform(image: Image, severity: int, draws: Draws) -> Image:
    """Moves every pixel along a smooth random field."""
    strength = ELASTIC_STRENGTHS[severity - 1]
    height, width = image.shape[:2]
    bound = 0.005 * height

    def displacement() -> npt.NDArray[np.float32]:
        field = draws.uniform_field((height, width), -bound, bound)
        smooth = gaussian_filter(field, (0.01 * height, 0.01 * width), truncate=3.0, border=REFLECT)
        return (smooth * field.dtype.type(strength)).astype(np.float32)

    columns, rows = displacement(), displacement()
    out = np.empty_like(image)
    _sample_displaced(image, rows, columns, out)
    return out


def pixelate(image: Image, severity: int, draws: Draws) -> Image:
    """Averages boxes and enlarges the result without smoothing."""
    scale = PIXELATE_SCALES[severity - 1]
    height, width = image.shape[:2]
    rows, columns = int(height * scale), int(width * scale)
    out = np.empty_like(image)
    _pixelate(
        image.reshape(height, -1),
        _boxes(width, columns),
        _boxes(height, rows),
        _nearest_sources(columns, width),
        _nearest_sources(rows, height),
        out.reshape(height, -1),
    )
    return out


def jpeg_compression(image: Image, severity: int, draws: Draws) -> Image:
    """Encodes and decodes with libjpeg's defaults."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITIES[severity - 1]]
    _, encoded = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), quality)
    decoded = np.asarray(cv2.imdecode(encoded, cv2.IMREAD_COLOR), np.uint8)
    return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), np.uint8)


def _boxes(length: int, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """First input, one past the last input and fixed-point weight of every output j.

    Input i belongs to it where -1/2 < (i + 1/2 - (j + 1/2) q) / q <= 1/2, q = n / m. It is multiplied by 1 / q, as
    Pillow does: where a border falls on the middle of an input the rounding decides.
    """
    scale = length / count
    centres = (np.arange(count) + 0.5) * scale
    first = np.maximum((centres - 0.5 * scale + 0.5).astype(np.int64), 0)
    last = np.minimum((centres + 0.5 * scale + 0.5).astype(np.int64), length)
    candidates = first[:, None] + np.arange(math.ceil(scale) + 2)[None, :]
    position = (candidates - centres[:, None] + 0.5) * (1.0 / scale)
    inside = (position > -0.5) & (position <= 0.5) & (candidates < last[:, None])
    starts = first + inside.argmax(axis=1)
    sizes = inside.sum(axis=1)
    return starts, starts + sizes, (0.5 + 2.0**_WEIGHT_BITS / sizes).astype(np.int32)


def _nearest_sources(count: int, length: int) -> npt.NDArray[np.int64]:
    """The input of every output when `count` samples are enlarged to `length`; the sum decides ties, so it is kept."""
    steps = np.full(length, count / length)
    steps[0] = count / length * 0.5
    return np.minimum(np.cumsum(steps).astype(np.int64), count - 1)


@compiled
def _pixelate(
    image: npt.NDArray[np.uint8],
    columns: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32]],
    rows: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32]],
    column_sources: npt.NDArray[np.int64],
    row_sources: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint8],
) -> None:
    """Box means along rows, rounded half up to 8 bits, then along columns, rounded; then nearest."""
    height, length = out.shape
    half = np.int32(1 << (_WEIGHT_BITS - 1))
    shift = np.int32(_WEIGHT_BITS)
    starts, ends, weights = columns
    narrow = np.empty((height, 3 * starts.size), np.uint8)
    for y in range(height):
        row = image[y]
        for column in range(starts.size):
            red = green = blue = np.int32(0)
            for x in range(3 * starts[column], 3 * ends[column], 3):
                red += np.int32(row[x])
                green += np.int32(row[x + 1])
                blue += np.int32(row[x + 2])
            narrow[y, 3 * column] = (red * weights[column] + half) >> shift
            narrow[y, 3 * column + 1] = (green * weights[column] + half) >> shift
            narrow[y, 3 * column + 2] = (blue * weights[column] + half) >> shift
    totals = np.empty(narrow.shape[1], np.int32)
    small = np.empty(narrow.shape[1], np.uint8)
    starts, ends, weights = rows
    for y in range(height):
        box = row_sources[y]
        target = out[y]
        if y > 0 and box == row_sources[y - 1]:
            previous = out[y - 1]
            for i in range(length):
                target[i] = previous[i]
            continue
        for i in range(totals.size):
            totals[i] = 0
        for source in range(starts[box], ends[box]):
            line = narrow[source]
            for i in range(totals.size):
                totals[i] += np.int32(line[i])
        weight = weights[box]
        for i in range(totals.size):
            small[i] = (totals[i] * weight + half) >> shift
        for x in range(length // 3):
            start = 3 * column_sources[x]
            target[3 * x] = small[start]
            target[3 * x + 1] = small[start + 1]
            target[3 * x + 2] = small[start + 2]


@compiled
def _sample_displaced(
    image: Image, rows: npt.NDArray[np.float32], columns: npt.NDArray[np.float32], out: Image
) -> None:
    """Bilinear samples at (y + rows, x + columns), reflected at the borders, truncated."""
    height, width = image.shape[:2]
    for y in range(height):
        for x in range(width):
            whole_rows = np.floor(rows[y, x])
            whole_columns = np.floor(columns[y, x])
            down = rows[y, x] - whole_rows
            right = columns[y, x] - whole_columns
            top = y + int(whole_rows)
            left = x + int(whole_columns)
            if 0 <= top < height - 1 and 0 <= left < width - 1:
                bottom = top + 1
                end = left + 1
            else:
                bottom = mirrored(top + 1, height)
                end = mirrored(left + 1, width)
                top = mirrored(top, height)
                left = mirrored(left, width)
            for channel in range(3):
                corner = np.float32(image[top, left, channel])
                upper = corner + right * (np.float32(image[top, end, channel]) - corner)
                corner = np.float32(image[bottom, left, channel])
                lower = corner + right * (np.float32(image[bottom, end, channel]) - corner)
                out[y, x, channel] = np.uint8(np.int32(upper + down * (lower - upper)))
