"""Random draws that are the same on every machine and with every NumPy version."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

_REFILL = 512


class Dice:
    """Draws from PCG64's raw 64-bit words, which NumPy keeps stable (its distributions may change).

    Args:
        name: what the draws are for; the seed is SHA-256 of it.
    """

    def __init__(self, name: str) -> None:
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")
        self._bits = np.random.PCG64(seed)
        self._ready: list[float] = []

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """A number in [low, high)."""
        if not self._ready:
            self._ready = ((self._bits.random_raw(_REFILL) >> np.uint64(11)) * 2.0**-53).tolist()
        return low + (high - low) * self._ready.pop()

    def integer(self, low: int, high: int) -> int:
        """A whole number in low..high, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.uniform() < probability

    def sign(self) -> int:
        """-1 or 1."""
        return 1 if self.chance(0.5) else -1

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[int(self.uniform() * len(options))]

    def bytes(self, count: int) -> npt.NDArray[np.uint8]:
        """`count` uniform bytes."""
        words = self._bits.random_raw((count + 7) // 8)
        return words.astype("<u8").view(np.uint8)[:count]
