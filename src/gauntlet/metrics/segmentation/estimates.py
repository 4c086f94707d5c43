"""Figures of segmentation as estimates over images: what their intervals, differences and ratios come from."""

from __future__ import annotations

import numpy as np

from gauntlet.metrics.arithmetic import FloatArray
from gauntlet.metrics.intervals import Estimate, Statistic, mean_of_images, mean_of_ratios
from gauntlet.metrics.segmentation.counts import CountTable, Int64Array
from gauntlet.metrics.segmentation.figures import image_accuracy, image_iou


def miou(table: CountTable) -> Estimate:
    """CmIoU, the usual mIoU."""
    return mean_of_ratios(table.true_positives, table.union, table.ground_truth)


def macc(table: CountTable) -> Estimate:
    """mAcc: the mean over classes of the share of their pixels that are right."""
    return mean_of_ratios(table.true_positives, table.ground_truth)


def accuracy(table: CountTable) -> Estimate:
    """aAcc: right pixels over valid pixels."""
    return mean_of_ratios(table.true_positives.sum(axis=1, keepdims=True), table.valid[:, None])


def accuracy_of_images(table: CountTable) -> Estimate:
    """The mean over images of their accuracy."""
    return mean_of_images(image_accuracy(table))


def miou_of_images(table: CountTable) -> Estimate:
    """NmIoU: the mean over images of their mIoU."""
    return mean_of_images(image_iou(table))


def class_iou(table: CountTable) -> list[Estimate]:
    """The IoU of every class; it rests on the images with the class."""
    return _of_classes(table, table.union)


def class_accuracy(table: CountTable) -> list[Estimate]:
    """The share of right pixels of every class; it rests on the images with the class."""
    return _of_classes(table, table.ground_truth)


def _of_classes(table: CountTable, denominators: Int64Array) -> list[Estimate]:
    parts = (table.true_positives, denominators, table.ground_truth)
    counted = table.valid > 0
    return [
        mean_of_ratios(*(part[:, [index]] for part in parts), counted=counted) for index in range(denominators.shape[1])
    ]


STATISTICS: dict[str, Statistic[CountTable]] = {
    "mIoU": miou,
    "mAcc": macc,
    "aAcc": accuracy,
    "aAcc_images": accuracy_of_images,
    "NmIoU": miou_of_images,
}
"""The headline figures that have intervals."""


def intervals(table: CountTable) -> dict[str, tuple[float, float]]:
    """95 % intervals over images of mIoU, mAcc, aAcc, aAcc_images and NmIoU; NaN for fewer than 8 images."""
    return {name: statistic(table).interval().bounds for name, statistic in STATISTICS.items()}


def paired_intervals(images: FloatArray, clean: FloatArray) -> dict[str, tuple[float, float]]:
    """95 % intervals over images of A, of its clean value and of RCE = 1 - A / A_clean, paired over images.

    Args:
        images, clean: (N,) accuracy of every image in one region, or with one importance; NaN where it has none.
    """
    known = ~np.isnan(images) & ~np.isnan(clean)
    mean, base = mean_of_images(images[known]), mean_of_images(clean[known])
    kept = (mean / base).interval()
    return {"A": mean.interval().bounds, "A_clean": base.interval().bounds, "RCE": (1 - kept.high, 1 - kept.low)}
