"""PASCAL VOC's average precision, by mmdet's rules (docs/specs/metrics.md, 10)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import FloatArray
from gauntlet.metrics.detection.table import ObjectTable
from gauntlet.samples import Boxes

THRESHOLDS = (0.25, 0.5, 0.75)


def voc_precision(
    truths: Sequence[Boxes],
    detections: Sequence[Boxes],
    num_classes: int,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
    eleven_points: bool = False,
    inclusive: bool = True,
) -> FloatArray:
    """(T, K) average precision of every class; NaN for a class without an object that counts.

    A detection is compared only with the object of its class that it overlaps most; a second one on the same object
    is false; one on a difficult object (or a crowd) is neither.

    Args:
        truths: objects of N images.
        detections: detections of every image, with scores.
        num_classes: K.
        thresholds: T least overlaps.
        eleven_points: VOC 2007's mean of the best precision at the recalls 0, 0.1 to 1, instead of the area below the
            precision-recall curve.
        inclusive: corners are the first and the last pixel of a box, as in VOC's and mmdet's files: sides are one
            longer than the difference. The boxes of Gauntlet's loaders end behind their last pixel, and need no
            addition.
    """
    table = ObjectTable.of(truths, detections, num_classes)
    verdicts = table.judge(thresholds, 1.0 if inclusive else 0.0)
    objects = table.counted.sum(axis=0)
    order = np.lexsort((-table.score, table.kind))
    bounds = np.searchsorted(table.kind[order], np.arange(num_classes + 1))
    values = np.full((len(thresholds), num_classes), np.nan)
    for row, verdict in enumerate(verdicts[:, order]):
        for index in np.flatnonzero(objects):
            of_class = verdict[bounds[index] : bounds[index + 1]]
            hits, false = np.cumsum(of_class == 1), np.cumsum(of_class == 0)
            precision = hits / np.maximum(hits + false, np.finfo(np.float32).eps)
            count = int(objects[index])
            values[row, index] = (
                _eleven_points(hits, count, precision) if eleven_points else _area(hits / count, precision)
            )
    return values


def _area(recall: FloatArray, precision: FloatArray) -> float:
    """The area below the envelope of the curve."""
    recall = np.concatenate([[0.0], recall, [1.0]])
    envelope = np.maximum.accumulate(np.concatenate([[0.0], precision, [0.0]])[::-1])[::-1]
    return float(np.sum(np.diff(recall) * envelope[1:]))


def _eleven_points(hits: npt.NDArray[np.int64], objects: int, precision: FloatArray) -> float:
    """The mean over the recalls 0, 0.1 to 1 of the best precision at that recall or more.

    Recalls are compared in whole numbers: 3 of 10 objects reach the recall 0.3; 0.1 added three times is more.
    """
    best = [precision[10 * hits >= tenth * objects].max(initial=0.0) for tenth in range(11)]
    return float(np.mean(best))
