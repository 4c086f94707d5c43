"""Caustic light, and the refraction of the water that makes it (docs/specs/beyond.md, 9)."""

from __future__ import annotations

import cv2
import numpy as np
from scipy.ndimage import gaussian_filter

from gauntlet.threats.corruptions.c_bar.parts import Field, generator, grid, length, tenth, to_bytes
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws

CAUSTIC = (2.35, 3.2, 4.9, 6.6, 9.15)
ROUNDS = 5
ETA = 4
TURN = 6.28318530718
FLAT = 0.999
"""From this z of a normal on a ray is not bent."""


def caustic_refraction(image: Image, severity: int, draws: Draws) -> Image:
    """The image as seen through moving water, with the light that the water throws on it."""
    numbers, n = generator(draws), length(image)
    time = numbers.uniform(0.5, 2)
    size = numbers.uniform(0.75, 1.25) * n
    light = gaussian_filter(caustic_light(*grid(image), time, size), 1)
    padded = np.pad(light, 1)
    north, south = padded[1:-1, :-2], padded[1:-1, 2:]  # one column before and after
    west, east = padded[:-2, 1:-1], padded[2:, 1:-1]  # one row before and after
    down, right = refraction(east - west, south - north, tenth(CAUSTIC, severity, 0.5) * n)
    rows, columns = grid(image)
    seen = cv2.remap(
        image.astype(np.float32) / 255,
        (columns + right).astype(np.float32),
        (rows + down).astype(np.float32),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=0,
    )
    thrown = tenth(CAUSTIC, severity, 2) * ((north - south) + (east - west))
    return to_bytes(255 * np.clip(seen + thrown[..., None], 0, 1))


def caustic_light(rows: Field, columns: Field, time: float, size: float) -> Field:
    """The light on the ground, (H, W) in [0, 1]."""
    u, v = ((points / size % 1) * TURN - 250 for points in (rows, columns))
    first, second = np.broadcast_arrays(u, v)
    brightness = np.ones(first.shape)
    for number in range(ROUNDS):
        t = time * (1 - 3.5 / (number + 1))
        first, second = (
            u + np.cos(t - first) + np.sin(t + second),
            v + np.sin(t - second) + np.cos(t + first),
        )
        brightness += 1 / np.hypot(u / (np.sin(first + t) / 0.005), v / (np.cos(second + t) / 0.005))
    return np.asarray(np.clip(np.abs(1.17 - (brightness / ROUNDS) ** 1.4) ** 8, 0, 1), np.float64)


def refraction(slope_down: Field, slope_right: Field, lens: float) -> tuple[Field, Field]:
    """By how many rows and columns a straight ray is bent by water of given slopes, (H, W) each.

    Args:
        slope_down, slope_right: the first two parts of the normal (a, b, 1) before it has unit length.
        lens: how deep the ground lies, in pixels.
    """
    normal = np.stack([slope_down, slope_right, np.ones_like(slope_down)])
    normal /= np.linalg.norm(normal, axis=0)
    a, b, z = normal
    beta = np.arcsin(np.sin(np.arccos(np.clip(z, -1, 1))) / ETA)
    # o = normal x unit(z x normal), with z x normal = (-b, a, 0)
    flat = np.maximum(np.hypot(a, b), 1e-300)
    ray_down = np.cos(beta) * a - np.sin(beta) * z * a / flat
    ray_right = np.cos(beta) * b - np.sin(beta) * z * b / flat
    bent = z < FLAT
    down, right = (np.where(bent, np.round(ray * lens, 3), 0.0) for ray in (ray_down, ray_right))
    return down, right
