"""Xception39, the light Xception that BiSeNet's authors trained (arXiv:1808.00897; TorchSeg has the details)."""

from __future__ import annotations

import torch
from torch import nn

from gauntlet.models.architectures.base import Features
from gauntlet.models.architectures.layers import convolution, unit
from gauntlet.models.architectures.published.network import Backbone

DEPTHS, MIDDLE_WIDTHS, EXPANSION = (4, 8, 4), (16, 32, 64), 4


class Separable(nn.Module):
    """A depthwise 3x3 convolution, then a 1x1 unit; nothing between them."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1, *, activation: bool = True) -> None:
        super().__init__()
        self.depthwise = convolution(in_channels, in_channels, 3, stride=stride, groups=in_channels)
        self.pointwise = unit(in_channels, out_channels, 1, activation=nn.ReLU if activation else None)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.pointwise(self.depthwise(features))
        return result


class Block(nn.Module):
    """Three separable units, added to the input or, in a strided block, to what a fourth makes of it."""

    def __init__(self, in_channels: int, middle: int, stride: int) -> None:
        super().__init__()
        out_channels = middle * EXPANSION
        self.branch = nn.Sequential(
            Separable(in_channels, middle, stride),
            Separable(middle, middle),
            Separable(middle, out_channels, activation=False),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1:
            self.shortcut = Separable(in_channels, out_channels, stride, activation=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.branch(features) + self.shortcut(features))


class Xception39(Backbone):
    """The maps of its three stages, at 1/8, 1/16 and 1/32, and the images."""

    widths = tuple(width * EXPANSION for width in MIDDLE_WIDTHS)

    def __init__(self) -> None:
        super().__init__()
        self.stem = unit(3, 8, 3, 2)
        self.pooling = nn.MaxPool2d(3, 2, 1)
        in_channels = 8
        for number, (blocks, middle) in enumerate(zip(DEPTHS, MIDDLE_WIDTHS, strict=True), start=1):
            made = [
                Block(in_channels if index == 0 else middle * EXPANSION, middle, 1 + (index == 0))
                for index in range(blocks)
            ]
            self.add_module(f"stage{number}", nn.Sequential(*made))
            in_channels = middle * EXPANSION

    def forward(self, images: torch.Tensor) -> Features:
        features = self.pooling(self.stem(images))
        maps = []
        for number in (1, 2, 3):
            features = self.get_submodule(f"stage{number}")(features)
            maps.append(features)
        return (*maps, images)
