"""A dataset for the tests: coloured squares on noise, learnt within a few steps."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import numpy as np

from gauntlet.datasets.contract import Dataset
from gauntlet.samples import Sample
from gauntlet.seeding import ImageSeed, numpy_generator

COLORS = np.array([(60, 60, 60), (200, 40, 40), (40, 40, 200)])


class Squares(Dataset):
    """Three classes: ground, red and blue squares; a border of ignored pixels.

    Args:
        split: names the stream of the images.
        length: number of images.
        kill_at: the process kills itself (SIGKILL) when this many samples were read.
    """

    name = "squares"
    class_names = ("ground", "red", "blue")
    ignore_index = 255

    def __init__(self, split: str = "train", length: int = 12, size: int = 32, kill_at: int | None = None) -> None:
        self.split = split
        self.length = length
        self.size = size
        self.kill_at = kill_at if split == "train" else None
        self.reads = 0

    def __len__(self) -> int:
        return self.length

    def ids(self) -> Sequence[str]:
        return [f"{self.split}-{index}" for index in range(self.length)]

    def __getitem__(self, index: int) -> Sample:
        self.reads += 1
        if self.kill_at is not None and self.reads > self.kill_at:
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


def recipe(**changes: object) -> dict[str, object]:
    """A recipe that trains an E-Net on squares in a second."""
    base: dict[str, object] = {
        "name": "tiny",
        "model": {"architecture": "enet"},
        "data": {"name": "python:tests.training.squares:Squares", "validation_options": {"length": 4}, "workers": 0},
        "epochs": 2,
        "batch_size": 4,
        "log_every": 1,
        "threads": 1,
    }
    return {**base, **changes}
