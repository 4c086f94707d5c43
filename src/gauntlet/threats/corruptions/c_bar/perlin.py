"""Perlin noise, classic: turbulence of gradients on a lattice (docs/specs/beyond.md, 9)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gauntlet.threats.corruptions.c_bar.parts import Field, generator, grid, length, reseeded, tenth, to_bytes
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws

PERLIN = (4.6, 5.2, 5.8, 7.6, 8.8)
LATTICE = 256
FAR = 4096
OCTAVES = (1, 2, 4, 8, 16)

Whole = npt.NDArray[np.int64]


def perlin_noise(image: Image, severity: int, draws: Draws) -> Image:
    """A grey cloud in the place of a part of the image."""
    permutation, gradients = tables(reseeded(generator(draws)))
    rows, columns = grid(image)
    cell = 32 * length(image) / 224
    turbulence = np.zeros(image.shape[:2])
    for octave in OCTAVES:
        noise = lattice_noise(rows * octave / cell, columns * octave / cell, permutation, gradients)
        turbulence += np.abs(1.5 * noise) / octave
    alpha = tenth(PERLIN, severity, 0.5)
    cloud = np.clip(0.5 * turbulence + 0.5, 0, 1)
    return to_bytes((1 - alpha) * image + 255 * alpha * cloud[..., None])


def tables(numbers: np.random.RandomState) -> tuple[Whole, Field]:
    """The shuffled indices and the unit gradients of the lattice, (514,) and (514, 2)."""
    # The classic code draws twice as many gradients and overwrites the second half with the first.
    whole = numbers.randint(0, 2**31, (2 * LATTICE + 2, 2), dtype=np.int64)[:LATTICE]
    gradients = (whole % (2 * LATTICE) - LATTICE) / LATTICE
    gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
    permutation = np.arange(LATTICE)
    for index in range(LATTICE - 1, -1, -1):
        other = numbers.randint(0, 2**31, dtype=np.int64) % LATTICE
        permutation[index], permutation[other] = permutation[other], permutation[index]
    return np.concatenate([permutation, permutation, permutation[:2]]), np.concatenate(
        [gradients, gradients, gradients[:2]]
    )


def lattice_noise(rows: Field, columns: Field, permutation: Whole, gradients: Field) -> Field:
    """Perlin's noise at points: rows (H, 1) and columns (1, W) in cells to (H, W)."""

    def cells(positions: Field) -> tuple[Whole, Whole, Field, Field]:
        far = positions + FAR
        first = np.floor(far).astype(np.int64) % LATTICE
        inside = far - np.floor(far)
        return first, (first + 1) % LATTICE, inside, inside - 1

    top, bottom, y0, y1 = cells(rows)
    left, right, x0, x1 = cells(columns)

    def corner(row: Whole, column: Whole, y: Field, x: Field) -> Field:
        slope = gradients[permutation[permutation[row] + column]]  # (H, W, 2)
        return np.asarray(y * slope[..., 0] + x * slope[..., 1], np.float64)

    down, across = (inside**2 * (3 - 2 * inside) for inside in (y0, x0))
    upper = corner(top, left, y0, x0) * (1 - down) + corner(bottom, left, y1, x0) * down
    lower = corner(top, right, y0, x1) * (1 - down) + corner(bottom, right, y1, x1) * down
    return np.asarray(upper * (1 - across) + lower * across, np.float64)
