"""The part of an evaluation that depends on the task: which metric, how a perturbed batch becomes counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.prediction import predict_dense
from gauntlet.metrics import DensePrediction, SegmentationMetric
from gauntlet.metrics.counts import SCALARS, ImageCounts
from gauntlet.metrics.dense import REGION, WHOLE
from gauntlet.models import SegmentationModel
from gauntlet.samples import Batch, Sample
from gauntlet.threats.contract import Candidate, Perturbed

Importance = Callable[[Sample], npt.NDArray[np.floating]]


@dataclass(frozen=True)
class SegmentationTask:
    """Counts of label maps.

    Attributes:
        metric: what is counted.
        importance: weights of the pixels of a sample for A_P, or None.
        precision: of the model's forward pass.
    """

    metric: SegmentationMetric
    importance: Importance | None = None
    precision: str = "fp32"

    @classmethod
    def metric_options(cls, dataset: Dataset) -> dict[str, Any]:
        """What the store keeps, so that the counts can be read again."""
        return {
            "class_names": list(dataset.class_names),
            "ignore_index": dataset.ignore_index,
            "background_index": dataset.background_index,
        }

    def count(
        self, model: SegmentationModel, batch: Batch, perturbed: Perturbed
    ) -> tuple[list[ImageCounts], tuple[str, ...]]:
        """Counts of every image of a batch and what their views are."""
        if perturbed.candidates:
            return self._count_candidates(model, batch, perturbed.candidates)
        predictions = self._predict(model, batch, perturbed)
        if perturbed.region is None:
            return self._update(batch, predictions, None), WHOLE
        regions = perturbed.region.cpu().numpy().astype(bool)
        clean = predict_dense(model, batch.images, _ids(batch), self.precision)
        pairs = zip(self._update(batch, predictions, regions), self._update(batch, clean, regions), strict=True)
        return [ImageCounts.stack(pair) for pair in pairs], REGION

    def _predict(self, model: SegmentationModel, batch: Batch, perturbed: Perturbed) -> list[DensePrediction]:
        if perturbed.predictions is None:
            return predict_dense(model, perturbed.images, _ids(batch), self.precision)
        return [DensePrediction(labels.cpu().numpy()) for labels in perturbed.predictions]

    def _count_candidates(
        self, model: SegmentationModel, batch: Batch, candidates: Mapping[str, Candidate]
    ) -> tuple[list[ImageCounts], tuple[str, ...]]:
        """One view per candidate; an image that a battery skipped has no counts in that view."""
        per_candidate: list[list[ImageCounts]] = []
        for candidate in candidates.values():
            counts = [self._nothing() for _ in batch.samples]
            ran = candidate.ran.nonzero().flatten().tolist()
            if ran:
                part = Batch([batch.samples[index] for index in ran], candidate.images[candidate.ran])
                predictions = predict_dense(model, part.images, _ids(part), self.precision)
                for index, each in zip(ran, self._update(part, predictions, None), strict=True):
                    counts[index] = each
            per_candidate.append(counts)
        return [ImageCounts.stack(views) for views in zip(*per_candidate, strict=True)], tuple(candidates)

    def _nothing(self) -> ImageCounts:
        classes = len(self.metric.class_names)
        return ImageCounts(np.zeros((1, classes, classes), np.int64), np.full((1, len(SCALARS)), np.nan))

    def _update(
        self, batch: Batch, predictions: Sequence[DensePrediction], regions: npt.NDArray[np.bool_] | None
    ) -> list[ImageCounts]:
        counts = []
        for index, (sample, prediction) in enumerate(zip(batch.samples, predictions, strict=True)):
            if sample.labels is None:
                raise GauntletError(f"image '{sample.id}' has no label map; segmentation needs one.")
            weights = None if self.importance is None else self.importance(sample)
            region = None if regions is None else regions[index]
            try:
                counts.append(self.metric.update(prediction, sample.labels, region, weights))
            except GauntletError as error:
                raise GauntletError(f"image '{sample.id}': {error}") from None
        return counts


def _ids(batch: Batch) -> list[str]:
    return [sample.id for sample in batch.samples]
