"""Which candidate is the worst on every image: attacks of a battery, or the clean image (docs/specs/metrics.md, 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import FloatArray

Choice = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Selection:
    """Which of A candidates was chosen for each of N images, and how often each one was.

    Attributes:
        choice: (N,) index of the candidate.
        share: (A,) share of images on which a candidate was chosen; ties go to the lowest index.
        credit: (A,) the same with ties shared equally.
    """

    choice: Choice
    share: FloatArray
    credit: FloatArray


def select(values: FloatArray) -> Selection:
    """The candidate with the smallest value per image; ties go to the lowest index.

    Args:
        values: (A, N) a figure of every candidate on every image; NaN where it is undefined, which is never chosen
            while another candidate has a value.
    """
    credit = credit_per_image(values)
    counted = credit.any(axis=0)  # (N,) images on which some candidate has a value
    choice = np.where(np.isnan(values), np.inf, values).argmin(axis=0)
    images = max(int(counted.sum()), 1)
    first = np.arange(len(values))[:, None] == choice
    return Selection(choice, (first & counted).sum(axis=1) / images, credit.sum(axis=1) / images)


def credit_per_image(values: FloatArray) -> FloatArray:
    """(A, N) how much of every image a candidate wins by the smallest value; ties are shared equally.

    Args:
        values: (A, N) as for `select`; nobody wins an image on which no candidate has a value.
    """
    filled = np.where(np.isnan(values), np.inf, values)
    smallest = filled.min(axis=0)
    tied = (filled == smallest) & np.isfinite(smallest)
    return np.asarray(tied / np.maximum(tied.sum(axis=0), 1))
