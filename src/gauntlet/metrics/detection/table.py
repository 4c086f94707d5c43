"""Objects and detections of many images as flat arrays, matched once: what intervals and figures of images need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import BoolArray, FloatArray
from gauntlet.metrics.detection.overlap import ignored_objects
from gauntlet.samples import Boxes

IntArray = npt.NDArray[np.int64]
_RECALLS = np.linspace(0, 1, 101)


@dataclass(frozen=True)
class ObjectTable:
    """N images. Objects are ordered by class, image and whether they count; detections by class, image and score.

    Attributes:
        images, num_classes: N and K.
        object_image, object_class, object_box, ignored, crowd: of every object.
        image, kind, box, score: of every detection.
        starts: where each group of detections (one class of one image) begins, and the end.
        first, last: the objects of the same class and image.
    """

    images: int
    num_classes: int
    object_image: IntArray
    object_class: IntArray
    object_box: FloatArray
    ignored: BoolArray
    crowd: BoolArray
    image: IntArray
    kind: IntArray
    box: FloatArray
    score: FloatArray
    starts: IntArray
    first: IntArray
    last: IntArray

    @classmethod
    def of(
        cls,
        truths: Sequence[Boxes],
        detections: Sequence[Boxes],
        num_classes: int | None = None,
        *,
        by_class: bool = True,
    ) -> ObjectTable:
        """Lays out the objects and detections of N images.

        Args:
            truths, detections: of every image.
            num_classes: K; by default just enough for the classes that occur.
            by_class: a detection can only take an object of its own class; else one of any class.
        """
        object_image = np.repeat(np.arange(len(truths)), [len(each) for each in truths])
        object_class = _joined([each.classes for each in truths], np.int64)
        ignored = _joined([ignored_objects(each) for each in truths], np.bool_)
        crowd = _joined([np.zeros(len(t), bool) if t.crowd is None else t.crowd for t in truths], np.bool_)
        image = np.repeat(np.arange(len(detections)), [len(each) for each in detections])
        kind = _joined([each.classes for each in detections], np.int64)
        ones = [np.ones(len(each), np.float32) if each.scores is None else each.scores for each in detections]
        score = _joined(ones, np.float64)
        if num_classes is None:
            num_classes = 1 + int(max(object_class.max(initial=-1), kind.max(initial=-1)))
        rows, row = object_image.copy(), image.copy()  # the group: the image, or the class and the image
        if by_class:
            rows, row = rows + object_class * len(truths), row + kind * len(truths)
        chosen = np.lexsort((ignored, rows))
        order = np.lexsort((-score, row))
        rows, row = rows[chosen], row[order]
        groups, starts = np.unique(row, return_index=True)
        return cls(
            len(truths),
            num_classes,
            object_image[chosen],
            object_class[chosen],
            _joined([each.xyxy for each in truths], np.float64, 4)[chosen],
            ignored[chosen],
            crowd[chosen],
            image[order],
            kind[order],
            _joined([each.xyxy for each in detections], np.float64, 4)[order],
            score[order],
            np.append(starts, len(row)).astype(np.int64),
            np.searchsorted(rows, groups, "left").astype(np.int64),
            np.searchsorted(rows, groups, "right").astype(np.int64),
        )

    def match(self, thresholds: Sequence[float], most: int = -1) -> IntArray:
        """(T, D) the object that every detection takes by COCO's rule; -1 for none, -2 beyond the `most` best."""
        from gauntlet.metrics.detection.kernels import match_groups  # numba is loaded at the first match

        levels = np.asarray(thresholds, np.float64)
        taken: IntArray = match_groups(
            self.starts, self.first, self.last, self.box, self.object_box, self.ignored, self.crowd, levels, most
        )
        return taken

    def judge(self, thresholds: Sequence[float], extra: float = 0.0) -> npt.NDArray[np.int8]:
        """(T, D) VOC's verdict on every detection: 1 found, 0 false, -1 neither; sides are longer by `extra`."""
        from gauntlet.metrics.detection.kernels import judge_groups

        levels = np.asarray(thresholds, np.float64)
        verdict: npt.NDArray[np.int8] = judge_groups(
            self.starts, self.first, self.last, self.box, self.object_box, self.ignored, levels, extra
        )
        return verdict

    def verdicts(self, matched: IntArray) -> npt.NDArray[np.int8]:
        """(T, D) 1 found, 0 false, -1 neither, from what `match` gave."""
        neither = np.append(self.ignored, [True, False])[matched]  # -2 is left out, -1 took nothing
        return np.where(neither, -1, matched >= 0).astype(np.int8)

    def per_image(self, images: IntArray) -> FloatArray:
        """(N,) how often each image is named in a list of images."""
        return np.bincount(images, minlength=self.images).astype(np.float64)

    @property
    def counted(self) -> FloatArray:
        """(N, K) objects that count."""
        cells = self.object_image[~self.ignored] * self.num_classes + self.object_class[~self.ignored]
        size = self.images * self.num_classes
        return np.bincount(cells, minlength=size).reshape(self.images, self.num_classes).astype(np.float64)


class WeightedPrecision:
    """COCO's AP of a table for any weights of its images: matching is done once, a resample only counts again.

    Args:
        table: detections and objects, by class.
        thresholds: IoU thresholds.
        most: detections per image and class that count.
    """

    def __init__(self, table: ObjectTable, thresholds: Sequence[float], most: int) -> None:
        matched = table.match(thresholds, most)
        order = np.lexsort((-table.score, table.kind))  # ties stay in the order of the images, as in pycocotools
        order = order[matched[0, order] > -2]
        verdict = table.verdicts(matched)[:, order]
        self._images = table.image[order]
        self._bounds = np.searchsorted(table.kind[order], np.arange(table.num_classes + 1)).astype(np.int64)
        levels, self._places = np.nonzero(verdict)
        self._verdict = verdict[levels, self._places]
        # Where the places of every threshold and class begin, in the flat list of all places.
        flat = levels * len(order) + self._places
        self._starts = np.searchsorted(flat, np.arange(len(verdict))[:, None] * len(order) + self._bounds)
        self._objects = table.counted

    def __call__(self, weights: FloatArray) -> FloatArray:
        """(R, T, K) AP when image n counts weights[r, n] times; NaN for a class without objects."""
        from gauntlet.metrics.detection.kernels import weighted_precision

        objects = weights @ self._objects
        average: FloatArray = weighted_precision(
            self._verdict, self._places, self._starts, self._images, self._bounds, objects, weights, _RECALLS
        )
        return average


def _joined(parts: Sequence[npt.NDArray[np.generic]], dtype: type[np.generic], width: int | None = None):  # type: ignore[no-untyped-def]
    empty = np.zeros((0,) if width is None else (0, width), dtype)
    return np.concatenate([empty, *parts]).astype(dtype)
