"""Which objects a set of detections finds: what attacks on detectors are judged by, per image."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.detection.figures import image_f1
from gauntlet.metrics.detection.overlap import ignored_objects, match
from gauntlet.samples import Boxes

IOU = 0.5
"""How much a detection and an object must overlap."""
CONFIDENCE = 0.5
"""The score from which a detection counts for F1 and as one of the detector's own in TOG."""
ANY_SCORE = 0.05
"""The score from which a detection is looked at at all: average precision still counts what F1 no longer sees."""


def confident(detected: Boxes, score: float) -> Boxes:
    """Detections with at least this score."""
    return detected if detected.scores is None else detected.select(detected.scores >= score)


def counted(boxes: Boxes) -> Boxes:
    """The objects without crowds and difficult ones; a loss gets these too, and leaves them out in its own way."""
    return boxes.select(~ignored_objects(boxes))


def matched_detections(truth: Boxes, detected: Boxes, score: float = CONFIDENCE) -> npt.NDArray[np.int64]:
    """For every object the detection that finds it, or -1, int64 (n,): COCO's matching, class by class."""
    matched = np.full(len(truth), -1, np.int64)
    said = np.arange(len(detected)) if detected.scores is None else np.nonzero(detected.scores >= score)[0]
    ignored = ignored_objects(truth)
    for name in np.unique(truth.classes):
        objects = np.nonzero(truth.classes == name)[0]
        detections = said[detected.classes[said] == name]
        if len(detections) == 0:
            continue
        matching = match(detected.select(detections), truth.select(objects), ignored[objects], [IOU])
        taken = matching.matched[0]
        matched[objects[taken[taken >= 0]]] = detections[matching.order[taken >= 0]]
    return matched


def f1(truth: Boxes, detected: Boxes) -> float:
    """F1 of an image's detections; without objects 1 where nothing is detected, else 0."""
    return image_f1(truth, detected, iou=IOU, score=CONFIDENCE)


def recall(truth: Boxes, detected: Boxes) -> float:
    """Share of the objects that some detection of any score finds; without objects that count their F1."""
    counted = ~ignored_objects(truth)
    if not counted.any():
        return f1(truth, detected)
    return float((matched_detections(truth, detected, ANY_SCORE)[counted] >= 0).mean())
