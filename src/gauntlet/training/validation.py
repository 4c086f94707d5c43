"""mIoU of the network in training on the validation split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.metrics.confusion import confusion
from gauntlet.models.contract import SegmentationModel
from gauntlet.samples import collate
from gauntlet.training.processes import Processes


@dataclass(frozen=True)
class ValidationFigures:
    """Figures of a clean validation, fractions in [0, 1].

    Attributes:
        miou: mean over the classes that occur in labels or predictions, from one confusion matrix over all images.
        accuracy: share of the labelled pixels that are right.
        class_iou: one per class, NaN for a class that occurs nowhere.
    """

    miou: float
    accuracy: float
    class_iou: Sequence[float]


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


def figures_from_confusion(counts: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> ValidationFigures:
    """Figures of a confusion matrix, ground truth in rows."""
    hits = np.diag(counts).astype(np.float64)
    union = counts.sum(axis=0) + counts.sum(axis=1) - hits
    class_iou = np.divide(hits, union, out=np.full(len(hits), np.nan), where=union > 0)
    miou = float(np.nanmean(class_iou)) if np.isfinite(class_iou).any() else float("nan")
    total = int(counts.sum())
    return ValidationFigures(miou, float(hits.sum() / total) if total else float("nan"), class_iou.tolist())
