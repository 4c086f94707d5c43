"""Figures that need no model, beside those of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gauntlet.errors import GauntletError
from gauntlet.metrics import SegmentationMetric, ViewKind
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.metrics.segmentation.trivial import most_frequent_figures, only_predicted
from gauntlet.results import Store
from gauntlet.results.record import read_counts
from gauntlet.tasks import SEGMENTATION, get_task


@dataclass(frozen=True)
class Trivial:
    """What a figure is compared with.

    Attributes:
        figures: of the trivial answer by name: the most frequent class in every pixel, no detections; fractions.
        answer: the most frequent class, or "" in detection.
        only_predicted: classes that are predicted and never in the truth; each counts as IoU 0 in the mIoU.
    """

    figures: dict[str, float]
    answer: str = ""
    only_predicted: Sequence[str] = ()


def trivial_figures(store: Store, key: str) -> dict[str, float]:
    """Figures of the trivial answer on the images of an evaluation, by name; fractions.

    Segmentation: the class with most pixels, in every pixel. Detection: no detections, 0. Computed from the counts per
    image that the store keeps; empty where it keeps none.

    Args:
        store: with the evaluation.
        key: of the evaluation.
    """
    return read_trivial(store, key).figures


def read_trivial(store: Store, key: str) -> Trivial:
    """The trivial answer on the images of an evaluation, and the classes that are only predicted in it."""
    started, evaluation = store.started(key), store.load(key)
    if started is None or evaluation is None:
        raise GauntletError(f"the store {store.address} has no finished evaluation with the key '{key}'.")
    if evaluation.task != SEGMENTATION:
        return Trivial(dict.fromkeys(get_task(evaluation.task).figures, 0.0))
    metric = store.metric(key)
    if started.views is None or not isinstance(metric, SegmentationMetric):
        return Trivial({})
    # Inside and outside a region make up the image. Other views are of the whole image each, and one may be skipped.
    parts = 2 if started.views.kind is ViewKind.REGION else None
    matrices = []
    for row in store.image_rows(started):
        confusion = read_counts(metric, row).confusion[:parts]
        matrices.append(confusion.sum(axis=0) if parts else confusion[confusion.sum(axis=(1, 2)).argmax()])
    table = CountTable.of(matrices, len(metric.class_names))
    if not table.valid.sum():
        return Trivial({})
    whole = started.views.kind in (ViewKind.WHOLE, ViewKind.REGION)
    names = [metric.class_names[index] for index in only_predicted(table)] if whole else []
    answer = metric.class_names[int(np.argmax(table.ground_truth.sum(axis=0)))]
    return Trivial(most_frequent_figures(table), answer, names)
