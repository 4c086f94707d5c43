"""VGG-16 (Simonyan, Zisserman 2015, arXiv:1409.1556) as an encoder, in the paddings and poolings of its users."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.published.network import Backbone

STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))

NAMES: tuple[Rule, ...] = (
    (r"^conv([1-5])_([1-3])\.", lambda match: f"encoder.stage{match[1]}.{2 * int(match[2]) - 2}."),
)
"""From the layer names of the Caffe model."""


class VGG16(Backbone):
    """The 13 convolutions; the maps behind the pooling of every stage, and the images.

    Args:
        poolings: behind each of the five stages.
        padding: of every convolution, in units of its dilation.
        first_padding: of the first convolution instead.
        last_dilation: of the last stage.
        width: of the first stage, in whose proportion the others are.
        normalised: batch norm behind every convolution.
    """

    def __init__(
        self,
        poolings: Sequence[nn.Module],
        *,
        padding: int = 1,
        first_padding: int | None = None,
        last_dilation: int = 1,
        width: int = STAGES[0][0],
        normalised: bool = False,
    ) -> None:
        super().__init__()
        stages = [[channels * width // STAGES[0][0] for channels in stage] for stage in STAGES]
        self.widths = tuple(stage[-1] for stage in stages)
        self.poolings = nn.ModuleList(poolings)
        in_channels = 3
        for number, widths in enumerate(stages, start=1):
            dilation = last_dilation if number == len(STAGES) else 1
            layers: list[nn.Module] = []
            for channels in widths:
                pad = first_padding if in_channels == 3 and first_padding is not None else padding * dilation
                layers.append(nn.Conv2d(in_channels, channels, 3, 1, pad, dilation))
                layers += [nn.BatchNorm2d(channels)] if normalised else []
                layers.append(nn.ReLU(inplace=True))
                in_channels = channels
            self.add_module(f"stage{number}", nn.Sequential(*layers))

    def forward(self, images: torch.Tensor) -> Features:
        features, maps = images, []
        for number, pooling in enumerate(self.poolings, start=1):
            features = pooling(self.get_submodule(f"stage{number}")(features))
            maps.append(features)
        return (*maps, images)
