"""Figures of the network in training on the validation split: mIoU of segmentation, mAP of detection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.metrics.detection.coco_figures import coco_curves
from gauntlet.metrics.segmentation.confusion import confusion
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.metrics.segmentation.figures import class_iou, cmiou, pixel_accuracy
from gauntlet.models.contract import DetectionModel, SegmentationModel
from gauntlet.samples import Boxes, collate
from gauntlet.training.distributed import Processes


class Figures(Protocol):
    """What a log and a card need of a clean validation; fractions in [0, 1]."""

    @property
    def summary(self) -> dict[str, float]:
        """Figures over all classes by their names, the most important first."""

    @property
    def by_class(self) -> tuple[str, Sequence[float]]:
        """A figure's name and its value for every class, NaN for a class that occurs nowhere."""


@dataclass(frozen=True)
class ValidationFigures:
    """Figures of a segmentation network.

    Attributes:
        miou: mean over the classes that occur in labels or predictions, from one confusion matrix over all images.
        accuracy: share of the labelled pixels that are right.
        class_iou: one per class, NaN for a class that occurs nowhere.
    """

    miou: float
    accuracy: float
    class_iou: Sequence[float]

    @property
    def summary(self) -> dict[str, float]:
        return {"mIoU": self.miou, "aAcc": self.accuracy}

    @property
    def by_class(self) -> tuple[str, Sequence[float]]:
        return "IoU", self.class_iou


@dataclass(frozen=True)
class DetectionFigures:
    """Figures of a detector, COCO's.

    Attributes:
        mean_ap: mean over IoU thresholds from 0.5 to 0.95 and over classes.
        mean_ap50: at an IoU of 0.5.
        class_ap: mAP of every class.
    """

    mean_ap: float
    mean_ap50: float
    class_ap: Sequence[float]

    @property
    def summary(self) -> dict[str, float]:
        return {"mAP": self.mean_ap, "mAP50": self.mean_ap50}

    @property
    def by_class(self) -> tuple[str, Sequence[float]]:
        return "AP", self.class_ap


def validate(model: SegmentationModel, dataset: Dataset, processes: Processes) -> ValidationFigures:
    """Figures over the dataset, each process doing its share; the model must be in eval mode."""
    counts = np.zeros((model.num_classes, model.num_classes), dtype=np.int64)
    with torch.inference_mode():
        for index in range(processes.rank, len(dataset), processes.count):
            sample = dataset[index]
            if sample.labels is None:
                continue
            predicted = model(collate([sample], processes.device).images).max(dim=1).indices[0]
            labels = np.asarray(sample.labels)
            prediction = predicted.to("cpu", torch.uint8 if model.num_classes <= 256 else torch.int32).numpy()
            counts += confusion(prediction, labels, model.num_classes, dataset.ignore_index)[0]
    totals = processes.total(torch.from_numpy(counts)).numpy()
    return figures_from_confusion(totals)


def validate_detector(model: DetectionModel, dataset: Dataset, processes: Processes) -> DetectionFigures:
    """Figures over the dataset, each process predicting its share; the model must be in eval mode."""
    own: list[tuple[int, Boxes, Boxes]] = []
    for index in range(processes.rank, len(dataset), processes.count):
        sample = dataset[index]
        if sample.boxes is not None:
            own.append((index, sample.boxes, model.predict(collate([sample], processes.device).images)[0]))
    # In the order of the dataset, whoever predicted: among detections of equal score the first image comes first.
    everything = sorted(processes.gathered(own), key=lambda each: each[0])
    truths, detections = [truth for _, truth, _ in everything], [detected for _, _, detected in everything]
    curves = coco_curves(truths, detections, model.num_classes)
    figures = curves.figures()
    return DetectionFigures(figures["mAP"], figures["mAP50"], curves.per_class()["AP"].tolist())


def figures_from_confusion(counts: npt.NDArray[np.int64]) -> ValidationFigures:
    """Figures of a confusion matrix (K, K), ground truth in rows."""
    table = CountTable.of([counts], len(counts))
    return ValidationFigures(cmiou(table), pixel_accuracy(table), class_iou(table).tolist())
