"""What the corruptions in 3D do to photographs whose depth was measured: the table of docs/corruptions.md.

    python scripts/real_depth.py RGB DEPTH [--scale 0.001]

Prints, for both ways to read depth, the mean absolute change of a pixel in grey levels at every severity, over all
images of the folder RGB; maps in DEPTH are named like the images, `--scale` is metres per unit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np

from gauntlet.datasets.depth_maps import DepthFolder, Metres
from gauntlet.pictures import Image
from gauntlet.samples import Sample
from gauntlet.threats.corruptions import corrupt
from gauntlet.threats.corruptions.settings import DepthRule

NAMES = ("near_focus", "far_focus", "fog_3d", "xy_motion_blur", "z_motion_blur", "flash")
"""Those that look at depth."""
RULES: tuple[DepthRule, ...] = ("metric", "estimated")


def pairs(images: Path, maps: Path, scale: float) -> Iterator[tuple[Image, Metres]]:
    """Photographs (H, W, 3) with their depth (H, W), which takes the photograph's size."""
    files = sorted(each for each in images.iterdir() if each.suffix in (".jpg", ".png"))
    depth = DepthFolder(maps, scale, [each.stem for each in files])
    for file in files:
        image = cv2.cvtColor(cv2.imread(str(file)), cv2.COLOR_BGR2RGB)
        metres = depth.read(Sample(file.stem, image))
        yield image, cv2.resize(metres, image.shape[1::-1], interpolation=cv2.INTER_NEAREST)


def change(image: Image, depth: Metres, name: str, severity: int, rule: DepthRule) -> float:
    """The mean absolute change of a pixel, in grey levels."""
    seen = corrupt(image, name, severity, depth=depth, depth_rule=rule)
    return float(np.abs(seen.astype(float) - image).mean())


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("maps", type=Path)
    parser.add_argument("--scale", type=float, default=0.001, help="metres per unit of a map")
    chosen = parser.parse_args()
    read = list(pairs(chosen.images, chosen.maps, chosen.scale))
    print(f"| {len(read)} images | depth | 1 | 2 | 3 | 4 | 5 |\n|---|---|---|---|---|---|---|")
    for name in NAMES:
        for rule in RULES:
            means = [np.mean([change(*each, name, severity, rule) for each in read]) for severity in range(1, 6)]
            print(f"| `{name}` | {rule} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |", flush=True)


if __name__ == "__main__":
    main()
