"""How confidence and correctness of pixels go together: small histograms of every image (docs/specs/beyond.md, 1).

Confidences of segmentation models pile up near 1. Figures that rank pixels (AUROC, FPR95) therefore come from bins of
the log-odds ln(c / (1 - c)), which do not saturate: 1,024 from -6 to 17, and 176 wider ones beyond. Calibration comes
from 15 equal bins of the confidence c itself. Older versions kept 256 bins of the log-odds, each four of the 1,024.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import FloatArray

Int64Array = npt.NDArray[np.int64]
CONFIDENCE_BINS = 15
FINE_BINS, TAIL_BINS = 1024, 176
LOG_ODDS_BINS = FINE_BINS + TAIL_BINS
COARSE_BINS = 256
"""Bins of the log-odds in counts of older versions."""
LOG_ODDS_LOW, LOG_ODDS_SPAN = -6.0, 23.0
"""Where the first bin of the log-odds begins, and the width of the 1,024; what lies below counts in the first one."""
TAIL_SPAN = 88.0
"""Width of the bins above the fine ones. The last bin also holds values that are infinite in float32."""
_HEADER = struct.Struct("<II")  # views, cells that are not zero


@dataclass(frozen=True)
class ConfidenceCounts:
    """Valid pixels of one image by confidence and correctness, in V views.

    Attributes:
        bins: (V, 2, 15) int64, right and wrong pixels in equal bins of the confidence.
        log_odds: (V, 2, 1200) int64, right and wrong pixels in bins of the log-odds, the least confident first.
        confidence: (V, 15) sum of the confidences in every bin; NaN in a view that was not measured.
        scores: (V, 2) sums of -ln p_y in nats and of the Brier score (sum over classes); NaN where not measured.
        coarse: True for counts of 256 bins, whose pixels all stand in the first of their four bins.
    """

    bins: Int64Array
    log_odds: Int64Array
    confidence: FloatArray
    scores: FloatArray
    coarse: bool = field(default=False, kw_only=True)

    @property
    def measured(self) -> npt.NDArray[np.bool_]:
        """(V,) whether a view was measured."""
        return ~np.isnan(self.confidence[:, 0])

    @classmethod
    def empty(cls, views: int, fill: float) -> ConfidenceCounts:
        """No pixel in any bin; sums are `fill`: 0 where there was nothing to count, NaN where nothing was measured."""
        return cls(
            np.zeros((views, 2, CONFIDENCE_BINS), np.int64),
            np.zeros((views, 2, LOG_ODDS_BINS), np.int64),
            np.full((views, CONFIDENCE_BINS), fill),
            np.full((views, 2), fill),
        )

    @classmethod
    def stack(cls, parts: Sequence[ConfidenceCounts]) -> ConfidenceCounts:
        """The views of several counts of one image, one after the other."""
        names = ("bins", "log_odds", "confidence", "scores")
        columns = (np.concatenate([getattr(each, name) for each in parts]) for name in names)
        return cls(*columns, coarse=any(each.coarse for each in parts))

    def to_bytes(self) -> bytes:
        """The cells that are not zero, then the sums, exactly."""
        views = len(self.bins)
        flat = np.concatenate([self.bins.reshape(views, -1), self.log_odds.reshape(views, -1)], axis=1).reshape(-1)
        cells = np.flatnonzero(flat)
        counts = flat[cells].astype("<u4")  # an image has fewer than 2^32 pixels
        taken_apart = np.ascontiguousarray(counts.view(np.uint8).reshape(-1, 4).T)  # zlib shortens what is alike
        sums = self.confidence[self.bins.any(axis=1)]  # of an empty bin it is 0, or NaN as those of the scores
        return b"".join(
            [
                _HEADER.pack(views, len(cells)),
                np.diff(cells, prepend=0).astype("<u4").tobytes(),
                taken_apart.tobytes(),
                np.ascontiguousarray(self.scores, "<f8").tobytes(),
                np.ascontiguousarray(sums, "<f8").tobytes(),
            ]
        )

    @classmethod
    def from_bytes(cls, data: bytes, *, coarse: bool = False) -> ConfidenceCounts:
        """The counts that `to_bytes` wrote, or an older version with 256 bins of the log-odds (coarse)."""
        odds_bins, steps = (COARSE_BINS, np.dtype("<u2")) if coarse else (LOG_ODDS_BINS, np.dtype("<u4"))
        views, cells = _HEADER.unpack_from(data)
        at = _HEADER.size
        index = np.cumsum(np.frombuffer(data, steps, cells, at), dtype=np.int64)
        at += steps.itemsize * cells
        taken_apart = np.frombuffer(data, np.uint8, 4 * cells, at).reshape(4, cells)
        at += 4 * cells
        width = 2 * (CONFIDENCE_BINS + odds_bins)
        flat = np.zeros(views * width, np.int64)
        flat[index] = np.ascontiguousarray(taken_apart.T).view("<u4")[:, 0] if cells else 0
        parts = flat.reshape(views, width)
        bins = parts[:, : 2 * CONFIDENCE_BINS].reshape(views, 2, CONFIDENCE_BINS)
        log_odds = np.zeros((views, 2, LOG_ODDS_BINS), np.int64)
        log_odds[..., _places(coarse)] = parts[:, 2 * CONFIDENCE_BINS :].reshape(views, 2, odds_bins)
        scores = np.frombuffer(data, "<f8", 2 * views, at).reshape(views, 2).astype(np.float64)
        at += 16 * views
        confidence = np.where(np.isnan(scores[:, :1]), np.nan, np.zeros((views, CONFIDENCE_BINS)))
        confidence[bins.any(axis=1)] = np.frombuffer(data, "<f8", -1, at)
        return cls(bins, log_odds, confidence, scores, coarse=coarse)


def count_confidence(
    prediction: npt.NDArray[np.integer],
    labels: npt.NDArray[np.integer],
    confidence: npt.NDArray[np.floating],
    log_odds: npt.NDArray[np.floating],
    scores: tuple[npt.NDArray[np.floating], npt.NDArray[np.floating]],
    ignored: int,
    parts: npt.NDArray[np.uint8] | None = None,
    num_parts: int = 1,
) -> ConfidenceCounts:
    """Counts the pixels of one image.

    Args:
        prediction, labels: (H, W) class indices.
        confidence: (H, W) largest class probability.
        log_odds: (H, W) ln(c / (1 - c)), infinite where nothing but one class is possible.
        scores: (H, W) -ln p_y in nats, and the Brier score.
        ignored: the label that is left out.
        parts: (H, W) number of the part of the image a pixel lies in; None when there is one part.
        num_parts: P.
    """
    from gauntlet.metrics.segmentation.kernels import count_confidences  # numba is loaded at the first count

    counts = ConfidenceCounts.empty(num_parts, 0.0)
    nll, brier = scores
    count_confidences(
        _flat(prediction),
        _flat(labels),
        _flat(confidence),
        _flat(log_odds),
        _flat(nll),
        _flat(brier),
        None if parts is None else _flat(parts),
        ignored,
        LOG_ODDS_LOW,
        FINE_BINS / LOG_ODDS_SPAN,
        FINE_BINS,
        TAIL_BINS / TAIL_SPAN,
        counts.bins,
        counts.log_odds,
        counts.confidence,
        counts.scores,
    )
    return counts


def _places(coarse: bool) -> slice:
    """Positions of the bins that stored counts use: those of the older 256 bins, or all bins."""
    return slice(0, FINE_BINS, FINE_BINS // COARSE_BINS) if coarse else slice(None)


def _flat(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(values).reshape(-1)
