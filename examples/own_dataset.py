"""Your own images: as a folder, without writing code, or as a class of your own.

python examples/own_dataset.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn

import gauntlet
from gauntlet.datasets import Dataset, datasets
from gauntlet.samples import Sample

CLASSES = ("night", "day")


def scene(number: int) -> tuple[np.ndarray, np.ndarray]:
    """An image (uint8 RGB) whose right part is bright, and its label map; where they meet is void (255)."""
    border = 20 + 8 * number
    image = np.random.default_rng(number).integers(20, 90, (48, 64, 3), dtype=np.uint8)
    image[:, border:] += 140
    labels = np.zeros((48, 64), np.uint8)
    labels[:, border:] = 1
    labels[:, border - 1 : border + 1] = 255
    return image, labels


def write_folder(root: Path) -> None:
    """What `folder:` reads: images/NAME.*, masks/NAME.png with class indices, and a file with the class names."""
    for part in ("images", "masks"):
        (root / part).mkdir(parents=True)
    for number in range(4):
        image, labels = scene(number)
        cv2.imwrite(str(root / "images" / f"{number}.png"), cv2.cvtColor(image, cv2.COLOR_RGB2BGR))
        cv2.imwrite(str(root / "masks" / f"{number}.png"), labels)
    (root / "classes.txt").write_text("\n".join(CLASSES))


@datasets.register("scenes")
class Scenes(Dataset):
    """The same as a class: where images come from is then up to you (a database, a simulator, a video)."""

    name = "scenes"
    class_names = CLASSES
    ignore_index = 255

    def __init__(self, split: str = "val") -> None:
        self.split = split

    def __len__(self) -> int:
        return 4

    def ids(self) -> Sequence[str]:
        return [str(number) for number in range(len(self))]

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(index)
        image, labels = scene(index)
        return Sample(str(index), image, labels)


def brightness_network() -> nn.Module:
    """A network that calls a pixel day when it is bright."""
    network = nn.Conv2d(3, 2, 1)
    assert network.bias is not None
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[-1.0] * 3, [1.0] * 3]).view(2, 3, 1, 1))
        network.bias.copy_(torch.tensor([1.2, -1.2]))
    return network


def main() -> None:
    """Evaluates one model on both."""
    model = gauntlet.wrap_model(brightness_network(), num_classes=2, name="brightness")
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "my_photos"
        write_folder(folder)
        # From the command line: gauntlet data check folder my_photos; gauntlet run --dataset folder:my_photos ...
        for dataset in (gauntlet.load_dataset(f"folder:{folder}"), gauntlet.load_dataset("scenes")):
            for threat in ("clean", {"corruption": {"name": "brightness", "severity": 5}}):
                result = gauntlet.evaluate(model, dataset, threat)
                print(f"{dataset.name} | {result.threat}: mIoU {100 * result.figures['mIoU']:.1f} %")


if __name__ == "__main__":
    main()
