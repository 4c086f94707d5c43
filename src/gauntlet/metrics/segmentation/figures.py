"""Segmentation figures from counts: fractions in [0, 1], NaN where undefined (docs/specs/metrics.md, 2, 3 and 5)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import FloatArray, divide, nan_mean
from gauntlet.metrics.bootstrap import RESAMPLES, joint_intervals
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


def paired_intervals(
    accuracy: FloatArray, clean: FloatArray, *, resamples: int = RESAMPLES
) -> dict[str, tuple[float, float]]:
    """95 % bootstrap intervals over images of A, its clean value and RCE = (A_clean - A) / A_clean.

    Both means are taken over the same resampled images, so that RCE has the interval of a paired figure. NaN when fewer
    than two images have a value.

    Args:
        accuracy, clean: (N,) accuracy of every image in one region, or with one importance; NaN where it has none.
        resamples: number of bootstrap samples.
    """
    known = ~np.isnan(accuracy) & ~np.isnan(clean)
    accuracy, clean = accuracy[known], clean[known]

    def figures(weights: FloatArray) -> dict[str, FloatArray]:
        images = weights.sum(axis=1)
        means, base = weights @ accuracy / images, weights @ clean / images
        return {"A": means, "A_clean": base, "RCE": divide(base - means, base)}

    if len(accuracy) < 2:
        return dict.fromkeys(("A", "A_clean", "RCE"), (float("nan"), float("nan")))
    return joint_intervals(figures, len(accuracy), resamples=resamples)


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


def intervals(table: CountTable, *, resamples: int = RESAMPLES) -> dict[str, tuple[float, float]]:
    """95 % bootstrap intervals over images of mIoU, mAcc, aAcc, aAcc_images and NmIoU.

    NaN when fewer than two images have a valid pixel.

    Args:
        table: counts of N images.
        resamples: number of bootstrap samples.
    """
    table = table.select(np.flatnonzero(table.valid > 0))
    of_images = {"aAcc_images": image_accuracy(table), "NmIoU": image_iou(table)}

    def figures(weights: FloatArray) -> dict[str, FloatArray]:
        sums = table.weighted(weights)  # a row per resample
        of_sums = {
            "mIoU": image_iou(sums),
            "mAcc": nan_mean(divide(sums.true_positives, sums.ground_truth), axis=1),
            "aAcc": image_accuracy(sums),
        }
        images = weights.sum(axis=1)
        return of_sums | {name: weights @ values / images for name, values in of_images.items()}

    if len(table) < 2:
        return dict.fromkeys(("mIoU", "mAcc", "aAcc", *of_images), (float("nan"), float("nan")))
    return joint_intervals(figures, len(table), resamples=resamples)
