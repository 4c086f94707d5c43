"""Networks that tell three colours apart without training, each with a habit that strangers' networks have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from torch import nn

from gauntlet.models import GauntletModel, wrap_model

CLASSES = ("soil", "leaf", "berry")
COLORS = ((0.1, 0.1, 0.1), (0.2, 0.6, 0.3), (0.8, 0.2, 0.25))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Reader(nn.Module):
    """The class whose colour is nearest: -|x - c|^2 and what all classes share is 2 c x - |c|^2, a convolution.

    Args:
        order: the classes in the order of the outputs.
        mean, std: of the images that it takes.
    """

    def __init__(
        self,
        order: Sequence[int] = (0, 1, 2),
        mean: Sequence[float] = (0.0,) * 3,
        std: Sequence[float] = (1.0,) * 3,
    ) -> None:
        super().__init__()
        colors = torch.tensor([COLORS[index] for index in order])  # (K, 3)
        self.layer = nn.Conv2d(3, len(colors), 1)
        with torch.no_grad():
            # x = mean + std * y for normalised images y.
            weight = 2 * colors
            self.layer.weight.copy_((weight * torch.tensor(std))[..., None, None] * 10)
            assert self.layer.bias is not None
            self.layer.bias.copy_((weight @ torch.tensor(mean) - colors.square().sum(dim=1)) * 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(images)
        return logits


class Halving(Reader):
    """Joins its map with one of half the size made large again, as U-Nets do: odd sizes do not fit."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        half = nn.functional.max_pool2d(images, 2)
        doubled = nn.functional.interpolate(half, scale_factor=2)
        joined = torch.cat([images, doubled], dim=1)
        return super().forward(joined[:, :3])


def normalised() -> nn.Module:
    """A network that takes images normalised as those of ImageNet are, and does not say so."""
    return Reader(mean=MEAN, std=STD)


def untrained() -> nn.Module:
    """A network that knows nothing yet."""
    network = Reader()
    nn.init.zeros_(network.layer.weight)
    return network


def reads_a_file(weights: str) -> nn.Module:
    """A network whose own code reads its weights."""
    network = Reader()
    network.load_state_dict(torch.load(weights, weights_only=True))
    return network


def another_order() -> GauntletModel:
    """A model that names its classes, which are those of the photographs in another order."""
    return wrap_model(Reader((2, 0, 1)), num_classes=3, class_names=["berry", "soil", "leaf"], name="another-order")


def one_class_less() -> GauntletModel:
    """A model that knows soil and berries only."""
    return wrap_model(Reader((0, 2)), num_classes=2, class_names=["soil", "berry"], name="one-class-less")


def write_photos(root: Path, sizes: Sequence[tuple[int, int]], mode: str = "RGB") -> Path:
    """A folder dataset: patches of the three colours with a little noise.

    Args:
        root: the folder.
        sizes: height and width of every image.
        mode: "RGB", or "RGBA" for files with a transparency.
    """
    for kind in ("images", "masks"):
        (root / kind).mkdir(parents=True)
    for index, size in enumerate(sizes):
        draws = np.random.default_rng(index)
        labels = draws.integers(0, 3, (-(-size[0] // 8), -(-size[1] // 8)), dtype=np.uint8)  # a class per 8 x 8 pixels
        labels = labels.repeat(8, axis=0).repeat(8, axis=1)[: size[0], : size[1]]
        image = np.array(COLORS)[labels] * 255 + draws.integers(-12, 13, (*size, 3))
        pixels = np.clip(image, 0, 255).astype(np.uint8)[..., ::-1]
        if mode == "RGBA":
            pixels = np.dstack([pixels, np.full(size, 255, np.uint8)])
        cv2.imwrite(str(root / "images" / f"{index}.png"), pixels)
        cv2.imwrite(str(root / "masks" / f"{index}.png"), labels)
    (root / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    return root
