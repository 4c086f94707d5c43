"""The compiled pass over pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled


@compiled
def count_pixels(
    prediction: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    parts: npt.NDArray[Any] | None,
    ignored: int,
    counts: npt.NDArray[np.int64],
) -> int:
    """Adds every valid pixel to counts[part, label, prediction]; the index of the first bad pixel, or -1."""
    classes = counts.shape[1]
    for index in range(labels.size):
        label = np.int64(labels[index])
        if label == ignored:
            continue
        predicted = np.int64(prediction[index])
        if label < 0 or label >= classes or predicted < 0 or predicted >= classes:
            return index
        if parts is None:
            counts[0, label, predicted] += 1
        else:
            counts[parts[index], label, predicted] += 1
    return -1


@compiled
def _bin(scaled: float, last: int) -> int:
    """The bin of a value in units of bins; bounded before it becomes an index, which infinity and NaN must not be."""
    if scaled >= last:
        return last
    return int(scaled) if scaled > 0 else 0


@compiled
def count_confidences(
    prediction: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    confidence: npt.NDArray[Any],
    log_odds: npt.NDArray[Any],
    nll: npt.NDArray[Any],
    brier: npt.NDArray[Any],
    parts: npt.NDArray[Any] | None,
    ignored: int,
    lowest: float,
    bins_per_unit: float,
    fine: int,
    tail_per_unit: float,
    bins: npt.NDArray[np.int64],
    odds_bins: npt.NDArray[np.int64],
    sums: npt.NDArray[np.float64],
    scores: npt.NDArray[np.float64],
) -> None:
    """Adds every valid pixel to bins[part, wrong, .], odds_bins[part, wrong, .], sums[part, .] and scores[part]."""
    last, last_odds = bins.shape[2] - 1, odds_bins.shape[2] - 1
    for index in range(labels.size):
        label = np.int64(labels[index])
        if label == ignored:
            continue
        part = 0 if parts is None else np.int64(parts[index])
        wrong = 0 if np.int64(prediction[index]) == label else 1
        sure = np.float64(confidence[index])
        place = _bin(sure * (last + 1), last)
        bins[part, wrong, place] += 1
        sums[part, place] += sure
        above = (np.float64(log_odds[index]) - lowest) * bins_per_unit
        if above >= fine:  # bins of another width, beyond the last of these
            above = fine + (above - fine) / bins_per_unit * tail_per_unit
        odds_bins[part, wrong, _bin(above, last_odds)] += 1
        scores[part, 0] += np.float64(nll[index])
        scores[part, 1] += np.float64(brier[index])
