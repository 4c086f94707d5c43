"""How detections and objects of one image go together: overlaps, and COCO's greedy matching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import BoolArray, FloatArray
from gauntlet.samples import Boxes


def box_iou(first: npt.NDArray[np.floating], second: npt.NDArray[np.floating]) -> FloatArray:
    """(n, m) intersection over union of corners (n, 4) and (m, 4); 0 where both are empty."""
    inter, area_first, area_second = _intersection(first, second)
    return _divided(inter, area_first[:, None] + area_second - inter)


def coco_iou(detected: npt.NDArray[np.floating], truth: npt.NDArray[np.floating], crowd: BoolArray) -> FloatArray:
    """As `box_iou`, but a detection overlaps a crowd by the share of the detection that lies in it (pycocotools)."""
    inter, area_detected, area_truth = _intersection(detected, truth)
    union = area_detected[:, None] + area_truth - inter
    return _divided(inter, np.where(crowd, area_detected[:, None], union))


def _intersection(
    first: npt.NDArray[np.floating], second: npt.NDArray[np.floating]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    a, b = first.astype(np.float64), second.astype(np.float64)
    low, high = np.maximum(a[:, None, :2], b[:, :2]), np.minimum(a[:, None, 2:], b[:, 2:])
    sides = np.clip(high - low, 0, None)
    return sides[..., 0] * sides[..., 1], _area(a), _area(b)


def _area(corners: FloatArray) -> FloatArray:
    return np.asarray((corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1]))


def _divided(inter: FloatArray, union: FloatArray) -> FloatArray:
    return np.divide(inter, union, out=np.zeros_like(inter), where=inter > 0)


def ignored_objects(truth: Boxes) -> BoolArray:
    """(n,) whether an object is neither missed nor found: COCO's crowds and VOC's difficult ones."""
    ignored = np.zeros(len(truth), bool)
    for flags in (truth.crowd, truth.difficult):
        if flags is not None:
            ignored |= flags
    return ignored


@dataclass(frozen=True)
class Matching:
    """Which detection took which object.

    Attributes:
        order: (d,) positions of the detections, best score first.
        matched: (T, d) for every IoU threshold and every detection in that order the position of the object it took,
            -1 for none.
    """

    order: npt.NDArray[np.intp]
    matched: npt.NDArray[np.int64]


def match(detected: Boxes, truth: Boxes, ignored: BoolArray, thresholds: Sequence[float]) -> Matching:
    """COCO's matching inside one class: in score order, each detection takes the free object that it overlaps most.

    Objects that count are preferred to ignored ones; a crowd can be taken any number of times.

    Args:
        detected: detections of one class, with scores.
        truth: objects of that class.
        ignored: (n,) objects that count for nothing.
        thresholds: T least overlaps.
    """
    from gauntlet.metrics.detection.kernels import match_boxes  # numba is loaded at the first match

    scores = detected.scores if detected.scores is not None else np.ones(len(detected), np.float32)
    order = np.argsort(-scores, kind="stable")
    counted_first = np.argsort(ignored, kind="stable")
    crowd = truth.crowd if truth.crowd is not None else np.zeros(len(truth), bool)
    overlaps = coco_iou(detected.xyxy[order], truth.xyxy[counted_first], crowd[counted_first])
    taken = match_boxes(overlaps, ignored[counted_first], crowd[counted_first], np.asarray(thresholds, np.float64))
    positions = np.append(counted_first, -1)  # index -1, no match, stays -1
    return Matching(order, positions[taken])
