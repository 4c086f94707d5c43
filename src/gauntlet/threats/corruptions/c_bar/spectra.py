"""Noise with a spectrum: blue noise that blackens pixels, brownish noise that is added (docs/specs/beyond.md, 9)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gauntlet.threats.corruptions.c_bar.parts import Field, generator, length, reseeded, tenth, to_bytes
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws

BLUE = (0.8, 1.6, 2.4, 4, 5.6)
BROWNISH = (1, 2, 3, 4, 5)


def blue_noise_sample(image: Image, severity: int, draws: Draws) -> Image:
    """Pixels turn black where blue noise is low: few of them side by side."""
    noise = noise_field(image, np.sqrt, reseeded(generator(draws)))
    kept = noise > tenth(BLUE, severity, 3) - 2.5
    return np.where(kept[..., None], image, np.uint8(0))


def brownish_noise(image: Image, severity: int, draws: Draws) -> Image:
    """Coloured noise whose power falls with the square of the frequency."""
    numbers = reseeded(generator(draws))
    fields = [noise_field(image, lambda squared: 1 / (squared + 1), numbers) for _ in range(3)]
    return to_bytes(image + tenth(BROWNISH, severity, 64) * np.stack(fields, axis=2))


def noise_field(image: Image, power: Callable[[Field], Field], numbers: np.random.RandomState) -> Field:
    """Noise of unit standard deviation, (H, W), with random phases.

    Args:
        image: gives the size.
        power: of a frequency, from the square of its distance to the middle of the spectrum in units of a square image.
        numbers: phases are drawn for the left half; the right one is the left one turned by 180 degrees.
    """
    height, width = image.shape[:2]
    n = length(image)
    x, y = np.arange(width)[None, :] - width / 2, np.arange(height)[:, None] - height / 2
    squared = (x * n / width) ** 2 + (y * n / height) ** 2
    left = numbers.uniform(0, 2 * np.pi, (height, width // 2))
    middle = np.empty((height, 0))
    if width % 2:
        half = numbers.uniform(0, 2 * np.pi, height // 2)
        middle = np.concatenate([half, np.zeros(height % 2), half[::-1]])[:, None]
    phases = np.concatenate([left, middle, np.rot90(left, 2)], axis=1)
    spectrum = np.roll(power(squared) * np.exp(1j * phases), (height // 2, width // 2), axis=(0, 1))
    field = np.fft.ifft2(spectrum).real
    return np.asarray(field / field.std(), np.float64)
