"""Sparkles: white stars with rays of random lengths, and their inverse (docs/specs/beyond.md, 9)."""

from __future__ import annotations

import numpy as np

from gauntlet.threats.corruptions.c_bar.parts import Field, generator, grid, length, reseeded, tenth, to_bytes
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws

SPARKLES = (1, 2, 3, 5, 6)
INVERSE = (1, 2, 4, 9, 10)
STARS = 5
AMOUNT = 50


def sparkles(image: Image, severity: int, draws: Draws) -> Image:
    """Five white stars, one after the other."""
    numbers = generator(draws)
    height, width = image.shape[:2]
    centres = numbers.uniform(size=(STARS, 2)) * (height, width)
    lengths = reseeded(numbers)
    rays = numbers.randint(50, 200, STARS)
    radius = tenth(SPARKLES, severity, 0.1) * length(image)
    levels = image.astype(np.float64)
    for centre, count in zip(centres, rays, strict=True):
        levels += star(image, centre, lengths, count, radius, AMOUNT)[..., None] * (255 - levels)
    return to_bytes(levels)


def inverse_sparkles(image: Image, severity: int, draws: Draws) -> Image:
    """White everywhere but in one star."""
    numbers = generator(draws)
    height, width = image.shape[:2]
    centre = numbers.uniform(0.25, 0.75, 2) * (height, width)
    lengths = reseeded(numbers)
    count = numbers.randint(50, 200)
    amount = 100 - tenth(INVERSE, severity, 65)
    weight = star(image, centre, lengths, count, length(image) / 4, amount)
    return to_bytes(255 + weight[..., None] * (image - 255.0))


def star(
    image: Image, centre: Field, numbers: np.random.RandomState, count: int, radius: float, amount: float
) -> Field:
    """How much of a star there is at every pixel, (H, W) in [0, 1].

    Args:
        image: gives the size.
        centre: row and column.
        numbers: give the length of every ray.
        count: of rays. radius: their mean length.
        amount: 0 to 100, the softer the higher.
    """
    rays = np.maximum(1, radius + 0.25 * radius * numbers.normal(size=count))
    rows, columns = grid(image)
    down, right = rows - centre[0], columns - centre[1]
    turn = (np.arctan2(right, down) + np.pi) / (2 * np.pi) * count
    ray = np.floor(turn)
    between = turn - ray
    index = ray.astype(int)
    reach = (1 - between) * rays[index % count] + between * rays[(index + 1) % count]
    glow = (reach**2 / (down**2 + right**2 + 1e-4)) ** ((100 - amount) / 50)
    return np.asarray(np.clip((1 - (between - 0.5) ** 2) * glow, 0, 1), np.float64)
