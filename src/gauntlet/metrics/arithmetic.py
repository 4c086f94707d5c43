"""Arithmetic that every task shares: quotients and means that leave out what is undefined."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def divide(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> FloatArray:
    """Quotients; NaN where the denominator is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(numerator, np.float64), np.asarray(denominator, np.float64))
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0))


def nan_mean(values: npt.ArrayLike, axis: int | None = None) -> FloatArray:
    """Mean over what is not NaN; NaN without a warning where everything is."""
    array = np.asarray(values, np.float64)
    present = ~np.isnan(array)
    return divide(np.where(present, array, 0).sum(axis=axis), present.sum(axis=axis))


def corruption_error(accuracy: float, base: float) -> float:
    """CE = (A_base - A) / A_base (docs/specs/metrics.md, 4); negative when A is above A_base, NaN when A_base is 0.

    With the model's own clean accuracy in the same region as the base this is the relative corruption error RCE.
    Average accuracies over images and corruptions first, then form the quotient.
    """
    return float(divide(base - accuracy, base))
