"""The segmentation metric: counts from label maps, figures from counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gauntlet.class_numbers import check_background, check_void
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import BoolArray, FloatArray, corruption_error, divide, nan_mean
from gauntlet.metrics.contract import NAN, Figure, Metric, metrics
from gauntlet.metrics.intervals import Estimate
from gauntlet.metrics.segmentation import calibration, estimates, worst_case
from gauntlet.metrics.segmentation import figures as segmentation
from gauntlet.metrics.segmentation.confidence_counts import ConfidenceCounts, count_confidence
from gauntlet.metrics.segmentation.confusion import NO_LABEL, confusion
from gauntlet.metrics.segmentation.counts import SCALARS, CountTable, ImageCounts, Int64Array
from gauntlet.metrics.segmentation.object_counts import ObjectCounts, count_objects
from gauntlet.metrics.trials import mean_of_trials, trial_figures
from gauntlet.metrics.views import REGION, ViewKind, Views

ProperScores = Callable[[npt.NDArray[np.integer]], tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]]
"""From a label map (H, W) to -ln p_y in nats and to the Brier score of every pixel, (H, W) each."""


@dataclass(frozen=True)
class DensePrediction:
    """What a segmentation model said about one image.

    Attributes:
        labels: (H, W) predicted classes.
        confidence: (H, W) largest class probability, or None when it was not computed.
        entropy: (H, W) entropy of the class probabilities in nats, or None.
        log_odds: (H, W) ln(c / (1 - c)) of the confidence c, computed so that it does not saturate, or None.
        proper_scores: gives -ln p_y and the Brier score for a label map, or None; histograms of confidence and
            correctness are kept when confidence, log-odds and these are there.
    """

    labels: npt.NDArray[np.integer]
    confidence: npt.NDArray[np.floating] | None = None
    entropy: npt.NDArray[np.floating] | None = None
    log_odds: npt.NDArray[np.floating] | None = None
    proper_scores: ProperScores | None = None


@metrics.register("segmentation")
class SegmentationMetric(Metric):
    """aAcc, mAcc, IoU per class, CmIoU (= mIoU), NmIoU, foreground-only variants, regions, batteries.

    Args:
        class_names: names of the K classes.
        ignore_index: the label that counts for nothing, outside the classes; None where every pixel counts.
        background_index: the class that foreground-only figures leave out, or None for none.
        objects: whether counts keep the connected objects of the ground truth and how much of each is right.
    """

    version: ClassVar[int] = 2
    # 2: figures that rank pixels come from 1,200 bins of the log-odds instead of 256, with bounds.

    def __init__(
        self,
        class_names: Sequence[str],
        ignore_index: int | None = 255,
        background_index: int | None = None,
        objects: bool = False,
    ) -> None:
        super().__init__(class_names)
        check_void(ignore_index, len(self.class_names))
        check_background(background_index, len(self.class_names))
        self.objects = objects
        self.ignore_index = ignore_index
        self.background_index = background_index

    def update(
        self,
        prediction: DensePrediction,
        target: npt.NDArray[np.integer],
        region: BoolArray | None = None,
        importance: npt.NDArray[np.floating] | None = None,
    ) -> ImageCounts:
        """Counts of one image: one view, or the two views inside and outside when there is a region.

        Args:
            prediction: what the model said.
            target: (H, W) label map.
            region: (H, W), True inside.
            importance: (H, W) weights >= 0 for A_P.
        """
        if importance is not None and (np.any(importance < 0) or not np.all(np.isfinite(importance))):
            raise GauntletError("importance weights must be finite and not negative.")
        parts = None if region is None else np.where(region, 0, 1).astype(np.uint8)
        num_parts = 1 if region is None else 2
        matrices = confusion(prediction.labels, target, len(self.class_names), self.ignore_index, parts, num_parts)
        valid = np.ones(target.shape, bool) if self.ignore_index is None else target != self.ignore_index
        scalars = np.full((num_parts, len(SCALARS)), NAN)
        for part in range(num_parts):
            here = valid if parts is None else valid & (parts == part)
            scalars[part] = self._scalars(prediction, target, here, importance)
        objects = self._objects(prediction.labels == target, target, parts) if self.objects else None
        return ImageCounts(matrices, scalars, self._confidence(prediction, target, parts, num_parts), objects)

    def _objects(
        self, right: BoolArray, target: npt.NDArray[np.integer], parts: npt.NDArray[np.uint8] | None
    ) -> ObjectCounts:
        skipped = [index for index in (self.ignore_index, self.background_index) if index is not None]
        rights = [right] if parts is None else [right & (parts == part) for part in range(2)]
        return count_objects(target, rights, skipped=skipped)

    def _confidence(
        self,
        prediction: DensePrediction,
        target: npt.NDArray[np.integer],
        parts: npt.NDArray[np.uint8] | None,
        num_parts: int,
    ) -> ConfidenceCounts | None:
        if prediction.confidence is None or prediction.log_odds is None or prediction.proper_scores is None:
            return None
        return count_confidence(
            prediction.labels,
            target,
            prediction.confidence,
            prediction.log_odds,
            prediction.proper_scores(target),
            NO_LABEL if self.ignore_index is None else self.ignore_index,
            parts,
            num_parts,
        )

    def stack(self, counts: Sequence[ImageCounts]) -> ImageCounts:
        return ImageCounts.stack(counts)

    def skipped(self, target: npt.NDArray[np.integer] | None) -> ImageCounts:
        classes = len(self.class_names)
        nothing = ConfidenceCounts.empty(1, 0.0)
        return ImageCounts(np.zeros((1, classes, classes), np.int64), np.full((1, len(SCALARS)), NAN), nothing)

    @staticmethod
    def _scalars(
        prediction: DensePrediction,
        target: npt.NDArray[np.integer],
        here: BoolArray,
        importance: npt.NDArray[np.floating] | None,
    ) -> list[float]:
        def total(values: npt.NDArray[np.floating] | None, where: BoolArray) -> float:
            return NAN if values is None else float(np.sum(values, where=where, dtype=np.float64))

        right = here if importance is None else here & (prediction.labels == target)
        return [
            total(prediction.confidence, here),
            total(prediction.entropy, here),
            total(importance, right),
            total(importance, here),
        ]

    def decode(self, data: bytes) -> ImageCounts:
        return ImageCounts.from_bytes(data)

    def compute(self, counts: Iterable[ImageCounts], views: Views) -> list[Figure]:
        reduced = _Reduced(len(views), len(self.class_names), self.background_index)
        for each in counts:
            reduced.add(each)
        if views.kind is ViewKind.WHOLE:
            return self._whole_figures(reduced, 0)
        if views.kind is ViewKind.TRIALS:
            by_trial = [self._whole_figures(reduced, view) for view in range(len(views))]
            return trial_figures(by_trial, views, {*estimates.STATISTICS, *calibration.LIMITS})
        if views.kind is ViewKind.REGION:
            return self._region_figures(reduced)
        return self._battery_figures(reduced, views)

    def _whole_figures(self, reduced: _Reduced, view: int) -> list[Figure]:
        table = reduced.table(view)
        figures = self._headline(table, reduced.foreground(view)) + self._scalar_figures(table, reduced.scalars(view))
        return figures + self._calibration_figures(reduced.confidence(view))

    @staticmethod
    def _calibration_figures(rows: FloatArray, suffix: str = "", view: str = "all") -> list[Figure]:
        """Figures of (N, 2447) histograms; none where no image has any, NaN where only some have."""
        if np.isnan(rows[:, 0]).all():
            return []
        values = calibration.pool(rows).figures()
        bounds = calibration.intervals(rows) if view == "all" else {}
        return [
            Figure(name + suffix, float(values[name][0]), view, "", *bounds.get(name, (NAN, NAN)))
            for name in calibration.FIGURES
        ]

    def _headline(self, table: CountTable, foreground: CountTable | None) -> list[Figure]:
        bounds = estimates.intervals(table)
        values = {
            "mIoU": segmentation.cmiou(table),
            "mAcc": segmentation.mean_class_accuracy(table),
            "aAcc": segmentation.pixel_accuracy(table),
            "NmIoU": segmentation.nmiou(table),
            "aAcc_images": segmentation.mean_image_accuracy(table),
        }
        figures = [Figure(name, value, low=bounds[name][0], high=bounds[name][1]) for name, value in values.items()]
        figures += self._class_intervals("IoU", estimates.class_iou(table))
        figures += self._class_intervals("Acc", estimates.class_accuracy(table))
        return figures + self._foreground_figures(foreground)

    def _class_figures(self, metric: str, values: FloatArray, view: str = "all") -> list[Figure]:
        named = zip(self.class_names, values, strict=True)
        return [Figure(metric, float(value), view=view, class_name=name) for name, value in named]

    def _class_intervals(self, metric: str, found: Sequence[Estimate]) -> list[Figure]:
        named = zip(self.class_names, (each.interval() for each in found), strict=True)
        return [Figure(metric, each.value, "all", name, each.low, each.high) for name, each in named]

    def _foreground_figures(
        self,
        table: CountTable | None,
        suffix: str = "",
        view: str = "all",
        by_iou: CountTable | None = None,
    ) -> list[Figure]:
        """Figures of pixels that are no background; `by_iou` are the counts of mean IoUs where those are others."""
        if table is None or self.background_index is None:
            return []
        whole = table if by_iou is None else by_iou
        without = whole.without_class(self.background_index)
        values = {
            "fg_aAcc": segmentation.pixel_accuracy(table),
            "fg_mIoU": segmentation.cmiou(without),
            "fg_NmIoU": segmentation.nmiou(without),
            "fg_NmIoU_bg_counted": segmentation.nmiou(whole),
        }
        return [Figure(name + suffix, value, view) for name, value in values.items()]

    def _scalar_figures(
        self, table: CountTable, scalars: FloatArray, suffix: str = "", view: str = "all"
    ) -> list[Figure]:
        """Confidence, entropy and weighted accuracy of one view."""
        figures = self._certainty_figures(table, scalars, suffix, view)
        weighted = ~np.isnan(scalars[:, 3])
        if weighted.any() and weighted[table.valid > 0].all():
            accuracy = segmentation.importance_accuracy(scalars[:, 2], scalars[:, 3])
            figures.append(Figure(f"A_P{suffix}", accuracy, view))
        return figures

    @staticmethod
    def _certainty_figures(table: CountTable, scalars: FloatArray, suffix: str = "", view: str = "all") -> list[Figure]:
        figures = []
        counted = table.valid > 0
        for name, column in (("confidence", 0), ("entropy", 1)):
            sums = scalars[counted, column]
            if len(sums) and not np.isnan(sums).any():
                figures.append(Figure(name + suffix, float(divide(sums.sum(), table.valid.sum())), view))
                mean = float(nan_mean(sums / table.valid[counted]))
                figures.append(Figure(f"{name}_images{suffix}", mean, view))
        return figures

    def _region_figures(self, reduced: _Reduced) -> list[Figure]:
        inside, outside, clean_inside, clean_outside = (reduced.table(view) for view in range(len(REGION)))
        whole = inside + outside
        foregrounds = [reduced.foreground(view) for view in range(len(REGION))]
        figures = self._headline(whole, _added(foregrounds[0], foregrounds[1]))
        figures += self._certainty_figures(whole, reduced.scalars(0) + reduced.scalars(1))
        regions = (("M", "inside", inside, clean_inside), ("Mbar", "outside", outside, clean_outside))
        for suffix, view, table, clean in regions:
            figures += self._paired(suffix, segmentation.image_accuracy(table), segmentation.image_accuracy(clean))
            figures += [
                Figure(f"mIoU_{suffix}", segmentation.cmiou(table)),
                Figure(f"mIoU_{suffix}_clean", segmentation.cmiou(clean)),
                Figure(f"mAcc_{suffix}", segmentation.mean_class_accuracy(table)),
                Figure(f"mAcc_{suffix}_clean", segmentation.mean_class_accuracy(clean)),
            ]
            figures += self._class_figures("IoU", segmentation.class_iou(table), view)
        for index, suffix in enumerate(("_M", "_Mbar", "_M_clean", "_Mbar_clean")):
            figures += self._foreground_figures(foregrounds[index], suffix)
            figures += self._scalar_figures(reduced.table(index), reduced.scalars(index), suffix)
        figures.append(Figure("region_share", float(divide(inside.valid.sum(), whole.valid.sum()))))
        figures += self._importance_figures(reduced)
        return figures + self._region_calibration(reduced.confidence(0), reduced.confidence(1))

    def _region_calibration(self, inside: FloatArray, outside: FloatArray) -> list[Figure]:
        """Calibration of the whole image and of both parts, and whether low confidence tells them apart."""
        figures = self._calibration_figures(inside + outside)
        if not figures:
            return []
        figures += self._calibration_figures(inside, "_M") + self._calibration_figures(outside, "_Mbar")
        parts = (calibration.pool(rows) for rows in (inside, outside))
        values = calibration.region_detection(*(part.right_odds + part.wrong_odds for part in parts))
        return figures + [Figure(name, float(value[0])) for name, value in values.items()]

    @staticmethod
    def _paired(suffix: str, accuracy: FloatArray, clean: FloatArray) -> list[Figure]:
        """A, its clean value and RCE from the accuracies of the images, (N,) each, with intervals."""
        bounds = estimates.paired_intervals(accuracy, clean)
        mean, base = float(nan_mean(accuracy)), float(nan_mean(clean))
        values = {
            f"A_{suffix}": (mean, bounds["A"]),
            f"A_{suffix}_clean": (base, bounds["A_clean"]),
            f"RCE_{suffix}": (corruption_error(mean, base), bounds["RCE"]),
        }
        return [Figure(name, value, low=low, high=high) for name, (value, (low, high)) in values.items()]

    def _importance_figures(self, reduced: _Reduced) -> list[Figure]:
        """A_P over the whole image, under the threat and clean; none without weights."""
        inside, outside, clean_inside, clean_outside = (reduced.scalars(view)[:, 2:] for view in range(len(REGION)))
        attacked, clean = inside + outside, clean_inside + clean_outside  # (N, 2): weight of the right and of all
        if not len(attacked) or np.isnan(attacked).any():
            return []
        return self._paired("P", *(divide(sums[:, 0], sums[:, 1]) for sums in (attacked, clean)))

    def _battery_figures(self, reduced: _Reduced, views: Views) -> list[Figure]:
        tables = [reduced.table(view) for view in range(len(views))]
        by_accuracy, by_iou = worst_case.worst_by_accuracy(tables), worst_case.worst_by_image_iou(tables)
        hardest, hardest_iou = (worst_case.chosen(tables, each.choice) for each in (by_accuracy, by_iou))
        bounds, bounds_iou = estimates.intervals(hardest), estimates.intervals(hardest_iou)
        values = {
            "mIoU": (segmentation.cmiou(hardest_iou), bounds_iou["mIoU"]),
            "NmIoU": (segmentation.nmiou(hardest_iou), bounds_iou["NmIoU"]),
            "mAcc": (segmentation.mean_class_accuracy(hardest), bounds["mAcc"]),
            "aAcc": (segmentation.pixel_accuracy(hardest), bounds["aAcc"]),
            "aAcc_images": (segmentation.mean_image_accuracy(hardest), bounds["aAcc_images"]),
            "mIoU_greedy": (worst_case.greedy_cmiou(worst_case.freeze_floor(tables))[0], (NAN, NAN)),
        }
        figures = [Figure(name, value, low=low, high=high) for name, (value, (low, high)) in values.items()]
        figures += self._class_intervals("IoU", estimates.class_iou(hardest_iou))
        confidence = np.stack([reduced.confidence(view) for view in range(len(views))])  # (A, N, 2447)
        scalars = np.stack([reduced.scalars(view) for view in range(len(views))])  # (A, N, 4)
        images = np.arange(len(by_accuracy.choice))
        figures += self._scalar_figures(hardest, scalars[by_accuracy.choice, images])
        figures += self._calibration_figures(confidence[by_accuracy.choice, images])
        figures += self._battery_foreground(reduced, views)
        counted = np.max([table.valid for table in tables], axis=0) > 0
        for index, (name, table) in enumerate(zip(views, tables, strict=True)):
            figures += [
                Figure("chosen_by_accuracy", float(by_accuracy.share[index]), view=name),
                Figure("chosen_by_mIoU", float(by_iou.share[index]), view=name),
            ]
            if np.any(counted & (table.valid == 0)):
                continue  # skipped on images that nothing could worsen: it has no figure of its own
            figures += [
                Figure("mIoU", segmentation.cmiou(table), view=name),
                Figure("NmIoU", segmentation.nmiou(table), view=name),
                Figure("aAcc", segmentation.pixel_accuracy(table), view=name),
                Figure("aAcc_images", segmentation.mean_image_accuracy(table), view=name),
                Figure("credit_by_accuracy", float(by_accuracy.credit[index]), view=name),
                Figure("credit_by_mIoU", float(by_iou.credit[index]), view=name),
            ]
            figures += self._foreground_figures(reduced.foreground(index), view=name)
            figures += self._scalar_figures(table, scalars[index], view=name)
            figures += self._calibration_figures(confidence[index], view=name)
        return figures

    def _battery_foreground(self, reduced: _Reduced, views: Views) -> list[Figure]:
        """Worst cases chosen by the figures of the foreground: its accuracy, and its mean IoU."""
        tables = [table for view in range(len(views)) if (table := reduced.foreground(view)) is not None]
        if self.background_index is None or not tables:
            return []
        by_accuracy = worst_case.worst_by_accuracy(tables)
        by_iou = worst_case.worst_by_image_iou([table.without_class(self.background_index) for table in tables])
        hardest, hardest_iou = (worst_case.chosen(tables, each.choice) for each in (by_accuracy, by_iou))
        figures = self._foreground_figures(hardest, by_iou=hardest_iou)
        for name, selection in (("fg_accuracy", by_accuracy), ("fg_mIoU", by_iou)):
            figures += [
                Figure(f"chosen_by_{name}", float(share), view=view)
                for view, share in zip(views, selection.share, strict=True)
            ]
        return figures

    def per_image(self, counts: ImageCounts, views: Views) -> list[dict[str, Any]]:
        table = CountTable.of(counts.confusion, len(self.class_names))
        accuracy, iou = segmentation.image_accuracy(table), segmentation.image_iou(table)
        means = divide(counts.scalars[:, :2], table.valid[:, None])
        rows = [
            {
                "view": name,
                "accuracy": float(accuracy[view]),
                "mIoU": float(iou[view]),
                "valid": int(table.valid[view]),
                "confidence": float(means[view, 0]),
                "entropy": float(means[view, 1]),
            }
            for view, name in enumerate(views)
        ]
        return [mean_of_trials(rows), *rows] if views.kind is ViewKind.TRIALS else rows


def _added(first: CountTable | None, second: CountTable | None) -> CountTable | None:
    """Counts of two parts of the same images together; None where there are none."""
    return None if first is None or second is None else first + second


class _Reduced:
    """Counts of many images as three numbers per class and view, so that memory stays small."""

    def __init__(self, views: int, num_classes: int, background: int | None) -> None:
        self._views, self._num_classes, self._background = views, num_classes, background
        self._rows: list[Int64Array] = []
        self._foreground_rows: list[Int64Array] = []
        self._scalars: list[FloatArray] = []
        self._confidence: list[FloatArray] = []
        self._coarse = False

    def add(self, counts: ImageCounts) -> None:
        if counts.confusion.shape[:2] != (self._views, self._num_classes):
            raise GauntletError(
                f"counts of {counts.confusion.shape[0]} views and {counts.confusion.shape[1]} classes do not fit "
                f"{self._views} views and {self._num_classes} classes."
            )
        self._rows.append(self._reduce(counts.confusion, None))
        if self._background is not None:
            self._foreground_rows.append(self._reduce(counts.confusion, self._background))
        self._scalars.append(counts.scalars)
        rows = [calibration.flat_row(counts.confidence, view) for view in range(self._views)]
        self._confidence.append(np.stack(rows))
        self._coarse |= counts.confidence is not None and counts.confidence.coarse

    def _reduce(self, matrices: Int64Array, background: int | None) -> Int64Array:
        table = CountTable.of(matrices, self._num_classes, background)
        return np.stack([table.true_positives, table.ground_truth, table.predicted], axis=1)  # (V, 3, K)

    def table(self, view: int) -> CountTable:
        return self._table(self._rows, view)

    def foreground(self, view: int) -> CountTable | None:
        return self._table(self._foreground_rows, view) if self._background is not None else None

    def scalars(self, view: int) -> FloatArray:
        return np.array([each[view] for each in self._scalars]).reshape(-1, len(SCALARS))

    def confidence(self, view: int) -> FloatArray:
        """(N, 2447) histograms of every image; NaN where they were not measured."""
        rows = np.array([each[view] for each in self._confidence], np.float64).reshape(-1, calibration.WIDTH)
        return calibration.coarsened(rows) if self._coarse else rows

    def _table(self, rows: list[Int64Array], view: int) -> CountTable:
        stacked = np.array([row[view] for row in rows], dtype=np.int64).reshape(-1, 3, self._num_classes)
        return CountTable(stacked[:, 0], stacked[:, 1], stacked[:, 2])
