"""Independent references of detection figures: pycocotools, and VOC's rules in plain loops."""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gauntlet.samples import Boxes


def pycocotools_evaluation(truths: Sequence[Boxes], detections: Sequence[Boxes], classes: int) -> Any:
    """pycocotools, given the same float32 numbers; difficult objects are ignored by an area outside every range."""
    coco_module = pytest.importorskip("pycocotools.coco")
    eval_module = pytest.importorskip("pycocotools.cocoeval")

    def rows(every: Sequence[Boxes], of_truth: bool) -> list[dict[str, Any]]:
        reported: list[dict[str, Any]] = []
        for image, each in enumerate(every, start=1):
            for index in range(len(each)):
                x0, y0, x1, y1 = (float(value) for value in each.xyxy[index])
                row: dict[str, Any] = {
                    "image_id": image,
                    "category_id": int(each.classes[index]) + 1,
                    "id": len(reported) + 1,
                }
                row |= {"bbox": [x0, y0, x1 - x0, y1 - y0], "iscrowd": 0, "area": (x1 - x0) * (y1 - y0)}
                if of_truth:
                    if each.area is not None:
                        row["area"] = float(each.area[index])
                    if each.difficult is not None and each.difficult[index]:
                        row["area"] = -1.0
                    row["iscrowd"] = int(each.crowd is not None and each.crowd[index])
                else:
                    assert each.scores is not None
                    row["score"] = float(each.scores[index])
                reported.append(row)
        return reported

    def coco(annotations: list[dict[str, Any]]) -> Any:
        made = coco_module.COCO()
        made.dataset = {
            "images": [{"id": index + 1} for index in range(len(truths))],
            "categories": [{"id": index + 1} for index in range(classes)],
            "annotations": annotations,
        }
        made.createIndex()
        return made

    with contextlib.redirect_stdout(io.StringIO()):
        evaluation = eval_module.COCOeval(coco(rows(truths, True)), coco(rows(detections, False)), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


def voc_rule(
    truths: Sequence[Boxes],
    detections: Sequence[Boxes],
    kind: int,
    threshold: float,
    eleven: bool,
    extra: float = 1.0,
) -> float:
    """AP of a class in plain loops, after mmdet's tpfp_default and average_precision; sides are longer by `extra`."""
    rows, total = [], 0
    for truth, reported in zip(truths, detections, strict=True):
        flags = truth.difficult if truth.difficult is not None else np.zeros(len(truth), bool)
        objects = [(box, flag) for box, c, flag in zip(truth.xyxy, truth.classes, flags, strict=True) if c == kind]
        objects.sort(key=lambda each: bool(each[1]))
        total += sum(not flag for _, flag in objects)
        taken: set[int] = set()
        assert reported.scores is not None
        mine = [
            (score, box)
            for score, box, c in zip(reported.scores, reported.xyxy, reported.classes, strict=True)
            if c == kind
        ]
        for score, box in sorted(mine, key=lambda each: -each[0]):
            overlaps = [_iou(box, other, extra) for other, _ in objects]
            best = int(np.argmax(overlaps)) if overlaps else -1
            if best < 0 or overlaps[best] < threshold:
                rows.append((score, 0))
            elif not objects[best][1]:
                rows.append((score, 0 if best in taken else 1))
                taken.add(best)
    if total == 0:
        return math.nan
    rows.sort(key=lambda each: -each[0])
    hits = np.cumsum([hit for _, hit in rows])
    recall, precision = hits / total, hits / np.arange(1, len(rows) + 1)
    if eleven:
        # mmdet compares with 0.1 added up, which misses a recall of exactly 0.3, 0.6 and 0.7; we do not.
        return sum(max(precision[10 * hits >= tenth * total], default=0) for tenth in range(11)) / 11
    area, before = 0.0, 0.0
    for index, value in enumerate(recall):
        area += (value - before) * max(precision[index:])
        before = value
    return float(area)


def _iou(first: np.ndarray, second: np.ndarray, extra: float) -> float:
    a, b = first.astype(float), second.astype(float)
    width = min(a[2], b[2]) - max(a[0], b[0]) + extra
    height = min(a[3], b[3]) - max(a[1], b[1]) + extra
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box[2] - box[0] + extra) * (box[3] - box[1] + extra) for box in (a, b)]
    return float(width * height / (sum(areas) - width * height))
