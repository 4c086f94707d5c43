"""Segmentation figures from counts: fractions in [0, 1], NaN where undefined (docs/specs/metrics.md, 2 and 3)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.segmentation.counts import CountTable

FloatArray = npt.NDArray[np.float64]
ClassesOfImage = Literal["union", "ground_truth", "all"]


def divide(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> FloatArray:
    """Quotients; NaN where the denominator is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(numerator, np.float64), np.asarray(denominator, np.float64))
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0))


def nan_mean(values: npt.ArrayLike, axis: int | None = None) -> FloatArray:
    """Mean over what is not NaN; NaN where nothing is left (NumPy warns there, a figure does not)."""
    array = np.asarray(values, np.float64)
    present = ~np.isnan(array)
    return divide(np.where(present, array, 0).sum(axis=axis), present.sum(axis=axis))


def pixel_accuracy(table: CountTable) -> float:
    """aAcc, pooled: right pixels of the dataset over its valid pixels."""
    return float(divide(table.true_positives.sum(), table.ground_truth.sum()))


def image_accuracy(table: CountTable) -> FloatArray:
    """(N,) accuracy of every image; NaN for an image without a valid pixel."""
    return divide(table.true_positives.sum(axis=1), table.valid)


def class_accuracy(table: CountTable) -> FloatArray:
    """(K,) right pixels of a class over its pixels; NaN for a class that does not occur."""
    return divide(table.true_positives.sum(axis=0), table.ground_truth.sum(axis=0))


def mean_class_accuracy(table: CountTable) -> float:
    """mAcc: mean of the class accuracies over classes that occur."""
    return float(nan_mean(class_accuracy(table)))


def class_iou(table: CountTable) -> FloatArray:
    """(K,) IoU over the dataset; NaN where a class neither occurs nor is predicted."""
    return divide(table.true_positives.sum(axis=0), table.union.sum(axis=0))


def cmiou(table: CountTable, *, divide_by_classes: bool = False) -> float:
    """CmIoU, the usual mIoU: mean of the class IoUs over classes with a union.

    Args:
        table: counts.
        divide_by_classes: divide by K instead (Halmosi et al., Eq. 6 as printed).
    """
    iou = class_iou(table)
    if divide_by_classes:
        return float(np.nansum(iou) / iou.size) if table.valid.sum() else float("nan")
    return float(nan_mean(iou))


def image_iou(table: CountTable, classes: ClassesOfImage = "union") -> FloatArray:
    """(N,) mean IoU of every image; NaN for an image without a valid pixel.

    Args:
        table: counts.
        classes: which classes an image is averaged over: those with a union in it, those in its ground truth, or
            all K with 0/0 = 0 (Halmosi et al., Eq. 7 as printed).
    """
    iou = divide(table.true_positives, table.union)  # (N, K)
    if classes == "ground_truth":
        iou = np.where(table.ground_truth > 0, iou, np.nan)
    if classes == "all":
        return np.where(table.valid > 0, np.nan_to_num(iou).mean(axis=1), np.nan)
    return np.where(table.valid > 0, nan_mean(iou, axis=1), np.nan)


def nmiou(table: CountTable, classes: ClassesOfImage = "union") -> float:
    """NmIoU: mean over images of their mean IoU; images without a valid pixel are skipped."""
    return float(nan_mean(image_iou(table, classes)))


def micro_iou(table: CountTable) -> float:
    """IoU over all classes at once = a / (2 - a) with a = aAcc; only for comparison with tools that report it."""
    return float(divide(table.true_positives.sum(), table.union.sum()))
