"""Confidence intervals over images: resample images with replacement, recompute the dataset figure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.counts import CountTable
from gauntlet.metrics.segmentation import FloatArray, divide, image_accuracy, image_iou, nan_mean

RESAMPLES = 1000
LEVEL = 0.95
_CHUNK = 100

# A figure of R resamples from how often each image occurs, (R, N) -> (R,).
WeightedFigure = Callable[[FloatArray], FloatArray]


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
    return {
        name: interval(figure, len(table), resamples=resamples, level=level, seed=seed)
        for name, figure in figures.items()
    }


def interval(
    figure: WeightedFigure, images: int, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> tuple[float, float]:
    """The percentile interval of one figure of N images; the same seed draws the same images for every figure."""
    generator = np.random.default_rng(seed)
    values: list[FloatArray] = []
    for start in range(0, resamples, _CHUNK):  # in chunks: a resample of 100,000 images is not small
        count = min(_CHUNK, resamples - start)
        weights = generator.multinomial(images, np.full(images, 1 / images), size=count)
        values.append(figure(weights.astype(np.float64)))
    low, high = np.nanpercentile(np.concatenate(values), [50 * (1 - level), 50 * (1 + level)])
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
