"""Images whose right part is bright."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gauntlet.datasets import Dataset
from gauntlet.samples import Sample


class Scenes(Dataset):
    """Night on the left, day on the right."""

    name = "scenes"
    class_names = ("night", "day")

    def __init__(self, split: str = "val", level: int = 200) -> None:
        self.split = split
        self._level = level

    def __len__(self) -> int:
        return 2

    def ids(self) -> Sequence[str]:
        return [str(number) for number in range(len(self))]

    def __getitem__(self, index: int) -> Sample:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        image = np.full((32, 48, 3), 40, np.uint8)
        labels = np.zeros((32, 48), np.uint8)
        image[:, 20 + 8 * index :], labels[:, 20 + 8 * index :] = self._level, 1
        return Sample(self.ids()[index], image, labels)
