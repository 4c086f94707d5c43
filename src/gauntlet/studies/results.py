"""The results of a study: figures of every model, member and threat, with intervals over the same resampled images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.metrics import Metric
from gauntlet.metrics.arithmetic import divide
from gauntlet.metrics.segmentation import worst_case
from gauntlet.metrics.segmentation.counts import CountTable, ImageCounts
from gauntlet.metrics.segmentation.figures import image_iou, mean_iou
from gauntlet.metrics.views import ViewKind
from gauntlet.report.tables import Interval
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store

FloatArray = npt.NDArray[np.float64]
FOREGROUND = "foreground"
"""The view of the pixels whose ground truth is no background."""
RESAMPLES = 1000
LEVEL = 0.95


@dataclass(frozen=True)
class Results:
    """Evaluations of a study.

    Figures are arrays (R,) over resamples of the images; the first entry is the figure of the images as they are. All
    evaluations are resampled alike, so that differences and ratios have the intervals of paired figures.

    Attributes:
        evaluations: by model, label of the member, label of the threat.
        store: where the counts of their images are.
        models: labels of the models, in order.
        members: labels of the members, in order.
        threats: labels of the threats, in order.
        chosen: the model that claims and drawings are about; None for all of them.
    """

    evaluations: Mapping[tuple[str, str, str], Evaluation]
    store: Store
    models: Sequence[str]
    members: Sequence[str]
    threats: Sequence[str]
    chosen: str | None = None
    _tables: dict[tuple[str, str, str, str], list[CountTable]] = field(default_factory=dict)

    def of(self, model: str) -> Results:
        """The results of one model."""
        return Results(self.evaluations, self.store, self.models, self.members, self.threats, model, self._tables)

    @cached_property
    def images(self) -> int:
        """How many images every evaluation is of."""
        return next(iter(self.evaluations.values())).images

    def evaluation(self, member: str, threat: str, model: str | None = None) -> Evaluation:
        """One evaluation, of the chosen model by default."""
        name = model or self.chosen or self.models[0]
        found = self.evaluations.get((name, member, threat))
        if found is None:
            raise GauntletError(f"the study has no result of '{name}' as '{member}' under '{threat}'.")
        return found

    def miou(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(R,) mIoU over the pooled pixels of the resampled images; of a random model, the mean over its trials."""

        def figure(table: CountTable) -> FloatArray:
            pooled = table.weighted(self.weights)
            return np.asarray(mean_iou(pooled.true_positives, pooled.union))

        return mean_of([figure(table) for table in self.tables(member, threat, model, view)])

    def accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(R,) pixel accuracy; of a random model, the mean over its trials."""

        def figure(table: CountTable) -> FloatArray:
            pooled = table.weighted(self.weights)
            return np.asarray(divide(pooled.true_positives.sum(axis=1), pooled.valid), dtype=np.float64)

        return mean_of([figure(table) for table in self.tables(member, threat, model, view)])

    def image_accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(R,) mean over images of their pixel accuracy; images without a counted pixel are left out."""

        def figure(table: CountTable) -> FloatArray:
            values = np.asarray(divide(table.true_positives.sum(axis=1), table.valid), dtype=np.float64)  # (N,)
            weights = self.weights * ~np.isnan(values)
            return np.asarray(divide(weights @ np.nan_to_num(values), weights.sum(axis=1)), dtype=np.float64)

        return mean_of([figure(table) for table in self.tables(member, threat, model, view)])

    def image_miou(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(N,) mIoU of every image; of a random model, the mean over its trials."""
        return mean_of([image_iou(table) for table in self.tables(member, threat, model, view)])

    def nmiou(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(R,) mean over images of their mIoU; images without a counted pixel are left out."""
        values = self.image_miou(member, threat, model, view)
        weights = self.weights * ~np.isnan(values)
        return np.asarray(divide(weights @ np.nan_to_num(values), weights.sum(axis=1)))

    def image_ids(self, member: str, threat: str, model: str | None = None) -> list[str]:
        """The ids of the N images, in the order of all arrays."""
        started = self.store.started(self.evaluation(member, threat, model).key)
        assert started is not None  # it was evaluated
        return [row.image_id for row in self.store.image_rows(started)]

    def ratio(self, member: str, threat: str, model: str | None = None) -> FloatArray:
        """(R,) IoU ratio of Arnab et al.: mIoU under the threat over clean mIoU of the same member."""
        return np.asarray(divide(self.miou(member, threat, model), self.miou(member, "clean", model)), dtype=np.float64)

    def figure(self, name: str, member: str, threat: str, model: str | None = None) -> Interval:
        """A stored figure with its interval."""
        evaluation = self.evaluation(member, threat, model)
        low, high = evaluation.intervals.get(name, (np.nan, np.nan))
        return Interval(evaluation.figures.get(name, np.nan), low, high)

    def tables(self, member: str, threat: str, model: str | None = None, view: str = "all") -> list[CountTable]:
        """Counts of every image in one view of the evaluation; one table per trial of a random model.

        The view "all" is the whole image, of a battery under the attack that leaves the smallest mIoU; "foreground" the
        same without the background, chosen by its own mIoU; others are those of the evaluation.
        """
        name = model or self.chosen or self.models[0]
        key = (name, member, threat, view)
        if key not in self._tables:
            self._tables[key] = self._read(self.evaluation(member, threat, name), view)
        return self._tables[key]

    def _read(self, evaluation: Evaluation, view: str) -> list[CountTable]:
        started = self.store.started(evaluation.key)
        metric = self.store.metric(evaluation.key)
        if started is None or started.views is None:
            raise GauntletError(f"the store {self.store.address} has no counts of '{evaluation.threat}'.")
        views = started.views
        counts = [metric.decode(row.counts) for row in self.store.image_rows(started)]
        if not all(isinstance(each, ImageCounts) for each in counts):
            raise GauntletError("a study of label maps needs a segmentation model.")
        if view not in ("all", FOREGROUND) and view not in views:
            raise GauntletError(
                f"the evaluation of '{evaluation.threat}' has no view '{view}', only {', '.join(views)}."
            )
        background = _background(metric) if view == FOREGROUND else None
        tables = [
            CountTable.of([each.confusion[index] for each in counts], len(metric.class_names), background)
            for index in range(len(views))
        ]
        if background is not None:
            tables = [table.without_class(background) for table in tables]
        if view in views:
            return [tables[list(views).index(view)]]
        if views.kind is ViewKind.CANDIDATES:
            return [worst_case.chosen(tables, worst_case.worst_by_image_iou(tables).choice)]
        return [tables[0] + tables[1]] if views.kind is ViewKind.REGION else tables

    @cached_property
    def weights(self) -> FloatArray:
        """(R, N): how often an image is drawn in each resample; the first row counts each once."""
        drawn = np.random.default_rng(0).multinomial(self.images, np.full(self.images, 1 / self.images), size=RESAMPLES)
        return np.vstack([np.ones((1, self.images)), drawn]).astype(np.float64)


def _background(metric: Metric) -> int:
    """The class that is background; an error where a dataset has none."""
    background: int | None = getattr(metric, "background_index", None)
    if background is None:
        raise GauntletError("figures without background need a dataset with a background class, such as voc.")
    return background


def interval(values: FloatArray) -> Interval:
    """A figure and its 95 % interval from an array of `Results`."""
    finite = values[1:][np.isfinite(values[1:])]
    if not len(finite):
        return Interval(float(values[0]))
    low, high = np.percentile(finite, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Interval(float(values[0]), float(low), float(high))


def largest(values: Sequence[FloatArray]) -> FloatArray:
    """(R,) the largest of several figures, resample by resample."""
    return np.asarray(np.max(np.stack(values), axis=0))


def smallest(values: Sequence[FloatArray]) -> FloatArray:
    """(R,) the smallest of several figures, resample by resample."""
    return np.asarray(np.min(np.stack(values), axis=0))


def mean_of(values: Sequence[FloatArray]) -> FloatArray:
    """(R,) the mean of several figures, resample by resample."""
    return np.asarray(np.mean(np.stack(values), axis=0))
