"""Depth as the corruptions in 3D take it (specs/corruptions.md, section 4.0)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

REACH = 15.625
"""Metres at which the relative depth is 1: 8000 units of 1/512 m."""
NEAREST, FARTHEST = 1 / 8000, 7999 / 8000
"""The least and the largest relative depth below 1 that a depth map of the reference can hold."""

Depth = npt.NDArray[np.float64]


def relative_depth(metres: Depth) -> Depth:
    """Metres / 15.625, at least 1/8000; what is 15.625 m away or farther gets the largest value below 1 of the image.

    Where nothing is nearer there is no such value, and 7999/8000 stands in for it: everything is at the far end.
    """
    d = np.maximum(metres / REACH, NEAREST)
    near = d[d < 1]
    d[d >= 1] = near.max() if near.size else FARTHEST
    return d
