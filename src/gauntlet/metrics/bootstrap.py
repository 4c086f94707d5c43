"""Confidence intervals over images: resample images with replacement, recompute the dataset figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.metrics.segmentation.figures import FloatArray, divide, image_accuracy, image_iou, nan_mean

RESAMPLES = 1000
LEVEL = 0.95
_CHUNK = 100

# A figure of R resamples from how often each image occurs, (R, N) -> (R,), and several by name.
WeightedFigure = Callable[[FloatArray], FloatArray]
WeightedFigures = Callable[[FloatArray], Mapping[str, FloatArray]]


def intervals(
    table: CountTable, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of mIoU, mAcc, aAcc and NmIoU; NaN when fewer than two images count.

    Args:
        table: counts of N images.
        resamples: number of bootstrap samples.
        level: coverage.
        seed: of the resampling.
    """
    table = table.select(np.flatnonzero(table.valid > 0))
    figures = _weighted_figures(table)
    if len(table) < 2:
        return dict.fromkeys(figures, (float("nan"), float("nan")))

    def all_figures(weights: FloatArray) -> dict[str, FloatArray]:
        return {name: figure(weights) for name, figure in figures.items()}

    return joint_intervals(all_figures, len(table), resamples=resamples, level=level, seed=seed)


def joint_intervals(
    figures: WeightedFigures, images: int, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of several figures of N images over the same resamples; NaN for a figure without any.

    Args:
        figures: named figures of R resamples.
        images: N.
        resamples, level, seed: as for `intervals`.
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


def _weighted_figures(table: CountTable) -> dict[str, WeightedFigure]:
    hits = table.true_positives.astype(np.float64)
    truth = table.ground_truth.astype(np.float64)
    union = table.union.astype(np.float64)
    per_image = image_iou(table)

    def mean_of(values: npt.NDArray[np.float64]) -> WeightedFigure:
        return lambda weights: weights @ values / weights.sum(axis=1)

    return {
        "mIoU": lambda weights: nan_mean(divide(weights @ hits, weights @ union), axis=1),
        "mAcc": lambda weights: nan_mean(divide(weights @ hits, weights @ truth), axis=1),
        "aAcc": lambda weights: divide((weights @ hits).sum(axis=1), (weights @ truth).sum(axis=1)),
        "aAcc_images": mean_of(image_accuracy(table)),
        "NmIoU": mean_of(per_image),
    }
