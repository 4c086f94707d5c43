"""What the corruptions of C-bar share: their draws, the length of an image, the way back to bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws, LegacyDraws

Field = npt.NDArray[np.float64]


def generator(draws: Draws) -> np.random.RandomState:
    """Where the numbers come from: the legacy stream itself, or one that the fast stream seeds."""
    if isinstance(draws, LegacyDraws):
        return draws.generator
    return np.random.RandomState(int(draws.key()) % 2**32)


def reseeded(numbers: np.random.RandomState) -> np.random.RandomState:
    """The stream that a drawn seed starts."""
    return np.random.RandomState(numbers.randint(0, 2**32, dtype=np.int64))


def length(image: Image) -> float:
    """The side n of a square with as many pixels."""
    return math.sqrt(image.shape[0] * image.shape[1])


def tenth(values: Sequence[float], severity: int, amount: float) -> float:
    """f(a) = v a / 10, with v the parameter of a severity."""
    return values[severity - 1] * amount / 10


def to_bytes(levels: npt.NDArray[np.floating]) -> Image:
    """Clipped to 0..255 and cut off to whole numbers, as the reference does."""
    return np.clip(levels, 0, 255).astype(np.uint8)


def grid(image: Image) -> tuple[Field, Field]:
    """Row and column of every pixel, (H, 1) and (1, W)."""
    height, width = image.shape[:2]
    return np.arange(height, dtype=np.float64)[:, None], np.arange(width, dtype=np.float64)[None, :]
