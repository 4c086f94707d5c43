"""Accuracy weighted over the image: inside a region, outside it, or by any importance (docs/specs/metrics.md, 5)."""

from __future__ import annotations

import numpy as np

from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.metrics.segmentation.figures import FloatArray, divide, image_accuracy, nan_mean


def region_accuracy(table: CountTable) -> float:
    """A_M or A_Mbar from counts restricted to the region: mean over images of the accuracy there.

    Images whose region holds no valid pixel are skipped.
    """
    return float(nan_mean(image_accuracy(table)))


def importance_accuracy(correct: FloatArray, total: FloatArray) -> float:
    """A_P for importance weights: mean over images of the weight of the right pixels over the weight of all.

    Args:
        correct, total: (N,) sums of weights over the valid pixels of an image, right ones and all.
    """
    return float(nan_mean(divide(np.asarray(correct), np.asarray(total))))
