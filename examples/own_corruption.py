"""A corruption of your own: a function from an image and a severity to an image.

python examples/own_corruption.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gauntlet
from gauntlet.threats.corruptions import register

STRENGTHS = (0.2, 0.35, 0.5, 0.65, 0.8)


# random=False: the outcome does not depend on the seed. A random one draws from `draws`, never from a global generator.
@register("vignette", group="optics", random=False)
def vignette(image: np.ndarray, severity: int, draws: Any) -> np.ndarray:
    """A lens that darkens towards the corners: uint8 (H, W, 3) in and out, the input stays as it is."""
    height, width = image.shape[:2]
    rows, columns = np.linspace(-1, 1, height)[:, None], np.linspace(-1, 1, width)
    distance = (rows**2 + columns**2) / 2
    factor = 1 - STRENGTHS[severity - 1] * distance
    return (image * factor[..., None]).astype(np.uint8)


def main() -> None:
    """Shows what it does to an image, and to a model: everywhere, and only in some patches."""
    dataset = gauntlet.load_dataset("streets", split="val", limit=2)
    image = dataset[0].image
    dark = gauntlet.corruptions.corrupt(image, "vignette", severity=5)
    print(f"a corner pixel goes from {image[0, 0].tolist()} to {dark[0, 0].tolist()}")
    everywhere = {"corruption": {"name": "vignette", "severity": 5}}
    in_patches = {"localized": {"corruption": {"name": "vignette", "severity": 5}, "ratio": 0.5, "patch": 32}}
    for threat in ("clean", everywhere, in_patches):
        result = gauntlet.evaluate("streets/enet", dataset, threat)
        print(f"{result.threat}: mIoU {100 * result.figures['mIoU']:.1f} %")


if __name__ == "__main__":
    main()
