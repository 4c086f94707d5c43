"""Patterns laid over an image: sine waves, rings, a turned checkerboard, plasma (docs/specs/beyond.md, 9)."""

from __future__ import annotations

import math

import numpy as np

from gauntlet.threats.corruptions.c_bar.parts import generator, grid, length, reseeded, tenth, to_bytes
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws

CUTOUT = (2, 3, 4, 5, 6)
RINGS = (3, 5, 8, 9, 10)
PLASMA = (4.75, 7, 8.5, 9.25, 10)
SINGLE_FREQUENCY = (1, 1.5, 2, 4.5, 5)
GREY = 128


def checkerboard_cutout(image: Image, severity: int, draws: Draws) -> Image:
    """Grey cells of a turned checkerboard, each there by chance."""
    numbers, n = generator(draws), length(image)
    angle = numbers.uniform(0, 2 * np.pi)
    cell = max(numbers.uniform(0.1, 0.25) * n, 1)
    there = reseeded(numbers)
    count = int(4 * n / cell)
    hit = there.uniform(size=(count, count)) < tenth(CUTOUT, severity, 1)
    rows, columns = grid(image)
    down = (math.cos(angle) * rows + math.sin(angle) * columns) / cell
    across = (-math.sin(angle) * rows + math.cos(angle) * columns) / cell
    black = np.floor(down % 2) == np.floor(across % 2)
    # Long images reach beyond the grid of a square one: it repeats.
    covered = black & hit[np.trunc(down).astype(int) % count, np.trunc(across).astype(int) % count]
    return np.where(covered[..., None], np.uint8(GREY), image)


def cocentric_sine_waves(image: Image, severity: int, draws: Draws) -> Image:
    """Rings around a point, wavy in the angle, bright inside and dark outside each."""
    numbers, n = generator(draws), length(image)
    height, width = image.shape[:2]
    x0, y0 = numbers.uniform(0, width), numbers.uniform(0, height)
    frequency = numbers.uniform(0, 10)
    amplitude, ring = numbers.uniform(0, n / 10), numbers.uniform(0, n / 10)
    rows, columns = grid(image)
    right, down = columns - x0, rows - y0
    far = np.hypot(right, down) + amplitude * np.sin(frequency * np.arctan2(right, down))
    return to_bytes(image + tenth(RINGS, severity, 128) * ((far % ring) / ring - 0.5)[..., None])


def plasma_noise(image: Image, severity: int, draws: Draws) -> Image:
    """Coloured sines of a grid that was warped several times."""
    numbers, n = generator(draws), length(image)
    time = numbers.uniform(0, 6 * np.pi)
    rounds = numbers.randint(4, 7)
    sharp = numbers.uniform(0.5, 1)
    scale = numbers.uniform(0.075, 0.2) * n
    rows, columns = grid(image)
    x, y = np.broadcast_arrays(columns / scale, rows / scale)
    factor, slowness, divisor = 1.0, 1.0, 1.0
    for _ in range(rounds):
        first = np.cos(y * factor + time / slowness) / divisor
        second = np.sin(x * factor + time / slowness) / divisor
        x, y = x + first - 0.3 * second, y + second + 0.3 * first
        factor, slowness, divisor = factor * 1.93, slowness * 1.15, divisor * (2.25 - sharp)
    color = np.stack([np.sin(x - time), np.sin((x + y + math.sin(time)) / 2), np.sin(y + time)], axis=2)
    amount = tenth(PLASMA, severity, 64)
    return to_bytes((1 - amount / 255) * image + amount * color)


def single_frequency_greyscale(image: Image, severity: int, draws: Draws) -> Image:
    """One sine wave in all channels."""
    numbers = generator(draws)
    first = numbers.uniform(-np.pi, np.pi)
    second = numbers.uniform(-abs(first), abs(first))
    across, down = np.array([first, second])[numbers.permutation(2)]
    phase = numbers.uniform(0, 2 * np.pi)
    rows, columns = grid(image)
    wave = np.sin(columns * across + rows * down + phase)
    return to_bytes(image + tenth(SINGLE_FREQUENCY, severity, 196) * wave[..., None])
