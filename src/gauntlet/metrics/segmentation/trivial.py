"""Figures of the trivial answer: the most frequent class everywhere; and classes that are only predicted."""

from __future__ import annotations

import numpy as np

from gauntlet.metrics.segmentation import figures
from gauntlet.metrics.segmentation.counts import CountTable


def most_frequent_answer(table: CountTable) -> CountTable:
    """Counts of the answer that names the class with most pixels of the dataset in every pixel.

    Args:
        table: counts of N images; only their ground truth is used.
    """
    truth = table.ground_truth
    answer = int(truth.sum(axis=0).argmax())
    right, predicted = np.zeros_like(truth), np.zeros_like(truth)
    right[:, answer] = truth[:, answer]
    predicted[:, answer] = table.valid
    return CountTable(right, truth, predicted)


def most_frequent_figures(table: CountTable) -> dict[str, float]:
    """Figures of the most frequent class as the answer everywhere, by name; fractions, NaN without a valid pixel.

    Args:
        table: counts of N images; only their ground truth is used.
    """
    answer = most_frequent_answer(table)
    return {
        "mIoU": figures.cmiou(answer),
        "mAcc": figures.mean_class_accuracy(answer),
        "aAcc": figures.pixel_accuracy(answer),
        "aAcc_images": figures.mean_image_accuracy(answer),
        "NmIoU": figures.nmiou(answer),
    }


def only_predicted(table: CountTable) -> list[int]:
    """Classes that no image has and that are predicted somewhere: each counts as IoU 0 in the mIoU of the dataset."""
    absent = table.ground_truth.sum(axis=0) == 0
    return [int(index) for index in np.flatnonzero(absent & (table.predicted.sum(axis=0) > 0))]
