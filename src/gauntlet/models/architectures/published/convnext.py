"""ConvNeXt (Liu et al. 2022, arXiv:2201.03545) as an encoder, with its own stem or a convolutional one."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features
from gauntlet.models.architectures.layers import drop_path
from gauntlet.models.architectures.published.network import Backbone

EPSILON = 1e-6
WIDTHS = (96, 192, 384, 768)
DEPTHS = {"tiny": (3, 3, 9, 3), "small": (3, 3, 27, 3)}
DROP_PATH = {"tiny": 0.4, "small": 0.3}


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of (N, C, H, W)."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=EPSILON)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return super().forward(features.movedim(1, -1)).movedim(-1, 1)


class Block(nn.Module):
    """Figure 4: depthwise 7x7, layer norm, two linear layers with GELU, a scale per channel, added to the input."""

    def __init__(self, width: int, drop: float) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.normalisation = nn.LayerNorm(width, eps=EPSILON)
        self.expand = nn.Linear(width, 4 * width)
        self.reduce = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.ones(width))
        self.drop = drop

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        branch = self.normalisation(self.depthwise(features).movedim(1, -1))
        branch = self.scale * self.reduce(functional.gelu(self.expand(branch)))
        return features + drop_path(branch.movedim(-1, 1), self.drop, self.training)


def _stem(convolutional: bool) -> nn.Sequential:
    """4x4 patches, or two strided 3x3 convolutions (the stem that adversarial training favours)."""
    width = WIDTHS[0]
    if not convolutional:
        return nn.Sequential(nn.Conv2d(3, width, 4, 4), ChannelNorm(width))
    half = width // 2
    return nn.Sequential(
        *(nn.Conv2d(3, half, 3, 2, 1), ChannelNorm(half), nn.GELU()),
        *(nn.Conv2d(half, width, 3, 2, 1), ChannelNorm(width), nn.GELU()),
    )


class ConvNeXt(Backbone):
    """The normalised maps of its four stages, at 1/4 to 1/32, and the images.

    Args:
        size: "tiny" or "small".
        convolutional_stem: see `_stem`.
    """

    widths = WIDTHS

    def __init__(self, size: str, *, convolutional_stem: bool) -> None:
        super().__init__()
        depths = DEPTHS[size]
        drops = iter(torch.linspace(0, DROP_PATH[size], sum(depths), device="cpu").tolist())
        self.reductions = nn.ModuleList([_stem(convolutional_stem)])
        self.reductions.extend(
            nn.Sequential(ChannelNorm(before), nn.Conv2d(before, width, 2, 2)) for before, width in pairwise(WIDTHS)
        )
        self.stages = nn.ModuleList(
            nn.Sequential(*(Block(width, next(drops)) for _ in range(depth)))
            for width, depth in zip(WIDTHS, depths, strict=True)
        )
        self.normalisations = nn.ModuleList(ChannelNorm(width) for width in WIDTHS)

    def forward(self, images: torch.Tensor) -> Features:
        features, maps = images, []
        for reduction, stage, normalisation in zip(self.reductions, self.stages, self.normalisations, strict=True):
            features = stage(reduction(features))
            maps.append(normalisation(features))
        return (*maps, images)
