"""Confidence intervals over images: resample images with replacement, recompute the dataset figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gauntlet.metrics.arithmetic import FloatArray

RESAMPLES = 1000
LEVEL = 0.95
_CHUNK = 100

# Named figures of R resamples, (R,) each, from how often each of N images occurs in them, (R, N).
WeightedFigures = Callable[[FloatArray], Mapping[str, FloatArray]]


def joint_intervals(
    figures: WeightedFigures, images: int, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of several figures of N images over the same resamples; NaN for a figure without any.

    Args:
        figures: gives the named figures of R resamples.
        images: N.
        resamples: number of bootstrap samples.
        level: coverage.
        seed: of the resampling.
    """
    generator = np.random.default_rng(seed)
    values: dict[str, list[FloatArray]] = {}
    for start in range(0, resamples, _CHUNK):  # in chunks: a resample of 100,000 images is not small
        count = min(_CHUNK, resamples - start)
        weights = generator.multinomial(images, np.full(images, 1 / images), size=count)
        for name, of_chunk in figures(weights.astype(np.float64)).items():
            values.setdefault(name, []).append(of_chunk)
    return {name: _percentiles(np.concatenate(parts), level) for name, parts in values.items()}


def _percentiles(values: FloatArray, level: float) -> tuple[float, float]:
    if np.isnan(values).all():
        return float("nan"), float("nan")
    low, high = np.nanpercentile(values, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)
