"""A corruption as a plain function, and one that registers itself although it has an entry point."""

from __future__ import annotations

import numpy as np

from gauntlet.threats.corruptions import register
from gauntlet.threats.corruptions.draws import Draws


def haze(image: np.ndarray, severity: int, draws: Draws, density: float = 0.1) -> np.ndarray:
    """Mixes the image with white."""
    share = min(1.0, density * severity)
    return (image * (1 - share) + 255 * share).astype(np.uint8)


@register("veil", group="lab", random=False, aliases=("gauze",))
def veil(image: np.ndarray, severity: int, draws: Draws) -> np.ndarray:
    """Halves the contrast."""
    return (image // 2 + 64).astype(np.uint8)
