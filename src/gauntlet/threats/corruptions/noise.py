"""Per-sample noise: every channel of every pixel is changed independently of the others.

Such a corruption is a table P(output level | input level) of 256 x 256 probabilities. The fast stream draws from the
exact table with the alias method (Walker 1977, Vose 1991); the legacy stream evaluates the reference's formula.
Constants: docs/specs/corruptions.md, sections 2.1 to 2.3, 2.16 and 4.4.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, ndtr

from gauntlet.compiling import compiled
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws, LegacyDraws, random_word

Probabilities = npt.NDArray[np.float64]

GAUSSIAN_DEVIATIONS = (0.08, 0.12, 0.18, 0.26, 0.38)
SHOT_PHOTONS = (60, 25, 12, 5, 3)
IMPULSE_AMOUNTS = (0.03, 0.06, 0.09, 0.17, 0.27)
SPECKLE_DEVIATIONS = (0.15, 0.2, 0.35, 0.45, 0.6)
ISO_PHOTONS = 25
ISO_DEVIATIONS = (0.056, 0.084, 0.126, 0.182, 0.266)
LOW_LIGHT_FACTORS = (0.6, 0.5, 0.4, 0.3, 0.2)
LOW_LIGHT_PHOTONS = 120
LOW_LIGHT_DEVIATION = 0.018

_LEVELS = np.arange(256) / 255.0
_COLUMN_BITS = 24  # an alias column is chosen by 8 bits, its threshold compared with the other 24
_CAPACITY = 1 << _COLUMN_BITS


def gaussian_noise(image: Image, severity: int, draws: Draws) -> Image:
    """Adds normal noise of a fixed standard deviation."""
    deviation = GAUSSIAN_DEVIATIONS[severity - 1]
    if isinstance(draws, LegacyDraws):
        return _to_bytes(image / 255.0 + draws.generator.normal(scale=deviation, size=image.shape))
    return _resample(image, _gaussian_table(deviation), draws)


def shot_noise(image: Image, severity: int, draws: Draws) -> Image:
    """Counts photons: Poisson(c x) / c."""
    photons = SHOT_PHOTONS[severity - 1]
    if isinstance(draws, LegacyDraws):
        return _to_bytes(draws.generator.poisson(image / 255.0 * photons) / photons)
    return _resample(image, _shot_table(photons), draws)


def impulse_noise(image: Image, severity: int, draws: Draws) -> Image:
    """Salt and pepper, per channel."""
    amount = IMPULSE_AMOUNTS[severity - 1]
    if isinstance(draws, LegacyDraws):  # the reference takes a fresh PCG64 generator here
        generator = np.random.default_rng(draws.seed)
        hit = generator.random(image.shape) <= amount
        salt = generator.random(image.shape) <= 0.5
        return np.where(hit, np.where(salt, np.uint8(255), np.uint8(0)), image)
    return _resample(image, _impulse_table(amount), draws)


def speckle_noise(image: Image, severity: int, draws: Draws) -> Image:
    """Adds normal noise with a standard deviation proportional to the sample."""
    deviation = SPECKLE_DEVIATIONS[severity - 1]
    if isinstance(draws, LegacyDraws):
        x = image / 255.0
        return _to_bytes(x + x * draws.generator.normal(scale=deviation, size=image.shape))
    return _resample(image, _speckle_table(deviation), draws)


def iso_noise(image: Image, severity: int, draws: Draws) -> Image:
    """A sensor at high gain: Poisson(25 x) / 25, then normal noise."""
    deviation = ISO_DEVIATIONS[severity - 1]
    if isinstance(draws, LegacyDraws):
        return _sensor_noise(image / 255.0, ISO_PHOTONS, deviation, draws)
    return _resample(image, _iso_table(deviation), draws)


def low_light(image: Image, severity: int, draws: Draws) -> Image:
    """A dark exposure: the range of the image stretched, squared and dimmed, then the noise of a sensor.

    An image of one level only, for which the reference divides by zero, becomes black.
    """
    factor, darkest, brightest = LOW_LIGHT_FACTORS[severity - 1], int(image.min()), int(image.max())
    if isinstance(draws, LegacyDraws):
        exposed = _exposure(factor, darkest, brightest)[image]
        return _sensor_noise(exposed, LOW_LIGHT_PHOTONS, LOW_LIGHT_DEVIATION, draws)
    return _resample(image, _low_light_table(factor, darkest, brightest), draws)


def _exposure(factor: float, darkest: int, brightest: int) -> Probabilities:
    """The light c ((x - min) / (max - min))^2 of every level; levels that do not occur are clipped to the range."""
    inside = np.clip(np.arange(256), darkest, brightest) - darkest
    return np.asarray(factor * (inside / max(brightest - darkest, 1)) ** 2, np.float64)


def _sensor_noise(x: npt.NDArray[np.float64], photons: int, deviation: float, draws: LegacyDraws) -> Image:
    """Poisson(c x) / c, clipped; then normal noise."""
    counted = np.clip(draws.generator.poisson(x * photons) / photons, 0, 1)
    return _to_bytes(counted + draws.generator.normal(scale=deviation, size=x.shape))


def _to_bytes(x: npt.NDArray[np.float64]) -> Image:
    return (np.clip(x, 0, 1) * 255).astype(np.uint8)


def _resample(image: Image, table: npt.NDArray[np.uint32], draws: Draws) -> Image:
    out = np.empty_like(image)
    _draw_levels(image.reshape(-1), table, draws.key(), out.reshape(-1))
    return out


def _normal_probabilities(deviations: Probabilities, values: Probabilities = _LEVELS) -> Probabilities:
    """P(floor(255 clip(x + n)) = j) for every value x and normal n of the value's deviation (0: no noise)."""
    edges = np.arange(1, 256) / 255.0
    with np.errstate(divide="ignore", invalid="ignore"):
        below = ndtr((edges[None, :] - values[:, None]) / deviations[:, None])
    below[deviations == 0] = (edges[None, :] > values[deviations == 0][:, None]).astype(float)
    return np.diff(below, axis=1, prepend=0.0, append=1.0)


def _photon_probabilities(x: Probabilities, photons: int) -> Probabilities:
    """P(k photons are counted) for k = 0 .. c - 1 and, in the last column, for any count from c on (white)."""
    counts = np.arange(photons)
    rate = photons * np.asarray(x)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        below_white = np.exp(counts * np.log(rate) - rate - gammaln(counts + 1.0))
    below_white[rate[:, 0] == 0] = counts == 0
    white = np.maximum(0.0, 1.0 - below_white.sum(axis=1, keepdims=True))
    return np.concatenate([below_white, white], axis=1)


@lru_cache(maxsize=8)
def _gaussian_table(deviation: float) -> npt.NDArray[np.uint32]:
    return _alias_table(_normal_probabilities(np.full(256, deviation)))


@lru_cache(maxsize=8)
def _speckle_table(deviation: float) -> npt.NDArray[np.uint32]:
    return _alias_table(_normal_probabilities(deviation * _LEVELS))


@lru_cache(maxsize=8)
def _shot_table(photons: int) -> npt.NDArray[np.uint32]:
    probabilities = np.zeros((256, 256))
    probabilities[:, (np.arange(photons + 1) / photons * 255).astype(int)] = _photon_probabilities(_LEVELS, photons)
    return _alias_table(probabilities)


@lru_cache(maxsize=8)
def _iso_table(deviation: float) -> npt.NDArray[np.uint32]:
    return _alias_table(_sensor_probabilities(_LEVELS, ISO_PHOTONS, deviation))


@lru_cache(maxsize=64)
def _low_light_table(factor: float, darkest: int, brightest: int) -> npt.NDArray[np.uint32]:
    exposed = _exposure(factor, darkest, brightest)
    return _alias_table(_sensor_probabilities(exposed, LOW_LIGHT_PHOTONS, LOW_LIGHT_DEVIATION))


def _sensor_probabilities(x: Probabilities, photons: int, deviation: float) -> Probabilities:
    """P(output level) for every value x under photon counts and then normal noise (docs/specs/corruptions.md, 4.4)."""
    counted = np.arange(photons + 1) / photons
    return _photon_probabilities(x, photons) @ _normal_probabilities(np.full(photons + 1, deviation), counted)


@lru_cache(maxsize=8)
def _impulse_table(amount: float) -> npt.NDArray[np.uint32]:
    probabilities = (1 - amount) * np.eye(256)
    probabilities[:, 0] += amount / 2
    probabilities[:, 255] += amount / 2
    return _alias_table(probabilities)


def _alias_table(probabilities: Probabilities) -> npt.NDArray[np.uint32]:
    """Alias tables of 256 distributions over 256 levels: entry = threshold << 8 | alias.

    Probabilities become whole multiples of 2^-32 first, so that a last-bit difference between two machines' special
    functions does not reach the drawn levels.
    """
    shares = np.rint(probabilities * 2.0**32).astype(np.int64)
    shares[np.arange(256), shares.argmax(axis=1)] += 2**32 - shares.sum(axis=1)
    table = np.empty((256, 256), np.uint32)
    _fill_alias_table(shares, table)
    return table


@compiled
def _fill_alias_table(shares: npt.NDArray[np.int64], table: npt.NDArray[np.uint32]) -> None:
    """Vose's construction in whole numbers; every column of a row holds 2^24 of the row's 2^32."""
    waiting_small = np.empty(256, np.int64)
    waiting_large = np.empty(256, np.int64)
    for level in range(256):
        left = shares[level].copy()
        small = 0
        large = 0
        for column in range(256):
            if left[column] < _CAPACITY:
                waiting_small[small] = column
                small += 1
            else:
                waiting_large[large] = column
                large += 1
        while small > 0 and large > 0:
            small -= 1
            column = waiting_small[small]
            donor = waiting_large[large - 1]
            table[level, column] = np.uint32(left[column] << 8 | donor)
            left[donor] -= _CAPACITY - left[column]
            if left[donor] < _CAPACITY:
                large -= 1
                waiting_small[small] = donor
                small += 1
        for index in range(large):  # full columns: threshold and alias both lead to the column itself
            table[level, waiting_large[index]] = np.uint32(waiting_large[index])


@compiled
def _draw_levels(
    levels: npt.NDArray[np.uint8], table: npt.NDArray[np.uint32], key: np.uint64, out: npt.NDArray[np.uint8]
) -> None:
    """Draws an output level for every input level; 32 random bits each."""
    for index in range(levels.size):
        if index % 2 == 0:
            word = random_word(key, np.uint64(index // 2))
        column = word >> np.uint64(56)
        fraction = (word >> np.uint64(32)) & np.uint64(0xFFFFFF)
        word = word << np.uint64(32)
        entry = table[levels[index], column]
        out[index] = column if fraction < entry >> np.uint32(8) else entry & np.uint32(0xFF)
