"""Per-image counts of an evaluation, read once and kept as a few arrays."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from operator import add
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from gauntlet.analysis.better import Figures, of_counts, of_objects
from gauntlet.errors import GauntletError
from gauntlet.metrics import DetectionMetric, SegmentationMetric, ViewKind, Views
from gauntlet.metrics.arithmetic import FloatArray
from gauntlet.metrics.detection.estimates import average_precision
from gauntlet.metrics.detection.metric import Pair
from gauntlet.metrics.intervals import Estimate
from gauntlet.metrics.segmentation import calibration, estimates, worst_case
from gauntlet.metrics.segmentation.calibration import PooledConfidence
from gauntlet.metrics.segmentation.counts import CountTable, ImageCounts
from gauntlet.metrics.segmentation.figures import image_accuracy, image_iou
from gauntlet.results import Store
from gauntlet.results.record import ImageRow, read_counts
from gauntlet.results.store import Started
from gauntlet.samples import Boxes


@dataclass(frozen=True)
class Images(ABC):
    """The images of one evaluation; one class per task.

    Attributes:
        figure: name of what is told of every image.
        mean: name of its mean over images.
        dataset: name of the dataset figure that stands beside the mean.
        permutations: of a test of the dataset figure that is thorough, and of one that a report makes in passing.
        ids: N image ids, in the order of the dataset.
        details: what the threat reported about every image.
    """

    figure: ClassVar[str]
    mean: ClassVar[str]
    dataset: ClassVar[str]
    permutations: ClassVar[tuple[int, int]] = (2000, 2000)
    ids: Sequence[str]
    details: Sequence[Mapping[str, Any]]

    @property
    @abstractmethod
    def values(self) -> FloatArray:
        """(N,) the figure of every image, NaN where it is undefined."""

    @property
    @abstractmethod
    def right(self) -> FloatArray:
        """(N,) the share of every image that is right: by it a rerun is checked, and an attack succeeds."""

    @property
    @abstractmethod
    def estimate(self) -> Estimate:
        """The dataset figure and how it hangs on each image: what intervals, differences and ratios come from."""

    @classmethod
    @abstractmethod
    def worst_figures(cls, first: Sequence[Any], second: Sequence[Any]) -> Figures:
        """The worst dataset figures of two models over some threats, to be tested over their images."""

    @abstractmethod
    def _same_truth(self, other: Any) -> bool:
        """Whether the ground truth is the same."""

    def same_images(self, other: Images) -> bool:
        """Whether two or more images were counted, the same ones with the same truth, so that pairs can be tested."""
        return len(self.ids) > 1 and list(self.ids) == list(other.ids) and self._same_truth(other)

    def frame(self) -> pd.DataFrame:
        """image_id, view ("all"), the figure and `right` of every image, with what the threat reported."""
        figures = {"image_id": list(self.ids), "view": "all", self.figure: self.values, "right": self.right}
        return pd.DataFrame(figures).join(pd.DataFrame(list(self.details)))

    def detail(self, name: str) -> FloatArray:
        """(N,) numbers that the threat reported under a name, NaN where it did not."""
        values = [each.get(name) for each in self.details]
        return np.array([np.nan if value is None else value for value in values], np.float64)


@dataclass(frozen=True)
class LabelImages(Images):
    """Label maps: the mIoU of every image.

    Attributes:
        views: the views of the counts.
        tables: one table of N images per view.
        confidence: (N, V, 2447) histograms of confidence and correctness (`calibration.flat_row`), NaN where an image
            has none; None where no image has any.
        class_names: K names.
    """

    figure, mean, dataset = "mIoU", "NmIoU", "CmIoU"
    views: Views
    tables: Sequence[CountTable]
    confidence: FloatArray | None = None
    class_names: Sequence[str] = ()

    @cached_property
    def reliability(self) -> PooledConfidence | None:
        """The histograms behind the headline figures: the whole image, of a battery the attack that left the fewest
        pixels right, of a random model all trials; None where there are none, or not of every image."""
        if self.confidence is None:
            return None
        if self.views.kind is ViewKind.CANDIDATES:
            choice = worst_case.worst_by_accuracy(self.tables).choice
            rows = self.confidence[np.arange(len(choice)), choice]
        else:
            rows = self.confidence[:, : 2 if self.views.kind is ViewKind.REGION else None].sum(axis=1)
        return None if np.isnan(rows).any() else calibration.pool(rows)

    @cached_property
    def headline(self) -> CountTable:
        """The counts behind the headline mIoU: the whole image, of a battery the worst attack of every image."""
        if self.views.kind is ViewKind.WHOLE:
            return self.tables[0]
        if self.views.kind is ViewKind.REGION:
            inside, outside = self.tables[:2]
            return inside + outside
        return worst_case.chosen(self.tables, worst_case.worst_by_image_iou(self.tables).choice)

    @cached_property
    def values(self) -> FloatArray:
        return image_iou(self.headline)

    @cached_property
    def right(self) -> FloatArray:
        return image_accuracy(self.headline)

    @cached_property
    def estimate(self) -> Estimate:
        if self.views.kind is ViewKind.TRIALS:
            return reduce(add, map(estimates.miou, self.tables)) * (1 / len(self.tables))
        return estimates.miou(self.headline)

    def _same_truth(self, other: LabelImages) -> bool:
        return np.array_equal(self.headline.ground_truth, other.headline.ground_truth)

    @classmethod
    def worst_figures(cls, first: Sequence[LabelImages], second: Sequence[LabelImages]) -> Figures:
        return of_counts([each.headline for each in first], [each.headline for each in second])


@dataclass(frozen=True)
class BoxImages(Images):
    """Boxes: the F1 of every image.

    The boxes themselves are read again when two models are compared: a report over thousands of images and many
    evaluations would not hold them.

    Attributes:
        f1: (N,) of every image.
        truth: digest of the objects.
        num_classes: K.
        pairs: reads the objects and detections behind the headline figures.
    """

    figure, mean, dataset = "F1", "F1_images", "mAP"
    permutations = (2000, 200)  # each is a mAP over all images
    f1: FloatArray
    truth: str
    num_classes: int
    pairs: Callable[[], list[Pair]]

    @property
    def values(self) -> FloatArray:
        return self.f1

    @property
    def right(self) -> FloatArray:
        return self.f1

    @cached_property
    def estimate(self) -> Estimate:
        pairs = self.pairs()
        truths, detections = [truth for truth, _ in pairs], [found for _, found in pairs]
        return average_precision(truths, detections, self.num_classes)["mAP"]

    def _same_truth(self, other: BoxImages) -> bool:
        return self.truth == other.truth

    @classmethod
    def worst_figures(cls, first: Sequence[BoxImages], second: Sequence[BoxImages]) -> Figures:
        pairs = [[each.pairs() for each in side] for side in (first, second)]
        return of_objects(pairs[0], pairs[1], first[0].num_classes)


def read_images(store: Store, key: str) -> Images | None:
    """The images of a finished evaluation; None where the store has figures but no counts of labels or boxes."""
    started = store.started(key)
    if started is None:
        raise GauntletError(f"the store {store.address} has no evaluation with the key '{key}'.")
    rows = store.image_rows(started)
    first = next(rows, None)
    if first is None or started.views is None:
        return None
    metric = store.metric(key)
    if isinstance(metric, DetectionMetric):
        return _read_boxes(chain([first], rows), store, started, started.views, metric)
    if isinstance(metric, SegmentationMetric):
        return _read_labels(chain([first], rows), started.views, metric.class_names)
    return None


def _read_labels(rows: Iterable[ImageRow], views: Views, class_names: Sequence[str]) -> LabelImages:
    ids: list[str] = []
    counts: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    details: list[Any] = []
    confidence, coarse = [], False
    for row in rows:
        decoded = ImageCounts.from_bytes(row.counts)
        confusion = decoded.confusion  # (V, K, K)
        confidence.append([calibration.flat_row(decoded.confidence, view) for view in range(len(views))])
        coarse |= decoded.confidence is not None and decoded.confidence.coarse
        diagonal = confusion.diagonal(axis1=1, axis2=2)
        counts.append(np.stack([diagonal, confusion.sum(axis=2), confusion.sum(axis=1)], axis=1))  # (V, 3, K)
        ids.append(row.image_id)
        details.append(row.details)
    stacked = np.stack(counts)  # (N, V, 3, K)
    tables = [CountTable(*(stacked[:, view, part] for part in range(3))) for view in range(len(views))]
    histograms = np.array(confidence)  # (N, V, 2447)
    if coarse:
        histograms = calibration.coarsened(histograms)
    known = None if np.isnan(histograms).all() else histograms
    return LabelImages(ids, details, views, tables, known, class_names)


def _read_boxes(
    rows: Iterable[ImageRow], store: Store, started: Started, views: Views, metric: DetectionMetric
) -> BoxImages:
    def pairs() -> list[Pair]:
        return metric.headline_pairs((read_counts(metric, row) for row in store.image_rows(started)), views)

    ids: list[str] = []
    details: list[Any] = []
    counts = []
    for row in rows:
        ids.append(row.image_id)
        details.append(row.details)
        counts.append(read_counts(metric, row))
    headline = metric.headline_pairs(counts, views)
    truth = hashlib.sha256(b"".join(_bytes_of(objects) for objects, _ in headline)).hexdigest()
    return BoxImages(ids, details, metric.image_f1(headline), truth, len(metric.class_names), pairs)


def _bytes_of(truth: Boxes) -> bytes:
    return len(truth).to_bytes(4, "little") + truth.xyxy.tobytes() + truth.classes.tobytes()
