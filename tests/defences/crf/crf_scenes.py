"""The images and logits that the reference values of the CRF were computed on, and a model that says given logits."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from gauntlet.defences.crf import Crf
from gauntlet.models import SegmentationModel
from paths import DATA


class Saying(SegmentationModel):
    """Says given logits (N, K, H, W) to every image, so that the gradient to the image is the CRF's own."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__(num_classes=logits.shape[1])
        self.logits = logits

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.logits


@lru_cache
def reference() -> dict[str, Any]:
    """Section `crf` of the reference values."""
    values: dict[str, Any] = json.loads((DATA / "defence_reference.json").read_text())["crf"]
    return values


def scene(height: int, width: int, tall: int, wide: int, slope: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels (H, W) of blocks, and an image (1, 3, H, W) in [0, 1] that shows them."""
    i, j = np.mgrid[:height, :width]
    labels = (i // tall + 2 * (j // wide)) % 4
    grey = [
        60 + 45 * ((i // tall + 2 * (j // wide) + c) % 4) + (7 * i + 11 * j + 13 * c) % 7 - 3 + slope * j * (c == 1)
        for c in range(3)
    ]
    return torch.from_numpy(labels), torch.from_numpy(np.stack(grey) / 255.0)[None]


def logits_of(labels: torch.Tensor, down: float, right: float, both: float) -> torch.Tensor:
    """Smooth logits (1, 4, H, W) that lean to the labels."""
    height, width = labels.shape
    i, j = np.mgrid[:height, :width]
    planes = [
        1.5 * np.cos(down * i + right * j + 1.7 * k)
        + 0.8 * np.sin(0.9 * k + both * i * j)
        + 1.2 * (labels.numpy() == k)
        for k in range(4)
    ]
    return torch.from_numpy(np.stack(planes))[None]


def small_scene() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Image, logits and labels of 24 x 32 pixels, float64."""
    labels, image = scene(24, 32, 8, 11, 0.0)
    return image, logits_of(labels, 0.31, 0.17, 0.0275), labels


def large_scene() -> tuple[torch.Tensor, torch.Tensor]:
    """Image and logits of 72 x 96 pixels, float32, grey levels rounded."""
    labels, image = scene(72, 96, 24, 33, 0.25)
    return (image * 255).round().float() / 255, logits_of(labels, 0.11, 0.06, 0.004).float()


def parameters_of(name: str) -> dict[str, Any]:
    """The parameters that the reference values call by a name."""
    return dict(reference()["settings"][name])


def beliefs(image: torch.Tensor, logits: torch.Tensor, **settings: Any) -> torch.Tensor:
    """Q (K, H, W) of an image and logits."""
    refined: torch.Tensor = Crf(Saying(logits), **settings)(image)
    return refined[0].softmax(dim=0)
