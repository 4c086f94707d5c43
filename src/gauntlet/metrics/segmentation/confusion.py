"""Counting: one pass over the pixels of an image gives everything the segmentation figures need."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError

IntArray = npt.NDArray[np.integer]
NO_LABEL: int = np.iinfo(np.int64).min
"""Stands for the ignored label where every pixel counts."""


def confusion(
    prediction: IntArray,
    labels: IntArray,
    num_classes: int,
    ignore_index: int | None = 255,
    parts: npt.NDArray[np.uint8] | None = None,
    num_parts: int = 1,
) -> npt.NDArray[np.int64]:
    """Confusion matrices of one image, ground truth in rows and predictions in columns.

    Args:
        prediction: (H, W) class indices below num_classes.
        labels: (H, W) class indices, or `ignore_index` where a pixel counts for nothing.
        num_classes: K.
        ignore_index: the label that is left out, or None when every pixel counts.
        parts: (H, W) number of the part of the image a pixel lies in, below num_parts; None when there is one part.
        num_parts: P.

    Returns:
        (P, K, K) int64; entry [p, g, c] is the number of pixels of part p with ground truth g and prediction c.
    """
    if prediction.shape != labels.shape:
        raise GauntletError(f"the prediction has the shape {prediction.shape}, the labels {labels.shape}.")
    if parts is not None and parts.shape != labels.shape:
        raise GauntletError(f"the region has the shape {parts.shape}, the labels {labels.shape}.")
    counts = np.zeros((num_parts, num_classes, num_classes), dtype=np.int64)
    flat_parts = None if parts is None else np.ascontiguousarray(parts).reshape(-1)
    ignored = NO_LABEL if ignore_index is None else ignore_index
    from gauntlet.metrics.segmentation.kernels import count_pixels  # numba is loaded at the first count

    bad = count_pixels(
        np.ascontiguousarray(prediction).reshape(-1),
        np.ascontiguousarray(labels).reshape(-1),
        flat_parts,
        ignored,
        counts,
    )
    if bad >= 0:
        _raise_bad_pixel(prediction.reshape(-1)[bad], labels.reshape(-1)[bad], num_classes, ignore_index)
    return counts


def _raise_bad_pixel(prediction: Any, label: Any, num_classes: int, ignore_index: int | None) -> None:
    valid = f"0 to {num_classes - 1}" + ("" if ignore_index is None else f" or {ignore_index} (ignored)")
    if 0 <= label < num_classes:
        raise GauntletError(f"a predicted class is {prediction}; expected 0 to {num_classes - 1}.")
    raise GauntletError(f"a label is {label}; expected {valid}: check the dataset's classes and ignore index.")
