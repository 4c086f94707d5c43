"""A tiny dataset and a tiny network that many tests share; processes can build it: "python:tiny:tiny_network"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from gauntlet.datasets.contract import Dataset
from gauntlet.samples import Sample


class TinyDataset(Dataset):
    """Random images whose label is a simple function of the colour, with some void."""

    class_names: Sequence[str] = ("dark", "light", "red")
    ignore_index = 255

    def __init__(self, length: int = 6, sizes: Sequence[tuple[int, int]] = ((16, 24),), name: str = "tiny") -> None:
        self.name, self.split = name, "val"
        self._length, self._sizes = length, sizes

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Sample:
        height, width = self._sizes[index % len(self._sizes)]
        generator = np.random.default_rng(index)
        coarse = generator.integers(0, 256, (height // 4, width // 4, 3))
        image = np.kron(coarse, np.ones((4, 4, 1))).astype(np.uint8)
        labels = np.where(image[..., 0] > 180, 2, (image.mean(axis=2) > 127).astype(int)).astype(np.uint8)
        labels[:2] = self.ignore_index
        return Sample(f"tiny/{index}", image, labels)

    def ids(self) -> list[str]:
        return [f"tiny/{index}" for index in range(self._length)]


def tiny_network(classes: int = 3) -> nn.Sequential:
    """Two convolutions with fixed random weights."""
    generator = torch.Generator().manual_seed(7)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, classes, 3, padding=1))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return network
