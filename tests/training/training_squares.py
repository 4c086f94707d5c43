"""What the tests train: coloured squares on noise, and a network that learns them within a few steps."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from gauntlet.datasets.contract import Dataset
from gauntlet.models.architectures import Architecture, architectures
from gauntlet.models.architectures.base import Features
from gauntlet.samples import Sample
from gauntlet.seeding import ImageSeed, numpy_generator

COLORS = np.array([(60, 60, 60), (200, 40, 40), (40, 40, 200)])


class Squares(Dataset):
    """Three classes: ground, red and blue squares; a border of ignored pixels.

    Args:
        split: names the stream of the images.
        length: number of images.
        size: height and width.
        kill_at: file; when it exists, the process kills itself (SIGKILL) at the 60th sample that it reads.
    """

    name = "squares"
    class_names: Sequence[str] = ("ground", "red", "blue")
    ignore_index = 255

    def __init__(self, split: str = "train", length: int = 12, size: int = 32, kill_at: str | None = None) -> None:
        self.split = split
        self.length = length
        self.size = size
        self.kill_at = kill_at
        self.reads = 0

    def __len__(self) -> int:
        return self.length

    def ids(self) -> Sequence[str]:
        return [f"{self.split}-{index}" for index in range(self.length)]

    def __getitem__(self, index: int) -> Sample:
        self.reads += 1
        if self.kill_at is not None and self.reads == 60 and os.path.exists(self.kill_at):
            os.kill(os.getpid(), signal.SIGKILL)
        rng = numpy_generator(ImageSeed(0, self.ids()[index]).stream("squares"))
        labels = np.zeros((self.size, self.size), dtype=np.uint8)
        for label in (1, 2):
            top, left = rng.integers(2, self.size - 14, size=2)
            labels[top : top + 12, left : left + 12] = label
        noise = rng.integers(-20, 21, size=(self.size, self.size, 3))
        image = np.clip(COLORS[labels] + noise, 0, 255).astype(np.uint8)
        labels[:1] = self.ignore_index
        return Sample(self.ids()[index], image, labels)


class _First(nn.Sequential):
    def forward(self, encoded: Features) -> torch.Tensor:
        logits: torch.Tensor = super().forward(encoded[0])  # type: ignore[no-untyped-call]
        return logits


class _Only(nn.Sequential):
    def forward(self, images: torch.Tensor) -> Features:
        return (super().forward(images),)  # type: ignore[no-untyped-call]


@architectures.register("test-net")
class TestNet(Architecture):
    """Two convolutions; with batch norm and dropout unless `plain`."""

    __test__ = False

    def __init__(self, num_classes: int, *, plain: bool = False) -> None:
        super().__init__()
        self.stride = 1
        extras = [] if plain else [nn.BatchNorm2d(8), nn.Dropout2d(0.1)]
        self.encoder = _Only(nn.Conv2d(3, 8, 3, padding=1), *extras, nn.ReLU())
        self.decoder = _First(nn.Conv2d(8, num_classes, 1))


def recipe(**changes: object) -> dict[str, object]:
    """A recipe that trains on squares in a second; `data` is merged, everything else replaced."""
    data = {"name": "python:training_squares:Squares", "validation_options": {"length": 4}, "workers": 0}
    base: dict[str, object] = {
        "name": "tiny",
        "model": {"architecture": "test-net"},
        "epochs": 2,
        "batch_size": 4,
        "optimiser": {"learning_rate": 0.02},
        "log_every": 1,
        "threads": 1,
    }
    return {**base, **changes, "data": {**data, **changes.get("data", {})}}  # type: ignore[dict-item]
