"""Depth as the corruptions in 3D take it (docs/specs/corruptions.md, section 4.0)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

REACH = 15.625
"""Metres at which the relative depth is 1: 8000 units of 1/512 m."""
NEAREST, FARTHEST = 1 / 8000, 7999 / 8000
"""The least and the largest relative depth below 1 that a depth map of the reference can hold."""
CLOSEST = 65535 / 512
"""What the reference divides 1 by for the nearest point of an estimated depth map."""

Depth = npt.NDArray[np.float64]


def relative_depth(metres: Depth) -> Depth:
    """Metres / 15.625, at least 1/8000; what is 15.625 m away or farther gets the largest value below 1 of the image.

    Where nothing is nearer there is no such value, and 7999/8000 stands in for it: everything is at the far end.
    """
    d = np.maximum(metres / REACH, NEAREST)
    near = d[d < 1]
    d[d >= 1] = near.max() if near.size else FARTHEST
    return d


def estimated_depth(metres: Depth) -> Depth:
    """The depth in metres that the reference takes a scene for when a network estimates its depth, as in DetecBench.

    Such a network gives inverse depth without a scale. The reference stretches it over 0 to 65535 per image and reads
    d = min(1/2, 512 / value), so that the nearest point is at d = 1/128 and the farthest at 1/2. An image that is
    equally far everywhere is at the far end.
    """
    inverse = 1 / metres
    low, high = inverse.min(), inverse.max()
    near = (inverse - low) / (high - low if high > low else 1.0)
    d: Depth = np.minimum(0.5, 1 / (CLOSEST * near + 1e-6))
    return REACH * d
