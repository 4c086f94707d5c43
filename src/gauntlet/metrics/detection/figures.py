"""Detection figures: COCO's over a dataset, F1 of one image (docs/specs/metrics.md, 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gauntlet.metrics.detection.coco import coco_curves
from gauntlet.metrics.detection.overlap import ignored_objects, match
from gauntlet.samples import Boxes

IOU = 0.5
SCORE = 0.5
"""A detection counts as said from this score on, where a figure needs a yes or no (F1, boxes per image)."""


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
class ImageMatches:
    """What the detections of one image come to, above a score: found, made up, missed."""

    true_positives: int
    false_positives: int
    misses: int

    @property
    def f1(self) -> float:
        """2 TP / (2 TP + FP + misses); 1 when nothing is there and nothing was found."""
        total = 2 * self.true_positives + self.false_positives + self.misses
        return 2 * self.true_positives / total if total else 1.0


def image_matches(truth: Boxes, detected: Boxes, *, iou: float = IOU, score: float = SCORE) -> ImageMatches:
    """Greedy one-to-one matching per class, in score order; crowds and difficult objects count for nothing.

    Args:
        truth: objects of one image.
        detected: its detections.
        iou: least overlap of a match.
        score: least score of a detection that counts.
    """
    said = detected if detected.scores is None else detected.select(detected.scores >= score)
    ignored = ignored_objects(truth)
    hits = wrong = 0
    for name in np.unique(said.classes):
        here = truth.classes == name
        taken = match(said.select(said.classes == name), truth.select(here), ignored[here], [iou]).matched[0]
        neither = np.append(ignored[here], False)[taken]  # took an ignored object; -1, no match, is not that
        hits += int(np.sum((taken >= 0) & ~neither))
        wrong += int(np.sum(taken < 0))
    return ImageMatches(hits, wrong, int(np.sum(~ignored)) - hits)


def image_f1(truth: Boxes, detected: Boxes, *, iou: float = IOU, score: float = SCORE) -> float:
    """F1 of one image, in [0, 1]: the figure by which a battery chooses the worst attack per image.

    Detections with at least the score are matched one to one with the objects of their class, in score order, at least
    at the IoU; crowds and difficult objects, and what is found on them, count for nothing. 1 when nothing is there and
    nothing was found.
    """
    return image_matches(truth, detected, iou=iou, score=score).f1
