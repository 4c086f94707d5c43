"""Segmentation figures from counts: fractions in [0, 1], NaN where undefined (docs/specs/metrics.md, 2, 3 and 5)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import FloatArray, divide, nan_mean
from gauntlet.metrics.segmentation.counts import CountTable

ClassesOfImage = Literal["union", "ground_truth", "all"]


def pixel_accuracy(table: CountTable) -> float:
    """aAcc, pooled: right pixels of the dataset over its valid pixels."""
    return float(divide(table.true_positives.sum(), table.ground_truth.sum()))


def image_accuracy(table: CountTable) -> FloatArray:
    """(N,) accuracy of every image; NaN for an image without a valid pixel."""
    return divide(table.true_positives.sum(axis=1), table.valid)


def mean_image_accuracy(table: CountTable) -> float:
    """Mean over images of their accuracy; images without a valid pixel are skipped.

    Of counts inside a region this is A_M, of counts outside it A_Mbar.
    """
    return float(nan_mean(image_accuracy(table)))


def importance_accuracy(correct: FloatArray, total: FloatArray) -> float:
    """A_P for importance weights: mean over images of the weight of the right pixels over the weight of all.

    Args:
        correct, total: (N,) sums of weights over the valid pixels of an image, right ones and all.
    """
    return float(nan_mean(divide(correct, total)))


def class_accuracy(table: CountTable) -> FloatArray:
    """(K,) right pixels of a class over its pixels; NaN for a class that does not occur."""
    return divide(table.true_positives.sum(axis=0), table.ground_truth.sum(axis=0))


def mean_class_accuracy(table: CountTable) -> float:
    """mAcc: mean of the class accuracies over classes that occur."""
    return float(nan_mean(class_accuracy(table)))


def mean_iou(true_positives: npt.ArrayLike, union: npt.ArrayLike) -> FloatArray:
    """Mean of TP / U over the classes with U > 0, from counts (..., K); NaN where no class has a union.

    Every mIoU is this: of an image from its counts, of a dataset from the sums over its images.
    """
    return nan_mean(divide(true_positives, union), axis=-1)


def class_iou(table: CountTable) -> FloatArray:
    """(K,) IoU over the dataset; NaN where a class neither occurs nor is predicted."""
    return divide(table.true_positives.sum(axis=0), table.union.sum(axis=0))


def cmiou(table: CountTable, *, divide_by_classes: bool = False) -> float:
    """CmIoU, the usual mIoU: mean of the class IoUs over classes with a union.

    Args:
        table: counts.
        divide_by_classes: divide by K instead (Halmosi et al., Eq. 6 as printed).
    """
    if divide_by_classes:
        iou = class_iou(table)
        return float(np.nansum(iou) / iou.size) if table.valid.sum() else float("nan")
    return float(mean_iou(table.true_positives.sum(axis=0), table.union.sum(axis=0)))


def image_iou(table: CountTable, classes: ClassesOfImage = "union") -> FloatArray:
    """(N,) mean IoU of every image; NaN for an image without a valid pixel.

    Args:
        table: counts.
        classes: which classes an image is averaged over: those with a union in it, those in its ground truth, or
            all K with 0/0 = 0 (Halmosi et al., Eq. 7 as printed).
    """
    union = table.union
    if classes == "ground_truth":
        union = np.where(table.ground_truth > 0, union, 0)  # the others leave the mean
    if classes == "all":
        iou = np.nan_to_num(divide(table.true_positives, union)).mean(axis=1)
    else:
        iou = mean_iou(table.true_positives, union)
    return np.where(table.valid > 0, iou, np.nan)


def nmiou(table: CountTable, classes: ClassesOfImage = "union") -> float:
    """NmIoU: mean over images of their mean IoU; images without a valid pixel are skipped."""
    return float(nan_mean(image_iou(table, classes)))
