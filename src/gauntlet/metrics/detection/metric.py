"""The detection metric: detections and objects kept per image, every figure computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import BoolArray, FloatArray, corruption_error, divide, nan_mean
from gauntlet.metrics.contract import NAN, Figure, Metric, metrics
from gauntlet.metrics.detection import voc_figures
from gauntlet.metrics.detection.coco_figures import CocoCurves, coco_curves
from gauntlet.metrics.detection.counts import ImageObjects, ObjectView
from gauntlet.metrics.detection.error_types import Fates, error_types, object_fates
from gauntlet.metrics.detection.estimates import average_precision
from gauntlet.metrics.detection.figures import ImageFigures, image_figures
from gauntlet.metrics.intervals import mean_of_images, mean_of_ratios
from gauntlet.metrics.selection import Selection, select
from gauntlet.metrics.views import REGION, ViewKind, Views
from gauntlet.samples import Boxes

MOST_CLASSES = 65536

Pair = tuple[Boxes, Boxes]
"""Objects and detections of one image."""


@metrics.register("detection")
class DetectionMetric(Metric):
    """COCO's and VOC's average precision, recall, F1 per image, boxes per image, mislabelled boxes; regions, batteries.

    Args:
        class_names: names of the K object classes.
        eleven_points: VOC figures as in VOC 2007.
    """

    version: ClassVar[int] = 2
    # 2: sizes are those of the annotation under a protocol that resizes; ties of scores under a threat to a region are
    # broken by the detector's order; a recall of exactly 0.3, 0.6 or 0.7 reaches its point of the eleven.

    def __init__(self, class_names: Sequence[str], eleven_points: bool = False) -> None:
        if not 1 <= len(class_names) <= MOST_CLASSES:
            raise GauntletError(f"detection needs 1 to {MOST_CLASSES} object classes, not {len(class_names)}.")
        super().__init__(class_names)
        self.eleven_points = eleven_points

    def update(
        self, prediction: Boxes, target: Boxes, region: BoolArray | None = None, *, covers: bool = False
    ) -> ImageObjects:
        """What is kept of one image: one view, or the two views inside and outside when there is a region.

        An object or detection lies inside when the centre of its box does; of a region that covers what was there,
        when more than half of its box does.

        Args:
            prediction: detections, with scores.
            target: objects.
            region: (H, W), True inside.
            covers: whether nothing of what was inside can be seen.
        """
        self._check(prediction, target)
        everything = np.ones(len(target), bool)
        if region is None:
            return ImageObjects(target, (ObjectView(prediction, everything),))
        lies_inside = mostly_inside if covers else _inside
        kept, objects = lies_inside(prediction, region), lies_inside(target, region)
        inside = ObjectView(prediction.select(kept), objects, np.flatnonzero(kept))
        outside = ObjectView(prediction.select(~kept), ~objects, np.flatnonzero(~kept))
        return ImageObjects(target, (inside, outside))

    def stack(self, counts: Sequence[ImageObjects]) -> ImageObjects:
        return ImageObjects.stack(counts)

    def skipped(self, target: Boxes) -> ImageObjects:
        return ImageObjects(target, (None,))

    def _check(self, prediction: Boxes, target: Boxes) -> None:
        if prediction.scores is None:
            raise GauntletError("the detections have no scores; a detector must give one to every box.")
        for what, boxes in (("a detection", prediction), ("an object", target)):
            wrong = (boxes.classes < 0) | (boxes.classes >= len(self.class_names))
            if wrong.any():
                raise GauntletError(
                    f"{what} has the class {boxes.classes[wrong][0]}; expected 0 to {len(self.class_names) - 1}: "
                    "check the classes of the model and the dataset."
                )

    def decode(self, data: bytes) -> ImageObjects:
        return ImageObjects.from_bytes(data)

    def compute(self, counts: Iterable[ImageObjects], views: Views) -> list[Figure]:
        images = _checked(counts, views)
        if views.kind is ViewKind.CANDIDATES:
            battery = self._battery(images, len(views))
            return self._headline(battery.hardest) + self._battery_figures(battery, views)
        figures = self._headline(_whole_pairs(images, views))
        return figures + self._region_figures(images) if views.kind is ViewKind.REGION else figures

    def headline_pairs(self, counts: Iterable[ImageObjects], views: Views) -> list[Pair]:
        """Objects and detections behind the headline figures: the whole image, of a battery the worst candidate."""
        images = _checked(counts, views)
        if views.kind is ViewKind.CANDIDATES:
            return self._battery(images, len(views)).hardest
        return _whole_pairs(images, views)

    def image_f1(self, pairs: Sequence[Pair]) -> FloatArray:
        """(N,) the F1 of every image; `F1_images` is their mean."""
        return image_figures(*_columns(pairs)).f1

    def _coco(self, pairs: Sequence[Pair]) -> CocoCurves:
        return coco_curves(*_columns(pairs), len(self.class_names))

    def _headline(self, pairs: Sequence[Pair]) -> list[Figure]:
        curves, per_image = self._coco(pairs), image_figures(*_columns(pairs))
        # Gauntlet's boxes end behind their last pixel: VOC's "+ 1" is in them already.
        of_voc = voc_figures.voc_precision(
            *_columns(pairs), len(self.class_names), eleven_points=self.eleven_points, inclusive=False
        )
        values = curves.figures()
        values |= {
            f"VOC_mAP{100 * t:.0f}": float(nan_mean(row)) for t, row in zip(voc_figures.THRESHOLDS, of_voc, strict=True)
        }
        values["VOC_mAP"] = float(nan_mean(of_voc))
        values["F1_images"] = float(nan_mean(per_image.f1))
        values["boxes_per_image"] = float(nan_mean(per_image.boxes))
        values["mislabel_rate"] = float(divide(per_image.mislabelled.sum(), per_image.matches.sum()))
        fates = object_fates(*_columns(pairs))
        values |= self._error_figures(pairs, fates)
        bounds = self._intervals(pairs, per_image, fates)
        figures = [Figure(name, value, "all", "", *bounds.get(name, (NAN, NAN))) for name, value in values.items()]
        per_class = curves.per_class()
        per_class |= {f"VOC_AP{100 * t:.0f}": row for t, row in zip(voc_figures.THRESHOLDS, of_voc, strict=True)}
        return figures + self._class_figures(per_class)

    def _error_figures(self, pairs: Sequence[Pair], fates: Fates) -> dict[str, float]:
        """TIDE's gains and counts at IoU 0.5, and what became of the objects."""
        errors = error_types(*_columns(pairs), len(self.class_names))
        values = {f"dAP_{name}": value for name, value in errors.gains.items()}
        values |= {f"errors_{name}": float(count) if pairs else NAN for name, count in errors.counts.items()}
        return values | fates.figures()

    def _class_figures(self, per_class: dict[str, FloatArray], view: str = "all") -> list[Figure]:
        return [
            Figure(metric, float(value), view, name)
            for metric, values in per_class.items()
            for name, value in zip(self.class_names, values, strict=True)
        ]

    def _intervals(
        self, pairs: Sequence[Pair], per_image: ImageFigures, fates: Fates
    ) -> dict[str, tuple[float, float]]:
        """Intervals over images: detections are matched once, then counted without each image."""
        estimates = average_precision(*_columns(pairs), len(self.class_names)) | {
            "F1_images": mean_of_images(per_image.f1),
            "boxes_per_image": mean_of_images(per_image.boxes, limits=(0.0, np.inf)),
            "mislabel_rate": mean_of_ratios(per_image.mislabelled[:, None], per_image.matches[:, None]),
        }
        return {name: each.interval().bounds for name, each in {**estimates, **fates.estimates()}.items()}

    def _region_figures(self, images: Sequence[ImageObjects]) -> list[Figure]:
        inside, outside, clean_inside, clean_outside = (_pairs(images, view) for view in range(len(REGION)))
        figures: list[Figure] = []
        regions = (("M", "inside", inside, clean_inside), ("Mbar", "outside", outside, clean_outside))
        for suffix, view, pairs, clean_pairs in regions:
            curves, clean = self._coco(pairs), self._coco(clean_pairs)
            values, base = curves.figures(), clean.figures()
            for metric in ("mAP", "mAP50"):
                figures.append(Figure(f"{metric}_{suffix}", values[metric]))
                figures.append(Figure(f"{metric}_{suffix}_clean", base[metric]))
            figures.append(Figure(f"RCE_{suffix}", corruption_error(values["mAP"], base["mAP"])))
            figures += self._class_figures({"AP": curves.per_class()["AP"]}, view)
        objects = sum(len(truth) for truth, _ in inside), sum(len(each.truth) for each in images)
        figures.append(Figure("region_share", float(divide(*objects))))
        return figures

    def _battery(self, images: Sequence[ImageObjects], views: int) -> _Battery:
        """Worst case per image: the candidate with the smallest F1."""
        f1 = np.full((views, len(images)), np.nan)
        pairs = [[each.pair(view) for each in images] for view in range(views)]
        for view, of_view in enumerate(pairs):
            ran = [index for index, pair in enumerate(of_view) if pair is not None]
            f1[view, ran] = self.image_f1([of_view[index] for index in ran])  # type: ignore[misc]
        return _Battery(pairs, f1, select(f1))

    def _battery_figures(self, battery: _Battery, views: Views) -> list[Figure]:
        figures: list[Figure] = []
        pairs, f1, selection = battery.pairs, battery.f1, battery.selection
        for view, (name, of_view) in enumerate(zip(views, pairs, strict=True)):
            figures.append(Figure("chosen_by_F1", float(selection.share[view]), view=name))
            computed = [pair for pair in of_view if pair is not None]
            if len(computed) < len(of_view):
                continue  # skipped on images that nothing could worsen: it has no figure of its own
            values = self._coco(computed).figures()
            figures += [Figure(metric, values[metric], view=name) for metric in ("mAP", "mAP50", "mAP75")]
            figures.append(Figure("F1_images", float(nan_mean(f1[view])), view=name))
            figures.append(Figure("credit_by_F1", float(selection.credit[view]), view=name))
        return figures

    def per_image(self, counts: ImageObjects, views: Views) -> list[dict[str, Any]]:
        rows = []
        for view, name in enumerate(views):
            pair = counts.pair(view)
            row: dict[str, Any] = {"view": name, "F1": NAN, "objects": 0, "boxes": 0, "mislabelled": 0}
            if pair is not None:
                figures = image_figures(*_columns([pair]))
                row["F1"], row["objects"] = float(figures.f1[0]), len(pair[0])
                row["boxes"], row["mislabelled"] = int(figures.boxes[0]), int(figures.mislabelled[0])
            rows.append(row)
        return rows


@dataclass(frozen=True)
class _Battery:
    """A candidates of a battery on N images.

    Attributes:
        pairs: (A, N) objects and detections; None where the image was skipped.
        f1: (A, N) F1 of the image, NaN where it was skipped.
        selection: the worst candidate of every image.
    """

    pairs: Sequence[Sequence[Pair | None]]
    f1: FloatArray
    selection: Selection

    @property
    def hardest(self) -> list[Pair]:
        """The chosen candidate of every image."""
        worst = (self.pairs[view][index] for index, view in enumerate(self.selection.choice))
        return [pair for pair in worst if pair is not None]


def _checked(counts: Iterable[ImageObjects], views: Views) -> list[ImageObjects]:
    images = list(counts)
    for each in images:
        if len(each.views) != len(views):
            raise GauntletError(f"detections of {len(each.views)} views do not fit {len(views)} views.")
    return images


def _inside(boxes: Boxes, region: BoolArray) -> BoolArray:
    """(n,) whether the centre of a box lies in the region; outside the image the nearest pixel decides."""
    height, width = region.shape
    x = np.clip(np.floor((boxes.xyxy[:, 0] + boxes.xyxy[:, 2]) / 2), 0, width - 1).astype(np.intp)
    y = np.clip(np.floor((boxes.xyxy[:, 1] + boxes.xyxy[:, 3]) / 2), 0, height - 1).astype(np.intp)
    return np.asarray(region[y, x])


def mostly_inside(boxes: Boxes, region: BoolArray) -> BoolArray:
    """(n,) whether more than half of a box, as far as it lies in the image, is covered by the region."""
    covered = np.pad(region.astype(np.int64).cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    height, width = region.shape
    left, right = (np.clip(np.rint(boxes.xyxy[:, side]), 0, width).astype(np.intp) for side in (0, 2))
    top, bottom = (np.clip(np.rint(boxes.xyxy[:, side]), 0, height).astype(np.intp) for side in (1, 3))
    inside = covered[bottom, right] - covered[top, right] - covered[bottom, left] + covered[top, left]
    return np.asarray(2 * inside > (bottom - top) * (right - left))


def _pairs(images: Sequence[ImageObjects], view: int) -> list[Pair]:
    return [pair for each in images if (pair := each.pair(view)) is not None]


def _whole_pairs(images: Sequence[ImageObjects], views: Views) -> list[Pair]:
    """Objects and detections of whole images; of a region, what was kept inside and outside it together."""
    if views.kind is ViewKind.WHOLE:
        return _pairs(images, 0)
    return [(each.truth, _joined(each.views[0], each.views[1])) for each in images]


def _columns(pairs: Sequence[Pair]) -> tuple[list[Boxes], list[Boxes]]:
    """The objects of every image, and the detections of every image."""
    return [truth for truth, _ in pairs], [detected for _, detected in pairs]


def _joined(inside: ObjectView | None, outside: ObjectView | None) -> Boxes:
    """The detections of both parts of an image, in the detector's order where the counts have it."""
    assert inside is not None
    assert outside is not None
    first, second = inside.detections, outside.detections
    assert first.scores is not None
    assert second.scores is not None
    joined = Boxes(
        np.concatenate([first.xyxy, second.xyxy]),
        np.concatenate([first.classes, second.classes]),
        np.concatenate([first.scores, second.scores]),
    )
    if inside.places is None or outside.places is None:
        return joined
    return joined.select(np.argsort(np.concatenate([inside.places, outside.places])))
