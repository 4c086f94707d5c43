"""Correlations between scores of models, with intervals (docs/specs/metrics.md, 11)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gauntlet.analysis.frames import name_images, require_columns
from gauntlet.analysis.scoring.scores import score_columns, scores
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import FloatArray, divide

COEFFICIENTS = ("pearson", "spearman", "kendall")
LEAST_PAIRS = 6
"""Fewer pairs give a coefficient without an interval: resamples of three models in one order are all in that order."""
RESAMPLES = 1000
LEVEL = 0.95
NEAR_ZERO = 0.02
"""Scores that all lie below this are at the floor: what varies there is noise."""


def correlate(
    first: npt.ArrayLike, second: npt.ArrayLike, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> pd.DataFrame:
    """Pearson's r, Spearman's rho (average ranks) and Kendall's tau-b of two lists, with intervals.

    Pairs with a NaN are dropped. Fewer than three pairs or a list without variance give NaN, fewer than six no
    interval. An interval is the wider of two: percentiles of resampled pairs, which are too narrow for few pairs, and
    Fisher's (of ranks: Bonett and Wright's), which is too narrow for large coefficients; docs/analysis.md has the
    coverage.

    Args:
        first, second: as many values each.
        resamples: bootstrap samples of the pairs; those without variance are left out of the interval.
        level: coverage of the interval.
        seed: of the bootstrap.

    Returns:
        One row per coefficient: coefficient, value, low, high, n, warning.
    """
    return pd.DataFrame(_correlate(first, second, resamples, level, seed))


def _correlate(
    first: npt.ArrayLike, second: npt.ArrayLike, resamples: int, level: float, seed: int
) -> list[dict[str, Any]]:
    x, y = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if x.shape != y.shape or x.ndim != 1:
        raise GauntletError(f"a correlation needs two lists of one length, not shapes {x.shape} and {y.shape}.")
    both = ~(np.isnan(x) | np.isnan(y))
    x, y = x[both], y[both]
    n = len(x)
    blank = dict.fromkeys(("value", "low", "high"), np.nan)
    rows: list[dict[str, Any]] = [
        {"coefficient": name, **blank, "n": n, "warning": _warning(x, y)} for name in COEFFICIENTS
    ]
    if n < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return rows
    drawn = resamples if n >= LEAST_PAIRS else 0
    for row, values in zip(rows, _coefficients(x, y, _weights(n, drawn, seed)), strict=True):
        row["value"] = float(values[0])
        if n >= LEAST_PAIRS:
            row["low"], row["high"] = interval(str(row["coefficient"]), values, n, level)
    return rows


def interval(
    coefficient: str, values: FloatArray, pairs: int, level: float = LEVEL, *, fixed: int = 0
) -> tuple[float, float]:
    """The wider of the percentile interval and Fisher's, at each end.

    Args:
        coefficient: one of COEFFICIENTS.
        values: the coefficient of the pairs, then of their resamples; NaN for those without variance.
        pairs: n, at least LEAST_PAIRS.
        level: coverage.
        fixed: figures that are held fixed, in a partial correlation.
    """
    value, free = float(values[0]), pairs - fixed
    # Ranks in one order are no proof of a coefficient of 1: half a step to the next possible value is left.
    steps = {"pearson": 0.0, "spearman": 3 / (free * (free**2 - 1)), "kendall": 2 / (free * (free - 1))}
    variances = {"pearson": 1 / (free - 3), "spearman": (1 + value**2 / 2) / (free - 3), "kendall": 0.437 / (free - 4)}
    most = 1 - max(steps[coefficient], 1e-15)
    centre = math.atanh(min(max(value, -most), most))
    half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variances[coefficient])
    low, high = math.tanh(centre - half), math.tanh(centre + half)
    if np.isfinite(values[1:]).any():
        percentiles = np.nanpercentile(values[1:], [50 * (1 - level), 50 * (1 + level)])
        low, high = min(low, float(percentiles[0])), max(high, float(percentiles[1]))
    return min(low, value), max(high, value)


@lru_cache(maxsize=32)
def _weights(n: int, resamples: int, seed: int) -> FloatArray:
    """How often each of n pairs occurs in the sample itself and in every resample, (resamples + 1, n)."""
    draws = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples)
    return np.vstack([np.ones((1, n)), draws.astype(np.float64)])


def correlations(
    table: pd.DataFrame,
    columns: Sequence[str] | None = None,
    *,
    pairs: Iterable[tuple[str, str]] | None = None,
    by: Sequence[str] = (),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Correlations between columns of a wide table of scores, such as `scores` gives.

    Args:
        table: one row per model.
        columns: what to correlate, each with each; by default every score, `parameters` and `year`.
        pairs: these pairs instead.
        by: split by these columns ("dataset", "architecture", "backbone_type", "proposal_type"); none: all rows.
        resamples, seed: of the bootstrap intervals.

    Returns:
        Tidy: the columns of `by`, x, y, coefficient, value, low, high, n, warning.
    """
    if columns is None:
        columns = [*score_columns(table), *(name for name in ("parameters", "year") if name in table)]
    chosen = list(pairs) if pairs is not None else list(itertools.combinations(columns, 2))
    require_columns(table, [*by, *{name for pair in chosen for name in pair}], "a correlation")
    groups: Iterable[tuple[Any, pd.DataFrame]]
    groups = table.groupby(list(by), dropna=False, sort=True) if by else [((), table)]
    parts: list[dict[str, Any]] = []
    for key, rows in groups:
        labels: dict[str, Any] = dict(zip(by, key, strict=True))
        for x, y in chosen:
            coefficients = _correlate(rows[x].astype(float), rows[y].astype(float), resamples, LEVEL, seed)
            parts.extend({**labels, "x": x, "y": y, **row} for row in coefficients)
    order = [*by, "x", "y", "coefficient", "value", "low", "high", "n", "warning"]
    return pd.DataFrame(parts, columns=order)


def scores_by_metric(frame: pd.DataFrame, score: str, metrics: Sequence[str]) -> pd.DataFrame:
    """One score ("clean", "GAM_3") in several metrics, one column per metric, to correlate across metrics."""
    on = ["source", "model", "dataset", "dataset_digest"]
    return _side_by_side({metric: scores(frame, metric) for metric in metrics}, score, on)


def scores_by_dataset(
    frame: pd.DataFrame, score: str, *, on: Sequence[str] = ("model",), metric: str | None = None
) -> pd.DataFrame:
    """One score on several datasets, one column per dataset, to correlate across datasets.

    A dataset of which the store has several sets of images (splits, protocols, numbers) has a column for each.

    Args:
        frame: tidy figures.
        score: a column of `scores`.
        on: what makes two checkpoints the same model on two datasets; published ones share architecture and backbone.
            Several checkpoints of a model on one dataset (two crop sizes) count with their mean.
        metric: by default mIoU for segmentation and mAP for detection.
    """
    table = scores(frame, metric)
    return _side_by_side({str(name): rows for name, rows in table.groupby(name_images(table))}, score, on)


def _side_by_side(tables: dict[str, pd.DataFrame], score: str, on: Sequence[str]) -> pd.DataFrame:
    columns = []
    for name, table in tables.items():
        keys = [column for column in on if column in table]
        require_columns(table, [score], "a comparison of scores")
        columns.append(table.groupby(keys, dropna=False)[score].mean().rename(name))
    return pd.concat(columns, axis=1).reset_index()


def _warning(x: FloatArray, y: FloatArray) -> str:
    if len(x) < 3:
        return f"only {len(x)} pairs; three are needed"
    floors = [bool(np.abs(values).max() < NEAR_ZERO) for values in (x, y)]
    if all(floors):
        return f"both scores lie below {NEAR_ZERO:g} throughout: their correlation means nothing"
    if any(floors):
        return f"one score lies below {NEAR_ZERO:g} throughout: its order is mostly noise"
    return ""


def _coefficients(x: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Pearson, Spearman and Kendall of R weighted samples; weights (R, n) count how often a pair occurs."""
    less_x, less_y = (x[:, None] > x[None, :]).astype(float), (y[:, None] > y[None, :]).astype(float)
    equal_x, equal_y = (x[:, None] == x[None, :]).astype(float), (y[:, None] == y[None, :]).astype(float)
    # Average rank: everything smaller, and half of what is equal including the value itself.
    ranks_x = weights @ less_x.T + 0.5 * (weights @ equal_x + 1)
    ranks_y = weights @ less_y.T + 0.5 * (weights @ equal_y + 1)
    ones = np.ones_like(weights)
    return (
        _pearson(x * ones, y * ones, weights),
        _pearson(ranks_x, ranks_y, weights),
        _kendall(less_x - less_x.T, less_y - less_y.T, weights),
    )


def _pearson(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    total = weights.sum(axis=1, keepdims=True)
    # A resample of one repeated value leaves rounding noise instead of zero: less than this counts as zero.
    noise_x, noise_y = (total[:, 0] * (1e-12 * np.abs(values).max()) ** 2 for values in (x, y))
    x = x - (weights * x).sum(axis=1, keepdims=True) / total
    y = y - (weights * y).sum(axis=1, keepdims=True) / total
    variance_x, variance_y = (weights * x * x).sum(axis=1), (weights * y * y).sum(axis=1)
    covariance = (weights * x * y).sum(axis=1)
    present = (variance_x > noise_x) & (variance_y > noise_y)
    scale = np.sqrt(np.where(present, variance_x * variance_y, 0))
    return np.asarray(np.clip(divide(covariance, scale), -1, 1))


def _kendall(signs_x: FloatArray, signs_y: FloatArray, weights: FloatArray) -> FloatArray:
    def pairs(matrix: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("ri,ri->r", weights @ matrix, weights))

    concordance = pairs(signs_x * signs_y)
    return np.asarray(np.clip(divide(concordance, np.sqrt(pairs(signs_x**2) * pairs(signs_y**2))), -1, 1))
