"""The results of a study: figures of every model, member and threat, with intervals over the same images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from gauntlet.errors import GauntletError
from gauntlet.metrics import Metric
from gauntlet.metrics.arithmetic import divide
from gauntlet.metrics.certification import CertificationMetric
from gauntlet.metrics.intervals import left_out, mean_of_images, mean_of_ratios
from gauntlet.metrics.segmentation import estimates, worst_case
from gauntlet.metrics.segmentation.counts import SCALARS, CountTable, ImageCounts
from gauntlet.metrics.segmentation.figures import image_iou, mean_iou
from gauntlet.metrics.views import ViewKind
from gauntlet.models import GauntletModel
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.model_facts import facts_frame
from gauntlet.results.record import Evaluation, read_counts
from gauntlet.results.store import Store
from gauntlet.studies.figures import CLEAN, UNKNOWN, Figures, FloatArray, mean_of

FOREGROUND = "foreground"
"""The view of the pixels whose ground truth is no background."""
MEAN_IOU, ACCURACY = "mIoU", "accuracy"
WORST = {MEAN_IOU: worst_case.worst_by_image_iou, ACCURACY: worst_case.worst_by_accuracy}
"""By which figure of an image the worst attack of a battery is chosen."""
Made = TypeVar("Made")
Counted = tuple[CountTable, FloatArray]
"""Counts of N images in one view, and their SCALARS (N, 4)."""


@dataclass(frozen=True)
class Results(Figures):
    """Evaluations of a study.

    All evaluations are of the same images, so that differences and ratios have the intervals of paired figures.

    Attributes:
        evaluations: by model, label of the member, label of the threat.
        store: where the counts of their images are.
        models, members: labels, in order.
        threats: labels of the threats, in order; figures of members and threats that are not here are NaN.
        chosen: the model that claims and drawings are about; None for all of them.
        sources: by model and member, what was evaluated.
    """

    evaluations: Mapping[tuple[str, str, str], Evaluation]
    store: Store
    models: Sequence[str]
    members: Sequence[str]
    threats: Sequence[str]
    chosen: str | None = None
    sources: Mapping[tuple[str, str], GauntletModel | ModelSource] = field(default_factory=dict)
    source: str = "here"
    _counted: dict[tuple[str, str, str, str, str], list[Counted]] = field(default_factory=dict)

    def of(self, model: str) -> Results:
        return replace(self, chosen=model)

    @cached_property
    def images(self) -> int:
        """How many images every evaluation is of."""
        return next(iter(self.evaluations.values())).images

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return next(iter(self.evaluations.values())).dataset

    def backbone_type(self, model: str) -> str:
        return self._backbone_types.get(model, "")

    @cached_property
    def _backbone_types(self) -> dict[str, str]:
        """What the evaluations know of the models, by label."""
        found: dict[str, str] = {}
        for (model, _, _), each in self.evaluations.items():
            facts = facts_frame([(each.model, each.model_digest, each.task, each.provenance)])
            found.setdefault(model, str(facts["backbone_type"].iloc[0]))
        return found

    def evaluation(self, member: str, threat: str, model: str | None = None) -> Evaluation:
        """One evaluation, of the chosen model by default."""
        name = self._name(model)
        found = self.evaluations.get((name, member, threat))
        if found is None:
            raise GauntletError(f"the study has no result of '{name}' as '{member}' under '{threat}'.")
        return found

    def miou(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        return mean_of([estimates.miou(table).rows() for table in self.tables(member, threat, model, view)])

    def trial_ratios(self, member: str, threat: str, model: str | None = None) -> FloatArray:
        """(T,) IoU ratio in every trial of a random model, over its clean mIoU (the mean over trials)."""
        tables = self.tables(member, threat, model)
        trials = [mean_iou(table.true_positives.sum(axis=0), table.union.sum(axis=0)) for table in tables]
        return np.asarray(divide(np.array(trials), self.miou(member, CLEAN, model)[0]), dtype=np.float64)

    def accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        tables = self.tables(member, threat, model, view, ACCURACY)
        return mean_of([estimates.accuracy(table).rows() for table in tables])

    def class_accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        return mean_of([estimates.macc(table).rows() for table in self.tables(member, threat, model, view)])

    def image_accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        tables = self.tables(member, threat, model, view, ACCURACY)
        return mean_of([estimates.accuracy_of_images(table).rows() for table in tables])

    def image_miou(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(N,) mIoU of every image; of a random model, the mean over its trials."""
        return mean_of([image_iou(table) for table in self.tables(member, threat, model, view)])

    def nmiou(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        return mean_of_images(self.image_miou(member, threat, model, view)).rows()

    def image_ids(self, member: str, threat: str, model: str | None = None) -> list[str]:
        """The ids of the N images, in the order of all arrays."""
        started = self.store.started(self.evaluation(member, threat, model).key)
        assert started is not None  # it was evaluated
        return [row.image_id for row in self.store.image_rows(started)]

    def certainty(self, name: str, member: str, threat: str, model: str | None = None) -> FloatArray:
        def figure(table: CountTable, scalars: FloatArray) -> FloatArray:
            sums = scalars[:, [SCALARS.index(name)]]
            return mean_of_ratios(sums, table.valid[:, None]).rows()

        return mean_of([figure(*counted) for counted in self._counts(member, threat, model, "all", MEAN_IOU)])

    def zero_gradients(self, member: str, threat: str, model: str | None = None) -> FloatArray:
        if member not in self.members or threat not in self.threats:
            return UNKNOWN
        started = self.store.started(self.evaluation(member, threat, model).key)
        assert started is not None  # it was evaluated
        told = [row.details.get("zero_gradient_share") for row in self.store.image_rows(started)]
        shares = np.array([np.nan if each is None else each for each in told], dtype=np.float64)  # (N,)
        return mean_of_images(shares).rows()

    def abstention(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        def figure(table: CountTable) -> FloatArray:
            silent = table.valid - table.predicted.sum(axis=1)
            return mean_of_ratios(silent[:, None], table.valid[:, None]).rows()

        return mean_of([figure(table) for table in self.tables(member, threat, model, view)])

    def parameters(self, member: str, model: str | None = None) -> float:
        source = self.sources[self._name(model), member]
        loaded = source.load() if isinstance(source, ModelSource) else source
        return float(sum(each.numel() for each in loaded.parameters()))

    def tables(
        self, member: str, threat: str, model: str | None = None, view: str = "all", worst: str = MEAN_IOU
    ) -> list[CountTable]:
        """Counts of every image in one view of the evaluation; one table per trial of a random model.

        The view "all" is the whole image, of a battery under the attack that leaves the smallest mIoU or accuracy
        (`worst`); "foreground" the same without the background, chosen by its own figure; others are those of the
        evaluation, "foreground NAME" one of them without the background.
        """
        return [table for table, _ in self._counts(member, threat, model, view, worst)]

    def _counts(self, member: str, threat: str, model: str | None, view: str, worst: str) -> list[Counted]:
        name = self._name(model)
        if member not in self.members or threat not in self.threats:
            nothing = np.zeros((self.images, 1), dtype=np.int64)  # no pixel counts, so that every figure is NaN
            return [(CountTable(nothing, nothing, nothing), np.zeros((self.images, len(SCALARS))))]
        key = (name, member, threat, view, worst)
        if key not in self._counted:
            self._counted[key] = self._read(self.evaluation(member, threat, name), view, worst)
        return self._counted[key]

    def _read(self, evaluation: Evaluation, view: str, worst: str) -> list[Counted]:
        started = self.store.started(evaluation.key)
        metric = self.store.metric(evaluation.key)
        if started is None or started.views is None:
            raise GauntletError(f"the store {self.store.address} has no counts of '{evaluation.threat}'.")
        views = started.views
        counts = [read_counts(metric, row) for row in self.store.image_rows(started)]
        if isinstance(metric, CertificationMetric):
            tables = metric.tables(counts)
            if view not in tables:
                raise GauntletError(f"'{evaluation.threat}' has no view '{view}', only {', '.join(tables)}.")
            return [(tables[view], np.full((len(counts), len(SCALARS)), np.nan))]
        if not all(isinstance(each, ImageCounts) for each in counts):
            raise GauntletError("a study of label maps needs a segmentation model.")
        ignoring, view = view.startswith(FOREGROUND), view.removeprefix(FOREGROUND).strip() or "all"
        if view != "all" and view not in views:
            raise GauntletError(
                f"the evaluation of '{evaluation.threat}' has no view '{view}', only {', '.join(views)}."
            )
        background = _background(metric) if ignoring else None
        of_views = [
            CountTable.of([each.confusion[index] for each in counts], len(metric.class_names), background)
            for index in range(len(views))
        ]
        scalars = np.stack([each.scalars for each in counts], axis=1)  # (views, N, SCALARS)
        if background is not None:
            of_views = [table.without_class(background) for table in of_views]
        if view in views:
            index = list(views).index(view)
            return [(of_views[index], scalars[index])]
        if views.kind is ViewKind.CANDIDATES:
            choice = WORST[worst](of_views).choice
            return [(worst_case.chosen(of_views, choice), scalars[choice, np.arange(len(counts))])]
        if views.kind is ViewKind.REGION:
            return [(of_views[0] + of_views[1], scalars[0] + scalars[1])]
        return list(zip(of_views, scalars, strict=True))

    @cached_property
    def weights(self) -> FloatArray:
        """(R, N) how often an image counts: each once in the first row, then without each image."""
        return left_out(self.images)


def _background(metric: Metric) -> int:
    """The class that is background; an error where a dataset has none."""
    background: int | None = getattr(metric, "background_index", None)
    if background is None:
        raise GauntletError("figures without background need a dataset with a background class, such as voc.")
    return background


def measured(function: Callable[[Results], Made]) -> Callable[[Figures], Made]:
    """A drawing or a margin that needs every image, so that it exists for evaluations only, not for printed figures."""

    def of_figures(figures: Figures) -> Made:
        if not isinstance(figures, Results):
            raise GauntletError("single images are not published; name models of your own with --model.")
        return function(figures)

    return of_figures
