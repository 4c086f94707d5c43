"""The compiled pass over pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled


@compiled
def count_pixels(
    prediction: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    parts: npt.NDArray[Any] | None,
    ignored: int,
    counts: npt.NDArray[np.int64],
) -> int:
    """Adds every valid pixel to counts[part, label, prediction]; the index of the first bad pixel, or -1."""
    classes = counts.shape[1]
    for index in range(labels.size):
        label = np.int64(labels[index])
        if label == ignored:
            continue
        predicted = np.int64(prediction[index])
        if label < 0 or label >= classes or predicted < 0 or predicted >= classes:
            return index
        if parts is None:
            counts[0, label, predicted] += 1
        else:
            counts[parts[index], label, predicted] += 1
    return -1
