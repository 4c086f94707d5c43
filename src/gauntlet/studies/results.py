"""The results of a study: figures of every model, member and threat, with intervals over the same resampled images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import divide
from gauntlet.metrics.segmentation.counts import SCALARS, CountTable, ImageCounts
from gauntlet.metrics.segmentation.figures import mean_iou
from gauntlet.metrics.views import ViewKind
from gauntlet.models import GauntletModel
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store
from gauntlet.studies.figures import Figures, FloatArray, mean_of

RESAMPLES = 1000
Counted = tuple[CountTable, FloatArray]
"""Counts of N images in one view, and their SCALARS (N, 4)."""


@dataclass(frozen=True)
class Results(Figures):
    """Evaluations of a study.

    All evaluations are resampled alike, so that differences and ratios have the intervals of paired figures.

    Attributes:
        evaluations: by model, label of the member, label of the threat.
        store: where the counts of their images are.
        models, members: labels, in order.
        threats: labels of the threats, in order.
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
    _counted: dict[tuple[str, str, str, str], list[Counted]] = field(default_factory=dict)

    def of(self, model: str) -> Results:
        return replace(self, chosen=model)

    @cached_property
    def images(self) -> int:
        """How many images every evaluation is of."""
        return next(iter(self.evaluations.values())).images

    def evaluation(self, member: str, threat: str, model: str | None = None) -> Evaluation:
        """One evaluation, of the chosen model by default."""
        name = self._name(model)
        found = self.evaluations.get((name, member, threat))
        if found is None:
            raise GauntletError(f"the study has no result of '{name}' as '{member}' under '{threat}'.")
        return found

    def miou(self, member: str, threat: str, model: str | None = None) -> FloatArray:
        def figure(table: CountTable) -> FloatArray:
            pooled = table.weighted(self._weights)
            return np.asarray(mean_iou(pooled.true_positives, pooled.union))

        return mean_of([figure(table) for table in self.tables(member, threat, model)])

    def accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        def figure(table: CountTable) -> FloatArray:
            pooled = table.weighted(self._weights)
            return np.asarray(divide(pooled.true_positives.sum(axis=1), pooled.valid), dtype=np.float64)

        return mean_of([figure(table) for table in self.tables(member, threat, model, view)])

    def image_accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        def figure(table: CountTable) -> FloatArray:
            values = np.asarray(divide(table.true_positives.sum(axis=1), table.valid), dtype=np.float64)  # (N,)
            weights = self._weights * ~np.isnan(values)
            return np.asarray(divide(weights @ np.nan_to_num(values), weights.sum(axis=1)), dtype=np.float64)

        return mean_of([figure(table) for table in self.tables(member, threat, model, view)])

    def certainty(self, name: str, member: str, threat: str, model: str | None = None) -> FloatArray:
        def figure(table: CountTable, scalars: FloatArray) -> FloatArray:
            sums = scalars[:, SCALARS.index(name)]
            return np.asarray(divide(self._weights @ sums, self._weights @ table.valid), dtype=np.float64)

        return mean_of([figure(*counted) for counted in self._counts(member, threat, model, "all")])

    def parameters(self, member: str, model: str | None = None) -> float:
        source = self.sources[self._name(model), member]
        loaded = source.load() if isinstance(source, ModelSource) else source
        return float(sum(each.numel() for each in loaded.parameters()))

    def tables(self, member: str, threat: str, model: str | None = None, view: str = "all") -> list[CountTable]:
        """Counts of every image in one view of the evaluation; one table per trial of a random model."""
        return [table for table, _ in self._counts(member, threat, model, view)]

    def _counts(self, member: str, threat: str, model: str | None, view: str) -> list[Counted]:
        name = self._name(model)
        key = (name, member, threat, view)
        if key not in self._counted:
            self._counted[key] = self._read(self.evaluation(member, threat, name), view)
        return self._counted[key]

    def _read(self, evaluation: Evaluation, view: str) -> list[Counted]:
        started = self.store.started(evaluation.key)
        metric = self.store.metric(evaluation.key)
        if started is None or started.views is None:
            raise GauntletError(f"the store {self.store.address} has no counts of '{evaluation.threat}'.")
        views = started.views
        counts = [metric.decode(row.counts) for row in self.store.image_rows(started)]
        if not all(isinstance(each, ImageCounts) for each in counts):
            raise GauntletError("a study of label maps needs a segmentation model.")
        trials = views.kind is ViewKind.TRIALS and view == "all"
        chosen = range(len(views)) if trials else [list(views).index(view)]
        classes = len(metric.class_names)
        return [
            (
                CountTable.of([each.confusion[index] for each in counts], classes),
                np.stack([each.scalars[index] for each in counts]),
            )
            for index in chosen
        ]

    @cached_property
    def _weights(self) -> FloatArray:
        """(R, N): how often an image is drawn in each resample; the first row counts each once."""
        drawn = np.random.default_rng(0).multinomial(self.images, np.full(self.images, 1 / self.images), size=RESAMPLES)
        return np.vstack([np.ones((1, self.images)), drawn]).astype(np.float64)
