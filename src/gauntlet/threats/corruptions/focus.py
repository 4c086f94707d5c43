"""A lens focused too near or too far (docs/specs/corruptions.md, section 4.1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.depth import Depth, relative_depth
from gauntlet.threats.corruptions.draws import Draws
from gauntlet.threats.corruptions.filters import gaussian_filter

PLANES = 9
MARGIN = 1e-4
NEAR_FOCUS, FAR_FOCUS = 0, 7
"""The planes in focus: the nearest one, and the 87.5 % quantile of depth."""
SHARP = 0.1
"""Pixels; a circle of confusion below this leaves a plane as it is."""


def near_focus(image: Image, severity: int, draws: Draws, depth: Depth) -> Image:
    """The nearest plane is sharp."""
    return _focused(image, relative_depth(depth), severity + 2.0, NEAR_FOCUS)


def far_focus(image: Image, severity: int, draws: Draws, depth: Depth) -> Image:
    """The plane at the 87.5 % quantile of depth is sharp."""
    return _focused(image, relative_depth(depth), severity + 0.5, FAR_FOCUS)


def _focused(image: Image, d: Depth, aperture: float, plane: int) -> Image:
    """Every pixel from the blurred images of the two planes around its depth.

    Args:
        image: what the lens sees.
        d: relative depth.
        aperture: the scale of the circles of confusion, in pixels.
        plane: which one is in focus.
    """
    planes = np.quantile(d, np.linspace(0, 1, PLANES))
    planes[0] -= MARGIN
    planes[-1] += MARGIN
    radii = aperture * np.abs(planes - planes[plane]) / planes
    height, width = d.shape
    rgb = image.astype(np.float32)
    stack = np.empty((PLANES, height, width, 3), np.float32)
    for layer, radius in enumerate(radii):
        stack[layer] = _blurred(rgb, float(radius))
    out = np.empty_like(image)
    _gather(stack, planes, d, out)
    return out


def _blurred(rgb: npt.NDArray[np.float32], sigma: float) -> npt.NDArray[np.floating]:
    """A Gaussian of floor(3 sigma) taps, one more if that is even; it is cut at about 1.5 sigma."""
    taps = int(3 * sigma)
    reach = min(taps // 2, max(rgb.shape))  # a longer kernel would see nothing new
    if sigma < SHARP or reach == 0:
        return rgb
    return gaussian_filter(rgb, (sigma, sigma), truncate=reach / sigma)


@compiled
def _gather(stack: npt.NDArray[np.float32], planes: npt.NDArray[np.float64], d: Depth, out: Image) -> None:
    """Weights 1 - t^2 and 1 - (1 - t)^2 for a depth that lies t of the way from one plane to the next."""
    for y in range(d.shape[0]):
        for x in range(d.shape[1]):
            after = 1
            while planes[after] < d[y, x]:
                after += 1
            t = (d[y, x] - planes[after - 1]) / (planes[after] - planes[after - 1])
            before_weight, after_weight = 1 - t * t, 1 - (1 - t) * (1 - t)
            total = before_weight + after_weight
            for channel in range(3):
                mixed = before_weight * stack[after - 1, y, x, channel] + after_weight * stack[after, y, x, channel]
                out[y, x, channel] = np.uint8(np.int32(min(mixed / total, 255.0)))
