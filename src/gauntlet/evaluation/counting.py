"""From a perturbed batch to the counts of its images: asks the model, and gives what it says to the metric.

One class per task (`gauntlet.tasks`).
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.prediction import predict_dense, predict_objects
from gauntlet.metrics import (
    REGION,
    VERSION,
    WHOLE,
    CertificationMetric,
    DensePrediction,
    DetectionMetric,
    Metric,
    SegmentationMetric,
    Views,
    build_metric,
    metrics,
)
from gauntlet.metrics.certification import Votes
from gauntlet.metrics.detection.counts import ImageObjects
from gauntlet.metrics.segmentation import figures as segmentation
from gauntlet.metrics.segmentation.counts import CountTable, ImageCounts
from gauntlet.models import GauntletModel
from gauntlet.models.randomness import random_parts
from gauntlet.samples import Batch, Boxes, Sample, own_array
from gauntlet.seeding import ImageSeed
from gauntlet.tasks import DETECTION, SEGMENTATION, TASKS
from gauntlet.threats.contract import Candidate, Perturbed, Threat

Importance = Callable[..., npt.NDArray[np.floating]]
"""Weights (H, W) of pixels from a sample, or from a sample and the mask of the threat: bool (H, W), True where it acts,
everywhere for threats to the whole image and for clean images."""


class RunningFigure(ABC):
    """One figure over the images of a session so far, for the progress line.

    Attributes:
        name: of the figure.
    """

    name: ClassVar[str]

    @abstractmethod
    def add(self, counts: Sequence[Any]) -> float:
        """The figure with some images more."""


class Counter(ABC):
    """Counts what a model predicts; one class per task.

    Attributes:
        metric: what is counted.
    """

    metric: Metric

    @classmethod
    @abstractmethod
    def metric_options(cls, dataset: Dataset) -> dict[str, Any]:
        """The options of the metric for a dataset; the store keeps them, so that the counts can be read again."""

    @abstractmethod
    def running_figure(self) -> RunningFigure:
        """A figure that can be followed while the evaluation runs."""

    @abstractmethod
    def _predict(self, model: Any, images: torch.Tensor, seeds: Sequence[ImageSeed], trial: int = 0) -> Sequence[Any]:
        """What the model says about every image; a random one draws from the seeds and the trial."""

    def trials(self, model: GauntletModel) -> int:
        """How often the model is asked about images that it sees as a whole."""
        return 1

    @abstractmethod
    def _from_threat(self, predictions: Any) -> Sequence[Any]:
        """The predictions that a threat made itself, one per image."""

    @abstractmethod
    def _update(
        self, sample: Sample, prediction: Any, region: npt.NDArray[np.bool_] | None, covers: bool = False
    ) -> Any:
        """The counts of one image; `covers` as for `Perturbed`."""

    @abstractmethod
    def _skipped(self, sample: Sample) -> Any:
        """The counts of an image that a battery skipped."""

    @abstractmethod
    def _stack(self, views: Sequence[Any]) -> Any:
        """The views of several counts of one image as one."""

    def count(
        self, model: GauntletModel, batch: Batch, perturbed: Perturbed, seeds: Sequence[ImageSeed]
    ) -> tuple[list[ImageCounts] | list[ImageObjects], Views]:
        """Counts of every image of a batch and what their views are.

        A random model has one view per trial; of regions and batteries, whose views are others, the first trial.
        """
        if perturbed.candidates:
            return self._count_candidates(model, batch, perturbed.candidates, seeds)
        truth, trials = perturbed.truth(batch), self.trials(model)
        if perturbed.predictions is None and perturbed.region is None and trials > 1:
            per_trial = [
                self._update_all(truth, self._predict(model, perturbed.images, seeds, trial), None)
                for trial in range(trials)
            ]
            return [self._stack(views) for views in zip(*per_trial, strict=True)], Views.of_trials(trials)
        if perturbed.predictions is None:
            predictions = self._predict(model, perturbed.images, seeds)
        else:
            predictions = self._from_threat(perturbed.predictions)
        if perturbed.region is None:
            return self._update_all(truth, predictions, None), WHOLE
        regions = perturbed.region.cpu().numpy().astype(bool)
        # Counted before the model is asked again: its next answer may be in the same memory.
        under_threat = self._update_all(truth, predictions, regions, covers=perturbed.covers)
        predictions = self._predict(model, batch.images, seeds)
        clean = self._update_all(batch.samples, predictions, regions, covers=perturbed.covers)
        return [self._stack(pair) for pair in zip(under_threat, clean, strict=True)], REGION

    def _count_candidates(
        self,
        model: GauntletModel,
        batch: Batch,
        candidates: Mapping[str, Candidate],
        seeds: Sequence[ImageSeed],
    ) -> tuple[list[Any], Views]:
        """One view per candidate; an image that a battery skipped has no counts in that view."""
        per_candidate: list[list[Any]] = []
        for candidate in candidates.values():
            truth = candidate.samples or batch.samples
            counts = [self._skipped(sample) for sample in truth]
            ran = candidate.ran.nonzero().flatten().tolist()
            if ran:
                samples = [truth[index] for index in ran]
                predictions = self._predict(model, candidate.images[candidate.ran], [seeds[index] for index in ran])
                for index, each in zip(ran, self._update_all(samples, predictions, None), strict=True):
                    counts[index] = each
            per_candidate.append(counts)
        return [self._stack(views) for views in zip(*per_candidate, strict=True)], Views.of_candidates(candidates)

    def _update_all(
        self,
        samples: Sequence[Sample],
        predictions: Sequence[Any],
        regions: npt.NDArray[np.bool_] | None,
        covers: bool = False,
    ) -> list[Any]:
        counts = []
        for index, (sample, prediction) in enumerate(zip(samples, predictions, strict=True)):
            try:
                counts.append(self._update(sample, prediction, None if regions is None else regions[index], covers))
            except GauntletError as error:  # noqa: PERF203 - the message needs the image
                raise GauntletError(f"image '{sample.id}': {error}") from None
        return counts


@dataclass(frozen=True)
class SegmentationCounter(Counter):
    """Counts of label maps.

    Attributes:
        metric: what is counted.
        importance: weights of pixels for A_P, or None.
        precision: of the model's forward pass.
    """

    metric: SegmentationMetric
    importance: Importance | None = None
    precision: str = "fp32"

    @classmethod
    def metric_options(cls, dataset: Dataset) -> dict[str, Any]:
        return {
            "class_names": list(TASKS[SEGMENTATION].class_names(dataset)),
            "ignore_index": dataset.ignore_index,
            "background_index": dataset.background_index,
        }

    def running_figure(self) -> RunningFigure:
        return _RunningIoU()

    def trials(self, model: GauntletModel) -> int:
        return max((part.trials for part in random_parts(model)), default=1)

    def _predict(
        self, model: Any, images: torch.Tensor, seeds: Sequence[ImageSeed], trial: int = 0
    ) -> list[DensePrediction]:
        return predict_dense(model, images, _ids(seeds), self.precision, seeds, trial)

    def _from_threat(self, predictions: torch.Tensor) -> list[DensePrediction]:
        return [DensePrediction(labels.cpu().numpy()) for labels in predictions]

    def _update(
        self, sample: Sample, prediction: DensePrediction, region: npt.NDArray[np.bool_] | None, covers: bool = False
    ) -> ImageCounts:
        weights = None if self.importance is None else weigh(self.importance, sample, region)
        return self.metric.update(prediction, need_label_map(sample), region, weights)

    def _skipped(self, sample: Sample) -> ImageCounts:
        return self.metric.skipped(sample.labels)

    def _stack(self, views: Sequence[ImageCounts]) -> ImageCounts:
        return self.metric.stack(views)


@dataclass(frozen=True)
class DetectionCounter(Counter):
    """Detections beside the objects.

    Attributes:
        metric: what is kept and counted.
        precision: of the model's forward pass.
    """

    metric: DetectionMetric
    precision: str = "fp32"

    @classmethod
    def metric_options(cls, dataset: Dataset) -> dict[str, Any]:
        return {"class_names": list(TASKS[DETECTION].class_names(dataset)), "eleven_points": dataset.name == "voc2007"}

    def running_figure(self) -> RunningFigure:
        return _RunningF1(self.metric)

    def _predict(self, model: Any, images: torch.Tensor, seeds: Sequence[ImageSeed], trial: int = 0) -> list[Boxes]:
        return predict_objects(model, images, _ids(seeds), self.precision)

    def _from_threat(self, predictions: Sequence[Boxes]) -> Sequence[Boxes]:
        return predictions

    def _update(
        self, sample: Sample, prediction: Boxes, region: npt.NDArray[np.bool_] | None, covers: bool = False
    ) -> ImageObjects:
        return self.metric.update(prediction, _objects(sample), region, covers=covers)

    def _skipped(self, sample: Sample) -> ImageObjects:
        return self.metric.skipped(_objects(sample))

    def _stack(self, views: Sequence[ImageObjects]) -> ImageObjects:
        return self.metric.stack(views)


@dataclass(frozen=True)
class CertificationCounter(Counter):
    """Votes, as a threat took them.

    Attributes:
        metric: what turns them into certified figures.
    """

    metric: CertificationMetric

    @classmethod
    def metric_options(cls, dataset: Dataset) -> dict[str, Any]:
        return {"class_names": list(TASKS[SEGMENTATION].class_names(dataset)), "ignore_index": dataset.ignore_index}

    def running_figure(self) -> RunningFigure:
        return _RunningCertified(self.metric)

    def _predict(self, model: Any, images: torch.Tensor, seeds: Sequence[ImageSeed], trial: int = 0) -> Sequence[Any]:
        raise GauntletError("only the threat 'certify' takes votes.")

    def _from_threat(self, predictions: Sequence[Votes]) -> Sequence[Votes]:
        return predictions

    def _update(
        self, sample: Sample, prediction: Votes, region: npt.NDArray[np.bool_] | None, covers: bool = False
    ) -> Votes:
        return self.metric.update(prediction, need_label_map(sample), region)

    def _skipped(self, sample: Sample) -> Any:
        return self.metric.skipped(sample.labels)

    def _stack(self, views: Sequence[Any]) -> Any:
        return self.metric.stack(views)


COUNTERS: dict[str, type[SegmentationCounter] | type[DetectionCounter]] = {
    SEGMENTATION: SegmentationCounter,
    DETECTION: DetectionCounter,
}
"""The counter of every task."""


def metric_options(task: str, dataset: Dataset, threat: Threat, *, objects: bool = False) -> dict[str, Any]:
    """The options of the metric of an evaluation; the store keeps them, so that the counts can be read again.

    Args:
        task, dataset, threat: of the evaluation.
        objects: whether counts keep every connected object, for size bias.
    """
    own = threat.metric()
    if objects and (own is not None or task != SEGMENTATION):
        raise GauntletError("objects are connected pixels of a label map; leave the option out for this evaluation.")
    if objects and not threat.one_truth:
        raise GauntletError(f"the views of '{threat.name}' do not show the same objects; leave the option objects out.")
    if own is None:
        version = metrics[TASKS[task].metric].version
        return {
            **COUNTERS[task].metric_options(dataset),
            **({"objects": True} if objects else {}),
            **({VERSION: version} if version > 1 else {}),
        }
    name, options = own
    return {"metric": name, **CertificationCounter.metric_options(dataset), **options}


def build_counter(
    task: str, options: Mapping[str, Any], *, importance: Importance | None = None, precision: str = "fp32"
) -> Counter:
    """The counter of a task, with its metric.

    Args:
        task: "segmentation" or "detection".
        options: of the metric, as `metric_options` gives them.
        importance: weights of pixels for A_P; segmentation only.
        precision: of the model's forward pass.
    """
    metric = build_metric(task, options)
    if isinstance(metric, CertificationMetric):
        return CertificationCounter(metric)
    if isinstance(metric, SegmentationMetric):
        return SegmentationCounter(metric, importance, precision)
    if importance is not None:
        raise GauntletError("importance weighs pixels, and a detector predicts boxes; leave it out.")
    assert isinstance(metric, DetectionMetric)
    return DetectionCounter(metric, precision)


class _RunningIoU(RunningFigure):
    name = "mIoU"

    def __init__(self) -> None:
        self._confusion: npt.NDArray[np.int64] | None = None

    def add(self, counts: Sequence[ImageCounts]) -> float:
        for each in counts:
            self._confusion = each.confusion[0] + (0 if self._confusion is None else self._confusion)
        if self._confusion is None:
            return float("nan")
        return segmentation.cmiou(CountTable.of([self._confusion], len(self._confusion)))


class _RunningF1(RunningFigure):
    name = "F1"

    def __init__(self, metric: DetectionMetric) -> None:
        self._metric, self._sum, self._images = metric, 0.0, 0

    def add(self, counts: Sequence[ImageObjects]) -> float:
        for each in counts:
            self._sum += self._metric.per_image(each, WHOLE)[0]["F1"]
            self._images += 1
        return self._sum / self._images if self._images else float("nan")


class _RunningCertified(RunningFigure):
    name = "certified accuracy"

    def __init__(self, metric: CertificationMetric) -> None:
        self._metric, self._sum, self._images = metric, 0.0, 0

    def add(self, counts: Sequence[Votes]) -> float:
        for each in counts:
            self._sum += self._metric.per_image(each, WHOLE)[0]["accuracy"]
            self._images += 1
        return self._sum / self._images if self._images else float("nan")


def weigh(importance: Importance, sample: Sample, region: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.floating]:
    """The weights (H, W) of the pixels of a sample, P(M) of Marchiori Pietrosanti et al., Eq. 2."""
    size = sample.image.shape[:2]
    given = (np.ones(size, np.bool_) if region is None else region.copy(),) if sees_mask(importance) else ()
    weights = own_array(importance(sample, *given), "the importance")
    if weights.shape != size:
        raise GauntletError(f"the importance has the shape {weights.shape}; expected one weight per pixel, {size}.")
    return weights


def sees_mask(importance: Importance) -> bool:
    """Whether a function takes the mask: a second argument that must be given, or one that is called "mask"."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = [each for each in inspect.signature(importance).parameters.values() if each.kind in positional]
    return len(given) > 1 and (given[1].default is inspect.Parameter.empty or given[1].name == "mask")


def need_label_map(sample: Sample) -> npt.NDArray[np.integer]:
    """The labels of a sample; an error where it has none."""
    if sample.labels is None:
        raise GauntletError("it has no label map; segmentation needs one.")
    return sample.labels


def _objects(sample: Sample) -> Boxes:
    if sample.boxes is None:
        raise GauntletError("it has no boxes; detection needs a dataset with boxes.")
    return sample.boxes


def _ids(seeds: Sequence[ImageSeed]) -> list[str]:
    return [seed.image_id for seed in seeds]
