"""Noise for textures: two tiles that every process makes once."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import inlined
from gauntlet.datasets.streets.dice import Dice

Tile = npt.NDArray[np.float32]

TILE = 256  # the tiles are this many cells wide and high, and wrap around


@functools.cache
def noise_tiles() -> tuple[Tile, Tile]:
    """Two tiles in [0, 1]: fractal noise (cells of all sizes) and white noise."""
    dice = Dice("streets|noise tiles")
    total, weight = np.zeros((TILE, TILE)), 1.0
    for octave in range(2, 9):
        cells = 2**octave
        grid = dice.bytes(cells * cells).reshape(cells, cells).astype(np.float64)
        position = np.arange(TILE) * (cells / TILE)
        low = position.astype(np.int64)
        part = position - low
        part = part * part * (3 - 2 * part)
        high = (low + 1) % cells
        rows = grid[low] * (1 - part)[:, None] + grid[high] * part[:, None]
        total += (rows[:, low] * (1 - part) + rows[:, high] * part) * weight
        weight *= 0.6
    total = (total - total.min()) / (total.max() - total.min())
    white = dice.bytes(TILE * TILE).reshape(TILE, TILE) / 255
    return total.astype(np.float32), white.astype(np.float32)


@inlined
def smooth(tile: Tile, u: float, v: float) -> float:
    """A tile at a place between its cells."""
    column, row = np.floor(u), np.floor(v)
    s, t = u - column, v - row
    x0, y0 = int(column) & (TILE - 1), int(row) & (TILE - 1)
    x1, y1 = (x0 + 1) & (TILE - 1), (y0 + 1) & (TILE - 1)
    top = tile[y0, x0] * (1.0 - s) + tile[y0, x1] * s
    bottom = tile[y1, x0] * (1.0 - s) + tile[y1, x1] * s
    return float(top * (1.0 - t) + bottom * t)


@inlined
def cell(tile: Tile, u: float, v: float) -> float:
    """The value of the cell that a place lies in."""
    return float(tile[int(np.floor(v)) & (TILE - 1), int(np.floor(u)) & (TILE - 1)])


@inlined
def fraction(value: float) -> float:
    """What is left after the point, in [0, 1); much faster than the remainder."""
    return float(value - np.floor(value))
