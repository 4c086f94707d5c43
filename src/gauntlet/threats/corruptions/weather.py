"""Snow, frost, fog and spatter (docs/specs/corruptions.md, sections 2.8 to 2.10 and 2.18)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws
from gauntlet.threats.corruptions.filters import (
    gaussian_filter,
    motion_row,
    motion_taps,
    neighbours,
    zoom_positions,
    zoom_window,
)
from gauntlet.threats.corruptions.textures import draw_frost

SNOW = (
    (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
    (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
    (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
    (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
    (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
)
FROST = ((1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75))
FOG = ((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4))
WATER = ((0.65, 0.3, 4.0, 0.69, 0.6), (0.65, 0.3, 3.0, 0.68, 0.6), (0.65, 0.3, 2.0, 0.68, 0.5))
MUD = ((0.65, 0.3, 1.0, 0.65), (0.67, 0.4, 1.0, 0.65))
WATER_COLOR = np.array([175, 238, 238], np.float32) / np.float32(255)
MUD_COLOR = np.array([63, 42, 20], np.float32) / np.float32(255)


def snow(image: Image, severity: int, draws: Draws) -> Image:
    """Whitens the image and lays blurred flakes over it, from above and turned by 180 degrees."""
    mean, deviation, zoom, threshold, radius, sigma, keep = SNOW[severity - 1]
    height, width = image.shape[:2]
    window = (zoom_window(height, zoom), zoom_window(width, zoom))
    field = draws.normal_window((height, width), window, mean, deviation).astype(np.float32)
    rows, columns = (
        neighbours(zoom_positions(length, zoom) - part.start)
        for length, part in zip((height, width), window, strict=True)
    )
    flakes = np.empty((rows[0].size, columns[0].size), np.float32)
    _enlarge_flakes(field, *rows, *columns, threshold, flakes)
    weights, row_offsets, column_offsets = motion_taps(radius, sigma, draws.uniform(-135, -45), *flakes.shape)
    layer = np.empty((height, width), np.uint8)
    _blur_flakes(flakes, weights.astype(np.float32), row_offsets, column_offsets, layer)
    out = np.empty_like(image)
    _lay_snow(image, layer.reshape(-1), np.float32(keep), out)
    return out


def frost(image: Image, severity: int, draws: Draws, frost_textures: str | Path | None = None) -> Image:
    """Adds a piece of a frost texture.

    Args:
        frost_textures: a folder with the reference's pictures frost1 to frost5; None for the built-in textures.
    """
    keep, weight = FROST[severity - 1]
    height, width = image.shape[:2]
    texture = draw_frost(draws, height, width, frost_textures)
    levels = np.arange(256.0)
    table = np.minimum(keep * levels[:, None] + weight * levels[None, :], 255).astype(np.uint8)
    out = np.empty_like(image)
    _blend(image.reshape(height, -1), texture, table, out.reshape(height, -1))
    return out


def fog(image: Image, severity: int, draws: Draws) -> Image:
    """Adds a plasma fractal and dims the sum back."""
    amount, decay = FOG[severity - 1]
    height, width = image.shape[:2]
    plasma = plasma_fractal(max(height, width), decay, draws)
    lowest, highest = float(plasma.min()), float(plasma.max())
    brightest = int(image.max()) / 255.0
    dimming = brightest / (brightest + amount)
    gain = 255.0 * amount * dimming / (highest - lowest)
    out = np.empty_like(image)
    _lay_fog(image, plasma, np.float32(lowest), np.float32(dimming), np.float32(gain), out)
    return out


def plasma_fractal(length: int, decay: float, draws: Draws) -> npt.NDArray[np.float32]:
    """Diamond-square noise on a torus whose side is the smallest power of two that is not less than `length`."""
    size = 1 << (length - 1).bit_length()
    plasma = np.zeros((size, size), np.float32)
    step, amplitude = size, 100.0
    while step >= 2:
        cells = (size // step, size // step)
        bound = amplitude * amplitude  # the reference draws from (-p, p) and multiplies by p again
        _refine(plasma, step, *(draws.uniform_field(cells, -bound, bound) for _ in range(3)))
        step //= 2
        amplitude /= decay
    return plasma


def spatter(image: Image, severity: int, draws: Draws) -> Image:
    """Splashes water (severities 1 to 3) or mud (4 and 5) on the image."""
    height, width = image.shape[:2]
    everything = (slice(None), slice(None))
    mean, deviation, sigma, threshold = (WATER + MUD)[severity - 1][:4]
    liquid = draws.normal_window((height, width), everything, mean, deviation)
    liquid = gaussian_filter(liquid, (sigma, sigma))
    liquid[liquid < threshold] = 0
    x = image.astype(np.float32) / np.float32(255)
    if severity <= len(WATER):
        cover = _water_cover(liquid) * WATER[severity - 1][4]
        splashed = x + cover[..., None].astype(np.float32) * WATER_COLOR
    else:
        mask = gaussian_filter((liquid > threshold).astype(np.float64), (1.5, 1.5))
        mask[mask < 0.8] = 0
        cover = mask[..., None].astype(np.float32)
        splashed = x * (1 - cover) + cover * MUD_COLOR
    out: Image = (np.clip(splashed, 0, 1) * 255).astype(np.uint8)
    return out


def _water_cover(liquid: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """How much light the drops add, in [0, 1]: bright inside, shaded by the distance to their rims."""
    drops = np.clip(liquid * 255, 0, 255).astype(np.uint8)
    edges = cv2.Canny(drops, 50, 150)
    distance = cv2.distanceTransform(255 - edges, cv2.DIST_L2, 5)
    distance = np.minimum(distance, 20)
    shade = cv2.blur(distance, (3, 3)).astype(np.uint8)
    shade = cv2.equalizeHist(shade)
    shade = cv2.filter2D(shade, cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    shade = cv2.blur(shade, (3, 3))
    cover = drops.astype(np.float64) * shade
    return np.asarray(cover / max(cover.max(), 1.0), np.float64)


@compiled
def _enlarge_flakes(
    field: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int32],
    row_weights: npt.NDArray[np.float32],
    columns: npt.NDArray[np.int32],
    column_weights: npt.NDArray[np.float32],
    threshold: float,
    flakes: npt.NDArray[np.float32],
) -> None:
    """Bilinear enlargement, everything below the threshold to 0, the rest at most 1."""
    height, width = flakes.shape
    wide = np.empty((field.shape[0], width), np.float32)
    for y in range(field.shape[0]):
        for x in range(width):
            left = field[y, columns[x]]
            right = field[y, min(columns[x] + 1, field.shape[1] - 1)]
            wide[y, x] = left + column_weights[x] * (right - left)
    limit = np.float32(threshold)
    for y in range(height):
        upper = wide[rows[y]]
        lower = wide[min(rows[y] + 1, field.shape[0] - 1)]
        weight = row_weights[y]
        for x in range(width):
            value = upper[x] + weight * (lower[x] - upper[x])
            flakes[y, x] = min(value, np.float32(1)) if value >= limit else np.float32(0)


@compiled
def _blur_flakes(
    flakes: npt.NDArray[np.float32],
    weights: npt.NDArray[np.float32],
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    layer: npt.NDArray[np.uint8],
) -> None:
    """Motion blur, in whole levels (halves to even)."""
    height, width = layer.shape
    result = np.empty(width, np.float32)
    for y in range(height):
        motion_row(flakes, 1, y, weights, rows, columns, result)
        for x in range(width):
            layer[y, x] = np.uint8(np.int32(np.rint(min(result[x], np.float32(1)) * np.float32(255))))


@compiled
def _lay_snow(image: Image, layer: npt.NDArray[np.uint8], keep: np.float32, out: Image) -> None:
    """Towards white, then both layers of flakes (`layer` is flat: the turned one is read from its end)."""
    samples = image.reshape(-1)
    target = out.reshape(-1)
    whiten = np.float32(1) - keep
    top = np.float32(255)
    for pixel in range(layer.size):
        red = np.float32(samples[3 * pixel])
        green = np.float32(samples[3 * pixel + 1])
        blue = np.float32(samples[3 * pixel + 2])
        grey = np.float32(0.299) * red + np.float32(0.587) * green + np.float32(0.114) * blue
        white = np.float32(1.5) * grey + np.float32(127.5)
        flakes = np.float32(layer[pixel]) + np.float32(layer[layer.size - 1 - pixel])
        target[3 * pixel] = np.uint8(np.int32(min(keep * red + whiten * max(red, white) + flakes, top)))
        target[3 * pixel + 1] = np.uint8(np.int32(min(keep * green + whiten * max(green, white) + flakes, top)))
        target[3 * pixel + 2] = np.uint8(np.int32(min(keep * blue + whiten * max(blue, white) + flakes, top)))


@compiled
def _blend(
    image: npt.NDArray[np.uint8], texture: Image, table: npt.NDArray[np.uint8], out: npt.NDArray[np.uint8]
) -> None:
    """Looks every pair (image, texture) up in a table."""
    for y in range(image.shape[0]):
        for x in range(image.shape[1] // 3):
            for channel in range(3):
                out[y, 3 * x + channel] = table[image[y, 3 * x + channel], texture[y, x, channel]]


@compiled
def _refine(
    plasma: npt.NDArray[np.float32],
    step: int,
    centre_noise: npt.NDArray[np.floating[Any]],
    across_noise: npt.NDArray[np.floating[Any]],
    down_noise: npt.NDArray[np.floating[Any]],
) -> None:
    """One level of diamond-square: the centres of squares, then the middles of their edges across and down."""
    size = plasma.shape[0]
    half = step // 2
    cells = size // step
    quarter = np.float32(0.25)
    for i in range(cells):  # a centre: the mean of the four corners
        upper = plasma[i * step]
        lower = plasma[(i + 1) * step % size]
        for j in range(cells):
            left = j * step
            right = (left + step) % size
            total = upper[left] + upper[right] + lower[left] + lower[right]
            plasma[i * step + half, left + half] = total * quarter + centre_noise[i, j]
    for i in range(cells):  # across: both corners and the centres above and below; down: the same, turned
        row = plasma[i * step]
        centres = plasma[i * step + half]
        above = plasma[(i * step - half) % size]
        lower = plasma[(i + 1) * step % size]
        for j in range(cells):
            left = j * step
            middle = left + half
            total = row[left] + row[(left + step) % size] + above[middle] + centres[middle]
            row[middle] = total * quarter + across_noise[i, j]
            total = row[left] + lower[left] + centres[(left - half) % size] + centres[middle]
            centres[left] = total * quarter + down_noise[i, j]


@compiled
def _lay_fog(
    image: Image,
    plasma: npt.NDArray[np.float32],
    lowest: np.float32,
    dimming: np.float32,
    gain: np.float32,
    out: Image,
) -> None:
    """(x + A plasma) M / (M + A), with the plasma scaled on the fly."""
    height, width = image.shape[:2]
    top = np.float32(255)
    for y in range(height):
        for x in range(width):
            haze = (plasma[y, x] - lowest) * gain
            for channel in range(3):
                out[y, x, channel] = np.uint8(np.int32(min(np.float32(image[y, x, channel]) * dimming + haze, top)))
