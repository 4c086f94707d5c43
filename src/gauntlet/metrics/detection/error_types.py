"""What a detector does wrong: TIDE's types of errors, and what became of every object (docs/specs/beyond.md, 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import BoolArray, FloatArray, divide, nan_mean
from gauntlet.metrics.detection.figures import IOU, SCORE
from gauntlet.metrics.detection.overlap import box_iou, ignored_objects
from gauntlet.metrics.detection.table import IntArray, ObjectTable
from gauntlet.metrics.intervals import Estimate, mean_of_images, mean_of_ratios
from gauntlet.samples import Boxes

TYPES = ("Cls", "Loc", "Both", "Dupe", "Bkg", "Miss")
"""Another class; badly placed; both; on an object that is taken; on nothing; an object that nothing points at."""
SPECIAL = ("FP", "FN")
"""All wrong detections, and all objects without a right one."""
BACKGROUND_IOU = 0.1
MOST_DETECTIONS = 100
_POINTS = np.arange(101) / 100  # quotients, as recalls are: 7 / 100 is not 7 * 0.01
_CLS, _LOC = 1, 2


@dataclass(frozen=True)
class ErrorTypes:
    """TIDE's analysis of a dataset.

    Attributes:
        average_precision: mAP at the IoU threshold, a fraction.
        counts: errors of every type of `TYPES`.
        gains: by how much mAP rises when the errors of one type alone are set right, of `TYPES` and of `SPECIAL`;
            fractions that do not add up to what is missing.
        per_class: (K,) AP of every class; NaN for a class that does not enter the mean.
    """

    average_precision: float
    counts: Mapping[str, int]
    gains: Mapping[str, float]
    per_class: FloatArray


def error_types(
    truths: Sequence[Boxes],
    detections: Sequence[Boxes],
    num_classes: int,
    *,
    iou: float = IOU,
    background_iou: float = BACKGROUND_IOU,
    classes: Literal["truth", "seen"] = "truth",
) -> ErrorTypes:
    """TIDE (Bolya et al. 2020) over N images; crowds, difficult objects and the detections in them are no errors.

    Args:
        truths, detections: of every image, the detections with scores; the best 100 of an image count.
        num_classes: K.
        iou: least overlap of a right detection.
        background_iou: overlap up to which a detection lies on nothing.
        classes: mAP is the mean over classes with an object (COCO), or over those with an object or a detection
            ("seen", as tidecv has it).
    """
    if classes not in ("truth", "seen"):
        raise GauntletError(f"classes must be 'truth' or 'seen', not '{classes}'.")
    table = ObjectTable.of(truths, detections, num_classes, by_class=False)
    from gauntlet.metrics.detection.kernels import type_groups  # numba is loaded at the first count

    types, target = type_groups(
        *(table.starts, table.first, table.last, table.box, table.kind),
        *(table.object_box, table.object_class, table.ignored),
        *(iou, background_iou, MOST_DETECTIONS),
    )
    return _Fixing(table, types, target, classes).outcome()


class _Fixing:
    """Sets errors of one type right and computes mAP again."""

    def __init__(self, table: ObjectTable, types: npt.NDArray[np.int8], target: IntArray, classes: str) -> None:
        kept = types >= 0
        self.kind, self.score, self.types = table.kind[kept], table.score[kept], types[kept]
        self.target = target[kept]
        self.object_class, self.num_classes = table.object_class, table.num_classes
        used = np.zeros(len(table.object_class), bool)
        used[self.target[self.types == 0]] = True
        self.unused = ~used & ~table.ignored
        covering = np.isin(self.types, (_CLS, _LOC)) & np.append(self.unused, False)[self.target]
        # In score order inside an image: the first detection that covers an object is the best one.
        covered, first = np.unique(np.where(covering, self.target, -1), return_index=True)
        self.fixes = np.zeros(len(self.kind), bool)
        self.fixes[first[covered >= 0]] = True
        self.missed = self.unused.copy()
        self.missed[covered[covered >= 0]] = False
        self.objects = self._per_class(~table.ignored)
        seen = np.bincount(self.kind, minlength=self.num_classes) > 0
        self.entering = (self.objects > 0) | (seen if classes == "seen" else False)

    def _per_class(self, chosen: BoolArray) -> FloatArray:
        return np.bincount(self.object_class[chosen], minlength=self.num_classes).astype(np.float64)

    def outcome(self) -> ErrorTypes:
        right = self.types == 0
        per_class = self._precisions(self.kind, self.score, right, self.objects)
        base = float(nan_mean(per_class))
        counts = {name: int((self.types == index).sum()) for index, name in enumerate(TYPES, start=1)}
        counts["Miss"] = int(self.missed.sum())
        gains = {name: max(0.0, self._fixed(name) - base) if not np.isnan(base) else base for name in TYPES}
        gains["FP"] = self._mean(self.kind, right.astype(np.float64), right, self.objects) - base
        without = self.objects - self._per_class(self.unused)
        gains["FN"] = self._mean(self.kind, self.score, right, without) - base
        return ErrorTypes(base, counts, gains, per_class)

    def _fixed(self, name: str) -> float:
        """The mAP after the errors of one type are set right."""
        if name == "Miss":
            objects = self.objects - self._per_class(self.missed)
            return self._mean(self.kind, self.score, self.types == 0, objects)
        wrong = self.types == 1 + TYPES.index(name)
        becomes_right = wrong & self.fixes
        kept = ~wrong | becomes_right
        true_class = np.append(self.object_class, -1)[self.target]
        kind = np.where(becomes_right, true_class, self.kind)
        return self._mean(kind[kept], self.score[kept], ((self.types == 0) | becomes_right)[kept], self.objects)

    def _mean(self, kind: IntArray, score: FloatArray, right: BoolArray, objects: FloatArray) -> float:
        """The mAP over the classes that enter; 1 where no object and no detection of them is left."""
        precisions = self._precisions(kind, score, right, objects)
        if np.isnan(precisions).all():
            return 1.0 if self.entering.any() else float("nan")
        return float(nan_mean(precisions))

    def _precisions(self, kind: IntArray, score: FloatArray, right: BoolArray, objects: FloatArray) -> FloatArray:
        """(K,) AP of every class that enters and has an object or a detection left."""
        order = np.lexsort((-score, kind))
        bounds = np.searchsorted(kind[order], np.arange(self.num_classes + 1))
        values = np.full(self.num_classes, np.nan)
        for index in np.flatnonzero(self.entering):
            of_class = right[order[bounds[index] : bounds[index + 1]]]
            if objects[index] or len(of_class):
                values[index] = _average_precision(of_class, objects[index])
        return values


def _average_precision(right: BoolArray, objects: float) -> float:
    """Mean over 101 recalls of the best precision at that recall or more; `right` in score order."""
    if objects == 0 or not len(right):
        return 0.0
    hits = np.cumsum(right)
    envelope = np.maximum.accumulate((hits / np.arange(1, len(right) + 1))[::-1])[::-1]
    places = np.searchsorted(hits / objects, _POINTS, side="left")
    return float(np.append(envelope, 0.0)[places].mean())


@dataclass(frozen=True)
class Fates:
    """What became of the objects and the detections of N images; every one is counted once.

    Attributes:
        objects, found, misnamed, disappeared: (N,) objects; the last three add up to the first.
        detections, hallucinated, repeated: (N,) detections above the score; on no object, and on one that is taken.
        states: for every image (n,) the state of its objects in their order: 0 found, 1 misnamed, 2 disappeared, -1
            for one that counts for nothing (crowd, difficult).
    """

    objects: FloatArray
    found: FloatArray
    misnamed: FloatArray
    disappeared: FloatArray
    detections: FloatArray
    hallucinated: FloatArray
    repeated: FloatArray
    states: Sequence[npt.NDArray[np.int8]]

    def figures(self) -> dict[str, float]:
        """Shares of objects and of detections, and detections per image, pooled; NaN without any."""
        return {name: each.value for name, each in self.estimates().items()}

    def estimates(self) -> dict[str, Estimate]:
        """The figures with what their intervals come from."""
        of_objects = {name: (getattr(self, name), self.objects) for name in ("found", "misnamed", "disappeared")}
        of_detections = {name: (getattr(self, name), self.detections) for name in ("hallucinated", "repeated")}
        shares = {**of_objects, **of_detections}
        made = {name: mean_of_ratios(*(part[:, None] for part in parts)) for name, parts in shares.items()}
        for name in of_detections:
            per_image = mean_of_images(np.asarray(getattr(self, name), np.float64), limits=(0.0, np.inf))
            made[f"{name}_per_image"] = per_image
        return made


def object_fates(
    truths: Sequence[Boxes], detections: Sequence[Boxes], *, iou: float = IOU, score: float = SCORE
) -> Fates:
    """Follows the objects of N images: each is found, misnamed or has disappeared.

    Detections of at least the score take, in score order, the object of their class that they overlap most; those left
    over take objects of other classes in the same way. What then overlaps no object is hallucinated, the rest repeats.
    Of equal scores the one that overlaps an object of its class most goes first, whatever order they are given in.

    Args:
        truths, detections: of every image.
        iou: least overlap.
        score: least score of a detection that counts.
    """
    confident = [each if each.scores is None else each.select(each.scores >= score) for each in detections]
    ordered = [_by_content(truth, found) for truth, found in zip(truths, confident, strict=True)]
    table = ObjectTable.of(truths, ordered, by_class=False)
    from gauntlet.metrics.detection.kernels import fate_groups

    states, fates = fate_groups(
        *(table.starts, table.first, table.last, table.box, table.kind),
        *(table.object_box, table.object_class, table.ignored, iou),
    )
    states = np.where(table.ignored, -1, states).astype(np.int8)
    found, misnamed, disappeared = (table.per_image(table.object_image[states == state]) for state in range(3))
    hallucinated, repeated = (table.per_image(table.image[fates == fate]) for fate in (1, 2))
    return Fates(
        objects=found + misnamed + disappeared,
        found=found,
        misnamed=misnamed,
        disappeared=disappeared,
        detections=table.per_image(table.image[fates >= 0]),
        hallucinated=hallucinated,
        repeated=repeated,
        states=_in_order(truths, states),
    )


def _by_content(truth: Boxes, found: Boxes) -> Boxes:
    """Detections of one image by score; equal ones by their largest overlap with an object of their class, by box."""
    if found.scores is None or len(np.unique(found.scores)) == len(found):
        return found
    same = found.classes[:, None] == truth.classes[~ignored_objects(truth)]
    overlaps = np.where(same, box_iou(found.xyxy, truth.xyxy[~ignored_objects(truth)]), 0.0)
    nearest = overlaps.max(axis=1, initial=0.0)
    return found.select(np.lexsort((found.classes, *found.xyxy.T, -nearest, -found.scores)))


def _in_order(truths: Sequence[Boxes], states: npt.NDArray[np.int8]) -> list[npt.NDArray[np.int8]]:
    """States of the objects of every image, in the order of the image; the table has the ignored ones last."""
    result, at = [], 0
    for truth in truths:
        ordered = np.empty(len(truth), np.int8)
        ordered[np.argsort(ignored_objects(truth), kind="stable")] = states[at : at + len(truth)]
        result.append(ordered)
        at += len(truth)
    return result


def newly_disappeared(clean: Fates, attacked: Fates) -> float:
    """The share of the objects found on clean images that have disappeared under a threat; NaN where none was found.

    Args:
        clean, attacked: of the same images and objects.
    """
    pairs = list(zip(clean.states, attacked.states, strict=True))
    if any(len(one) != len(other) for one, other in pairs):
        raise GauntletError("objects can only be followed between evaluations of the same images.")
    found = sum(int((one == 0).sum()) for one, _ in pairs)
    lost = sum(int(((one == 0) & (other == 2)).sum()) for one, other in pairs)
    return float(divide(lost, found))
