"""COCO's figures, computed by faster-coco-eval (docs/specs/metrics.md, 10)."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import nan_mean
from gauntlet.samples import Boxes

THRESHOLDS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
AREAS = ("all", "small", "medium", "large")
MOST_DETECTIONS = (1, 10, 100)
_OUTSIDE_EVERY_RANGE = -1.0


@dataclass(frozen=True)
class CocoCurves:
    """Precision and recall as COCO's evaluation gives them, before means; NaN for a class without objects of an area.

    Attributes:
        precision: (10 IoU thresholds, K classes, 4 areas) average precision, 100 detections per image and class.
        recall: (10, K, 4, 3) largest recall, with at most 1, 10 or 100 detections per image and class.
    """

    precision: npt.NDArray[np.float64]
    recall: npt.NDArray[np.float64]

    def figures(self) -> dict[str, float]:
        """The twelve figures of COCO's table: fractions, NaN where undefined."""
        at = {threshold: index for index, threshold in enumerate(THRESHOLDS)}
        values = {
            "mAP": self.precision[:, :, 0],
            "mAP50": self.precision[at[0.5], :, 0],
            "mAP75": self.precision[at[0.75], :, 0],
        }
        values |= {f"mAP_{area}": self.precision[:, :, index] for index, area in enumerate(AREAS) if index}
        values |= {f"AR_{most}": self.recall[:, :, 0, index] for index, most in enumerate(MOST_DETECTIONS)}
        values |= {f"AR_{area}": self.recall[:, :, index, -1] for index, area in enumerate(AREAS) if index}
        return {name: float(nan_mean(value)) for name, value in values.items()}

    def per_class(self) -> dict[str, npt.NDArray[np.float64]]:
        """AP, AP50 and AP75 of every class, (K,) each."""
        whole = self.precision[:, :, 0]
        return {"AP": nan_mean(whole, axis=0), "AP50": whole[0], "AP75": whole[THRESHOLDS.index(0.75)]}


def coco_curves(truths: Sequence[Boxes], detections: Sequence[Boxes], num_classes: int) -> CocoCurves:
    """Evaluates the detections of N images against their objects.

    Crowds are treated as pycocotools does. Objects flagged as difficult are ignored: not missed, and the detection
    that takes one is not counted.

    Args:
        truths: objects of every image.
        detections: detections of every image, with scores.
        num_classes: K.
    """
    if len(truths) != len(detections):
        raise GauntletError(f"there are objects of {len(truths)} images and detections of {len(detections)}.")
    if not truths:
        shape = (len(THRESHOLDS), num_classes, len(AREAS))
        return CocoCurves(np.full(shape, np.nan), np.full((*shape, len(MOST_DETECTIONS)), np.nan))
    with _no_garbage_collection():
        return _evaluate(truths, detections, num_classes)


def _evaluate(truths: Sequence[Boxes], detections: Sequence[Boxes], num_classes: int) -> CocoCurves:
    from faster_coco_eval import COCO, COCOeval_faster  # loaded when asked: it takes a while

    shared = {
        "images": [{"id": index + 1} for index in range(len(truths))],
        "categories": [{"id": index + 1, "name": str(index)} for index in range(num_classes)],
    }
    objects = COCO({**shared, "annotations": coco_objects(truths, num_classes)})
    pixel_areas = [truth.pixel_area for truth in truths]
    detected = COCO({**shared, "annotations": coco_detections(detections, num_classes, pixel_areas)})
    evaluation = COCOeval_faster(objects, detected, "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    precision = np.asarray(evaluation.eval["precision"], np.float64)[..., -1]  # (T, R, K, A), 100 detections
    recall = np.asarray(evaluation.eval["recall"], np.float64)  # (T, K, A, M)
    undefined = precision[:, 0] < 0  # -1 at every recall where a class has no object
    average = np.where(undefined, np.nan, precision.mean(axis=1))
    return CocoCurves(average, np.where(recall < 0, np.nan, recall))


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switches Python's collector off: its search for cycles among half a million dictionaries, which have none, would
    cost more than the evaluation."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def coco_objects(truths: Sequence[Boxes], num_classes: int) -> list[dict[str, Any]]:
    """The objects of N images as COCO's annotations; images and categories are numbered from 1."""
    rows = []
    for image, truth in enumerate(truths, start=1):
        areas = truth.areas
        if truth.difficult is not None:
            # Outside every area range an object is ignored without being a crowd; pycocotools has no other way.
            areas = np.where(truth.difficult, _OUTSIDE_EVERY_RANGE, areas)
        crowd = truth.crowd.tolist() if truth.crowd is not None else [False] * len(truth)
        columns = zip(_corner_and_sides(truth), _classes(truth, num_classes), areas.tolist(), crowd, strict=True)
        rows += [
            {"image_id": image, "category_id": category, "bbox": box, "area": area, "iscrowd": int(is_crowd)}
            for box, category, area, is_crowd in columns
        ]
    return _numbered(rows)


def coco_detections(
    detections: Sequence[Boxes], num_classes: int, pixel_areas: Sequence[float]
) -> list[dict[str, Any]]:
    """The detections of N images as COCO's results; images and categories are numbered from 1.

    Args:
        detections: of every image, with scores.
        num_classes: K.
        pixel_areas: (N,) area of a pixel of every image in pixels of its annotated image.
    """
    rows = []
    for image, (detected, pixel_area) in enumerate(zip(detections, pixel_areas, strict=True), start=1):
        if detected.scores is None:
            raise GauntletError("detections need scores to be evaluated.")
        boxes, scores = _corner_and_sides(detected), detected.scores.astype(np.float64).tolist()
        rows += [
            {
                "image_id": image,
                "category_id": category,
                "bbox": box,
                "area": box[2] * box[3] * pixel_area,
                "score": score,
            }
            for box, category, score in zip(boxes, _classes(detected, num_classes), scores, strict=True)
        ]
    return _numbered(rows)


def _numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gives every row an id, from 1: COCO's tools take 0 for "not matched"."""
    for number, row in enumerate(rows, start=1):
        row["id"] = number
    return rows


def _corner_and_sides(boxes: Boxes) -> list[list[float]]:
    """[x, y, width, height] of every box."""
    corners = boxes.xyxy.astype(np.float64)
    corners[:, 2:] -= corners[:, :2]
    return list(corners.tolist())


def _classes(boxes: Boxes, num_classes: int) -> list[int]:
    """COCO's category of every box: the class index from 1."""
    if len(boxes) and not (boxes.classes.min() >= 0 and boxes.classes.max() < num_classes):
        wrong = boxes.classes[(boxes.classes < 0) | (boxes.classes >= num_classes)][0]
        raise GauntletError(f"a box has the class {wrong}; expected 0 to {num_classes - 1}.")
    return list((boxes.classes + 1).tolist())
