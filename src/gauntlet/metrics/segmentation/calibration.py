"""Whether confidence can be relied on: calibration and failure detection from histograms (docs/specs/beyond.md, 1).

Functions take counts of right and wrong pixels in bins of rising confidence, (..., B), pooled over images: a mean of
the calibration errors of single images is another, larger figure. NaN where a figure is undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import FloatArray, divide
from gauntlet.metrics.intervals import FRACTION, of_rows, sums_left_out
from gauntlet.metrics.segmentation.confidence_counts import (
    COARSE_BINS,
    CONFIDENCE_BINS,
    FINE_BINS,
    LOG_ODDS_BINS,
    ConfidenceCounts,
)

KEPT = 0.95
"""The share of right pixels that FPR95 keeps."""
FIGURES = (
    *("ECE", "ECE_max", "ECE_rms", "overconfidence", "AUROC", "AUPR_success", "AUPR_error", "FPR95"),
    *("AUROC_low", "AUROC_high", "FPR95_low", "FPR95_high", "NLL", "Brier"),
)
"""The figures of one evaluation; `_low` and `_high` bound the figure of single pixels, which bins leave open."""
LIMITS = {"ECE": FRACTION, "overconfidence": FRACTION, "AUROC": FRACTION, "NLL": (0.0, np.inf), "Brier": (0.0, 2.0)}
"""The figures that have intervals, and the least and the largest value of each."""
WIDTH = 3 * CONFIDENCE_BINS + 2 * LOG_ODDS_BINS + 2
"""Numbers in one row of histograms: 2447."""


def bin_gaps(right: npt.ArrayLike, wrong: npt.ArrayLike, confidence: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Mean confidence minus accuracy of every bin, and the share of pixels in it; 0 in a bin without pixels.

    Args:
        right, wrong: (..., B) pixels.
        confidence: (..., B) sum of the confidences.
    """
    right, wrong, confidence = (np.asarray(each, np.float64) for each in (right, wrong, confidence))
    pixels = right + wrong
    gaps = divide(confidence - right, pixels)
    shares = divide(pixels, pixels.sum(axis=-1, keepdims=True))
    return np.where(pixels > 0, gaps, np.where(np.isnan(confidence), np.nan, 0.0)), shares


def calibration_errors(
    right: npt.ArrayLike, wrong: npt.ArrayLike, confidence: npt.ArrayLike
) -> dict[str, npt.NDArray[np.float64]]:
    """ECE = sum_b n_b/n |acc_b - conf_b|, its largest bin, its root mean square, and the part that is too confident.

    Args:
        right, wrong, confidence: as for `bin_gaps`.

    Returns:
        `ECE`, `ECE_max`, `ECE_rms` and `overconfidence`, (...) each; ECE - overconfidence is the underconfidence.
    """
    gaps, shares = bin_gaps(right, wrong, confidence)
    known = ~np.isnan(shares).any(axis=-1)
    return {
        "ECE": (shares * np.abs(gaps)).sum(axis=-1),
        "ECE_max": np.where(known, np.abs(gaps).max(axis=-1), np.nan),
        "ECE_rms": np.sqrt((shares * gaps**2).sum(axis=-1)),
        "overconfidence": (shares * np.maximum(gaps, 0)).sum(axis=-1),
    }


def auroc(right: npt.ArrayLike, wrong: npt.ArrayLike) -> FloatArray:
    """P(c_right > c_wrong) + P(c_right = c_wrong) / 2 from pixels (..., B) at rising confidence."""
    right, wrong = np.asarray(right, np.float64), np.asarray(wrong, np.float64)
    below = np.cumsum(wrong, axis=-1) - wrong / 2
    return divide((right * below).sum(axis=-1), right.sum(axis=-1) * wrong.sum(axis=-1))


def aupr(positive: npt.ArrayLike, other: npt.ArrayLike, *, even: bool = True) -> FloatArray:
    """Area below precision over recall, from counts (..., B) at rising score; NaN without a positive one.

    Args:
        positive, other: what is to be ranked high, and the rest.
        even: the members of a bin arrive evenly, which gives a/P [a/m + (T - aS/m)/m ln((S + m)/S)] for a positives of
            m members after T of S; else all at once at the precision at the end of the bin (sklearn, BRAVO), which is
            exact when every score has a bin of its own and too low when few bins stand for many.
    """
    found = np.flip(np.asarray(positive, np.float64), -1)  # the highest score first
    members = found + np.flip(np.asarray(other, np.float64), -1)
    found_before, before = np.cumsum(found, axis=-1) - found, np.cumsum(members, axis=-1) - members
    if even:
        density = divide(found, members)
        growth = np.log(divide(before + members, before))
        late = density + divide(found_before - density * before, members) * growth
        precision = np.where(before > 0, late, density)
    else:
        precision = divide(found_before + found, before + members)
    return divide(np.where(found > 0, found * precision, 0).sum(axis=-1), found.sum(axis=-1))


def fpr_at_95(right: npt.ArrayLike, wrong: npt.ArrayLike) -> FloatArray:
    """The share of wrong pixels that are kept at the highest threshold that keeps 95 % of the right ones.

    Args:
        right, wrong: (..., B) pixels at rising confidence.
    """
    kept = np.cumsum(np.flip(np.asarray(right, np.float64), -1), axis=-1)
    passed = np.cumsum(np.flip(np.asarray(wrong, np.float64), -1), axis=-1)
    first = np.argmax(kept >= KEPT * kept[..., -1:], axis=-1)[..., None]
    share = divide(np.take_along_axis(passed, first, -1)[..., 0], passed[..., -1])
    return np.where(kept[..., -1] > 0, share, np.nan)


def failure_detection(right: npt.ArrayLike, wrong: npt.ArrayLike) -> dict[str, FloatArray]:
    """How well confidence tells right from wrong pixels: AUROC, AUPR_success, AUPR_error and FPR95.

    Args:
        right, wrong: (..., B) pixels at rising confidence.
    """
    unsure_wrong, unsure_right = (np.flip(np.asarray(each, np.float64), -1) for each in (wrong, right))
    return {
        "AUROC": auroc(right, wrong),
        "AUPR_success": aupr(right, wrong),
        "AUPR_error": aupr(unsure_wrong, unsure_right),
        "FPR95": fpr_at_95(right, wrong),
    }


def ranking_bounds(right: npt.ArrayLike, wrong: npt.ArrayLike) -> dict[str, FloatArray]:
    """Bounds of AUROC and FPR95 of single pixels, whatever their order inside the bins.

    Args:
        right, wrong: (..., B) pixels at rising confidence.

    Returns:
        `AUROC_low`, `AUROC_high`, `FPR95_low` and `FPR95_high`, (...) each.
    """
    right, wrong = np.asarray(right, np.float64), np.asarray(wrong, np.float64)
    pairs = right.sum(axis=-1) * wrong.sum(axis=-1)
    highest = np.cumsum(wrong, axis=-1)  # every wrong pixel of a bin below its right ones
    kept = np.cumsum(np.flip(right, -1), axis=-1)
    passed = np.cumsum(np.flip(wrong, -1), axis=-1)
    cut = np.argmax(kept >= KEPT * kept[..., -1:], axis=-1)[..., None]
    above = np.take_along_axis(passed - np.flip(wrong, -1), cut, -1)[..., 0]
    return {
        "AUROC_low": divide((right * (highest - wrong)).sum(axis=-1), pairs),
        "AUROC_high": divide((right * highest).sum(axis=-1), pairs),
        "FPR95_low": np.where(kept[..., -1] > 0, divide(above, passed[..., -1]), np.nan),
        "FPR95_high": fpr_at_95(right, wrong),
    }


def region_detection(inside: npt.ArrayLike, outside: npt.ArrayLike) -> dict[str, FloatArray]:
    """Whether low confidence tells where a threat acted: figures with the pixels inside its region as positive.

    Args:
        inside, outside: (..., B) pixels at rising confidence, right and wrong ones together.
    """
    unsure_inside, unsure_outside = (np.flip(np.asarray(each, np.float64), -1) for each in (inside, outside))
    bounds = ranking_bounds(unsure_inside, unsure_outside)
    return {
        "AUROC_region": auroc(outside, inside),
        "AUPR_region": aupr(unsure_inside, unsure_outside),
        "FPR95_region": fpr_at_95(unsure_inside, unsure_outside),
    } | {name.replace("_", "_region_"): value for name, value in bounds.items()}


def adaptive_error(right: npt.ArrayLike, wrong: npt.ArrayLike, confidence: npt.ArrayLike, groups: int = 15) -> float:
    """Calibration error over groups of equal mass in the order of confidence (ACE); a bin is never cut.

    Args:
        right, wrong, confidence: (B,) as for `bin_gaps`; exact when every pixel has a bin of its own.
        groups: number of groups.
    """
    right, wrong, confidence = (np.asarray(each, np.float64) for each in (right, wrong, confidence))
    passed = np.cumsum(right + wrong)
    # The bounds of numpy.array_split: the first groups hold one more where the pixels do not divide.
    size, larger = divmod(int(passed[-1]), groups)
    bounds = np.cumsum([size + (index < larger) for index in range(groups)])
    group = np.searchsorted(bounds, passed - (right + wrong), side="right")
    pooled = (np.bincount(group, each, groups) for each in (right, wrong, confidence))
    return float(calibration_errors(*pooled)["ECE"])


def classwise_error(probabilities: FloatArray, labels: npt.NDArray[np.integer], bins: int = CONFIDENCE_BINS) -> float:
    """Mean over classes of sum_b |sum p_k - sum 1[y = k]| / n, over equal bins of p_k (Kull et al. 2019).

    It needs every probability of every pixel, and is therefore no figure of an evaluation.

    Args:
        probabilities: (n, K) of valid pixels.
        labels: (n,) their classes.
        bins: B.
    """
    pixels, classes = probabilities.shape
    errors = []
    for index in range(classes):
        place = np.minimum((probabilities[:, index] * bins).astype(np.intp), bins - 1)
        gap = np.bincount(place, probabilities[:, index], bins) - np.bincount(place, labels == index, bins)
        errors.append(np.abs(gap).sum() / pixels)
    return float(np.mean(errors))


@dataclass(frozen=True)
class PooledConfidence:
    """Histograms of many images, or of R sets of them: what every figure here is computed from.

    Attributes:
        right, wrong, confidence: (R, 15) in equal bins of the confidence.
        right_odds, wrong_odds: (R, 1200) in bins of the log-odds.
        nll, brier: (R,) sums over pixels.
    """

    right: FloatArray
    wrong: FloatArray
    confidence: FloatArray
    right_odds: FloatArray
    wrong_odds: FloatArray
    nll: FloatArray
    brier: FloatArray

    @classmethod
    def of(cls, rows: FloatArray) -> PooledConfidence:
        """From sums of `flat_row`, (R, 2447)."""
        bounds = np.cumsum([CONFIDENCE_BINS] * 3 + [LOG_ODDS_BINS] * 2 + [1])
        right, wrong, confidence, right_odds, wrong_odds, nll, brier = np.split(rows, bounds, axis=1)
        return cls(right, wrong, confidence, right_odds, wrong_odds, nll[:, 0], brier[:, 0])

    def figures(self) -> dict[str, FloatArray]:
        """The figures of `FIGURES`, (R,) each."""
        pixels = self.right.sum(axis=1) + self.wrong.sum(axis=1)
        values = calibration_errors(self.right, self.wrong, self.confidence)
        values |= failure_detection(self.right_odds, self.wrong_odds)
        values |= ranking_bounds(self.right_odds, self.wrong_odds)
        unknown = np.isnan(self.nll)
        values = {name: np.where(unknown, np.nan, value) for name, value in values.items()}
        return values | {"NLL": divide(self.nll, pixels), "Brier": divide(self.brier, pixels)}


def _of_sums(pooled: PooledConfidence) -> dict[str, FloatArray]:
    """The figures that have intervals: those that are cheap enough to be computed without every image."""
    pixels = pooled.right.sum(axis=1) + pooled.wrong.sum(axis=1)
    gaps, shares = bin_gaps(pooled.right, pooled.wrong, pooled.confidence)
    return {
        "ECE": (shares * np.abs(gaps)).sum(axis=1),
        "overconfidence": (shares * np.maximum(gaps, 0)).sum(axis=1),
        "AUROC": auroc(pooled.right_odds, pooled.wrong_odds),
        "NLL": divide(pooled.nll, pixels),
        "Brier": divide(pooled.brier, pixels),
    }


def flat_row(counts: ConfidenceCounts | None, view: int) -> FloatArray:
    """(2447,) the histograms of one view of an image in one row; NaN where they were not measured."""
    if counts is None or not counts.measured[view]:
        return np.full(WIDTH, np.nan)
    parts = (counts.bins[view].reshape(-1), counts.confidence[view], counts.log_odds[view].reshape(-1))
    return np.concatenate([*parts, counts.scores[view]])


def coarsened(rows: FloatArray) -> FloatArray:
    """Rows of `flat_row`, (..., 2447), with 256 bins of the log-odds, for images of which some have no more."""
    start, stop = 3 * CONFIDENCE_BINS, 3 * CONFIDENCE_BINS + 2 * LOG_ODDS_BINS
    odds = rows[..., start:stop].reshape(*rows.shape[:-1], 2, LOG_ODDS_BINS)
    step = FINE_BINS // COARSE_BINS
    coarse = np.zeros_like(odds)
    coarse[..., 0:FINE_BINS:step] = odds[..., :FINE_BINS].reshape(*odds.shape[:-1], COARSE_BINS, step).sum(axis=-1)
    coarse[..., FINE_BINS - step] += odds[..., FINE_BINS:].sum(axis=-1)
    changed = rows.copy()
    changed[..., start:stop] = coarse.reshape(*rows.shape[:-1], stop - start)
    return changed


def pool(rows: Sequence[FloatArray] | FloatArray) -> PooledConfidence:
    """The histograms of N images, (N, 2447), as one; NaN where one of them was not measured."""
    return PooledConfidence.of(np.asarray(rows, np.float64).reshape(-1, WIDTH).sum(axis=0, keepdims=True))


def intervals(rows: FloatArray) -> dict[str, tuple[float, float]]:
    """95 % intervals over images of ECE, overconfidence, AUROC, NLL and Brier; empty where some image has none.

    Args:
        rows: (N, 2447) histograms of N images.
    """
    if np.isnan(rows[:, 0]).any():
        return {}
    figures = _of_sums(PooledConfidence.of(sums_left_out(rows)))
    return {name: of_rows(values, limits=LIMITS[name]).bounds for name, values in figures.items()}
