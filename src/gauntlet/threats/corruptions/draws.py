"""Where the randomness of one corrupted image comes from: a seed, and nothing else.

Two kinds. `FastDraws` is the product's own stream: a counter-based generator (SplitMix64), so that a value depends on
the seed and its position only. `LegacyDraws` draws what the reference package draws under a NumPy seed, in its order:
it exists so that outcomes can be compared with the reference value by value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from gauntlet.compiling import compiled

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_A = np.uint64(0xBF58476D1CE4E5B9)
MIX_B = np.uint64(0x94D049BB133111EB)

Floats = npt.NDArray[np.floating[Any]]


@compiled
def random_word(key: np.uint64, counter: np.uint64) -> np.uint64:
    """64 random bits: the output number `counter` of SplitMix64 started at `key`."""
    state = key + counter * GOLDEN
    state = (state ^ (state >> np.uint64(30))) * MIX_A
    state = (state ^ (state >> np.uint64(27))) * MIX_B
    return state ^ (state >> np.uint64(31))


@compiled
def _fill_uniform(key: np.uint64, low: float, high: float, values: npt.NDArray[np.float32]) -> None:
    """Fills a flat array with uniform numbers of 24 bits in [low, high)."""
    scale = np.float32((high - low) / 16777216.0)
    offset = np.float32(low)
    for pair in range(values.size // 2):
        word = random_word(key, np.uint64(pair))
        values[2 * pair] = np.float32(np.int32(word >> np.uint64(40))) * scale + offset
        values[2 * pair + 1] = np.float32(np.int32((word >> np.uint64(8)) & np.uint64(0xFFFFFF))) * scale + offset
    if values.size % 2:
        word = random_word(key, np.uint64(values.size // 2))
        values[values.size - 1] = np.float32(np.int32(word >> np.uint64(40))) * scale + offset


@compiled
def _fill_from_table(key: np.uint64, table: npt.NDArray[np.float32], values: npt.NDArray[np.float32]) -> None:
    """Fills a flat array with entries of a table of 65536 numbers, each equally likely."""
    for index in range(values.size):
        if index % 4 == 0:
            word = random_word(key, np.uint64(index // 4))
        values[index] = table[word & np.uint64(0xFFFF)]
        word = word >> np.uint64(16)


@lru_cache(maxsize=1)
def _normal_quantiles() -> npt.NDArray[np.float32]:
    """The standard normal distribution as 65536 equally likely numbers with mean 0 and standard deviation 1."""
    quantiles = ndtri((np.arange(65536) + 0.5) / 65536)
    return np.asarray(quantiles / quantiles.std(), np.float32)


class Draws(ABC):
    """The random numbers of one corrupted image; every call draws anew."""

    @abstractmethod
    def key(self) -> np.uint64:
        """The key of a fresh stream of `random_word`, for loops that draw for themselves."""

    @abstractmethod
    def uniform(self, low: float, high: float) -> float:
        """One number in [low, high)."""

    @abstractmethod
    def integer(self, count: int) -> int:
        """One of 0 .. count - 1."""

    @abstractmethod
    def uniform_field(self, shape: tuple[int, ...], low: float, high: float) -> Floats:
        """Independent numbers in [low, high)."""

    @abstractmethod
    def normal_window(
        self, shape: tuple[int, int], window: tuple[slice, slice], mean: float, deviation: float
    ) -> Floats:
        """The window of a field of independent normal numbers."""


class FastDraws(Draws):
    """The product's own stream, the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._seed = np.uint64(seed % 2**64)
        self._draws = 0

    def key(self) -> np.uint64:
        self._draws += 1
        with np.errstate(over="ignore"):
            return np.uint64(random_word(self._seed ^ MIX_A, np.uint64(self._draws)))

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * (int(self.key()) >> 11) / 2.0**53

    def integer(self, count: int) -> int:
        return int(self.key()) * count >> 64

    def uniform_field(self, shape: tuple[int, ...], low: float, high: float) -> Floats:
        values = np.empty(shape, np.float32)
        _fill_uniform(self.key(), low, high, values.reshape(-1))
        return values

    def normal_window(
        self, shape: tuple[int, int], window: tuple[slice, slice], mean: float, deviation: float
    ) -> Floats:
        rows, columns = (len(range(*part.indices(length))) for part, length in zip(window, shape, strict=True))
        values = np.empty((rows, columns), np.float32)
        table = (mean + deviation * _normal_quantiles()).astype(np.float32)
        _fill_from_table(self.key(), table, values.reshape(-1))
        return values


class LegacyDraws(Draws):
    """NumPy's legacy stream (MT19937) in the order of the reference (docs/specs/corruptions.md, sections 1 and 2)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed % 2**32
        self.generator = np.random.RandomState(self.seed)

    def key(self) -> np.uint64:
        return np.uint64(self.generator.randint(2**63, dtype=np.int64))

    def uniform(self, low: float, high: float) -> float:
        return float(self.generator.uniform(low, high))

    def integer(self, count: int) -> int:
        return int(self.generator.randint(count))

    def uniform_field(self, shape: tuple[int, ...], low: float, high: float) -> Floats:
        return self.generator.uniform(low, high, shape)

    def normal_window(
        self, shape: tuple[int, int], window: tuple[slice, slice], mean: float, deviation: float
    ) -> Floats:
        return self.generator.normal(mean, deviation, shape)[window]
