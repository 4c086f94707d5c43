"""Detection figures: COCO's over a dataset, F1 of one image (docs/specs/metrics.md, 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gauntlet.metrics.arithmetic import FloatArray, divide
from gauntlet.metrics.detection.coco_figures import coco_curves
from gauntlet.metrics.detection.table import ObjectTable
from gauntlet.samples import Boxes

IOU = 0.5
SCORE = 0.5
"""The score from which a detection counts, where a figure needs a yes or no (F1, boxes per image)."""


def figures(truths: Sequence[Boxes], detections: Sequence[Boxes], num_classes: int) -> dict[str, float]:
    """COCO's twelve figures of N images: fractions in [0, 1], NaN where undefined.

    The keys are mAP, mAP50, mAP75, mAP_small, mAP_medium, mAP_large, AR_1, AR_10, AR_100, AR_small, AR_medium and
    AR_large; computed by faster-coco-eval.

    Args:
        truths: objects of every image.
        detections: detections of every image, with scores.
        num_classes: K.
    """
    return coco_curves(truths, detections, num_classes).figures()


@dataclass(frozen=True)
class ImageFigures:
    """Figures of the detections above a score in each of N images.

    Attributes:
        f1: (N,) as `image_f1`.
        boxes: (N,) detections above the score.
        matches: (N,) of them, those on an object (IoU at least 0.5) whatever its class.
        mislabelled: (N,) of the matches, those with another class.
    """

    f1: FloatArray
    boxes: FloatArray
    matches: FloatArray
    mislabelled: FloatArray


def image_figures(
    truths: Sequence[Boxes], detections: Sequence[Boxes], *, iou: float = IOU, score: float = SCORE
) -> ImageFigures:
    """F1, number of boxes and mislabelled boxes of N images at once.

    Args:
        truths, detections: of every image.
        iou: least overlap of a match.
        score: least score of a detection that counts.
    """
    confident = _confident(detections, score)
    # Detections take objects whatever the class.
    table = ObjectTable.of(truths, confident, by_class=False)
    matched = table.match([iou])[0]
    on_object = table.verdicts(matched[None])[0] == 1
    wrong = on_object & (np.append(table.object_class, -1)[matched] != table.kind)
    return ImageFigures(
        _f1(truths, confident, iou),
        table.per_image(table.image),
        table.per_image(table.image[on_object]),
        table.per_image(table.image[wrong]),
    )


def image_f1(truth: Boxes, detected: Boxes, *, iou: float = IOU, score: float = SCORE) -> float:
    """F1 of one image, in [0, 1]: the figure by which a battery chooses the worst attack per image.

    Detections with at least the score are matched one to one with the objects of their class, in score order, at least
    at the IoU; crowds and difficult objects, and the detections that take one, count for nothing. 1 when there is no
    object and no detection.
    """
    return float(_f1([truth], _confident([detected], score), iou)[0])


def _f1(truths: Sequence[Boxes], detections: Sequence[Boxes], iou: float) -> FloatArray:
    """(N,) 2 TP / (2 TP + FP + misses) of every image."""
    table = ObjectTable.of(truths, detections)
    verdict = table.verdicts(table.match([iou]))[0]
    hits, false = table.per_image(table.image[verdict == 1]), table.per_image(table.image[verdict == 0])
    total = hits + false + table.per_image(table.object_image[~table.ignored])  # TP + misses = objects
    return np.where(total > 0, divide(2 * hits, total), 1.0)


def _confident(detections: Sequence[Boxes], score: float) -> list[Boxes]:
    """The detections with at least this score; all of them where there are no scores."""
    return [each if each.scores is None else each.select(each.scores >= score) for each in detections]
