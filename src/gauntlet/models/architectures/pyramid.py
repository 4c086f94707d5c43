"""A feature pyramid (Lin et al. 2017, arXiv:1612.03144) on the light residual encoder of our PSPNet."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features
from gauntlet.models.architectures.layers import unit
from gauntlet.models.architectures.pspnet import Encoder, ResidualBlock

STRIDES = (4, 8, 16)
WIDTHS, DEPTHS = (24, 40, 64, 96), (1, 2, 2, 2)
ENCODER_STRIDE = 8  # as the shipped PSPNet, whose weights fit then


def residual_encoder(widths: tuple[int, ...] = WIDTHS) -> Encoder:
    """The encoder of our PSPNet: its four stages are at strides 2, 4, 8 and 8."""
    return Encoder(widths, DEPTHS, ENCODER_STRIDE)


class Pyramid(nn.Module):
    """Maps of one width at strides 4, 8 and 16 from the stages of the encoder.

    Args:
        widths: channels of the encoder's stages.
        top_width: of the residual blocks that make stride 16.
        width: of the maps that come out.
        context: what the coarsest map goes through before it is handed down; None for nothing.
    """

    def __init__(self, widths: tuple[int, ...], top_width: int, width: int, context: nn.Module | None = None) -> None:
        super().__init__()
        self.top = nn.Sequential(
            ResidualBlock(widths[3], top_width, 2, 1),
            ResidualBlock(top_width, top_width, 1, 1),
        )
        self.laterals = nn.ModuleList(nn.Conv2d(channels, width, 1) for channels in (widths[1], widths[3], top_width))
        self.context = context if context is not None else nn.Identity()
        self.outputs = nn.ModuleList(unit(width, width, 3) for _ in STRIDES)

    def forward(self, stages: Features) -> list[torch.Tensor]:
        fine, middle = stages[1], stages[3]
        maps = [lateral(each) for lateral, each in zip(self.laterals, (fine, middle, self.top(middle)), strict=True)]
        maps[2] = self.context(maps[2])
        for level in (1, 0):
            maps[level] = maps[level] + functional.interpolate(maps[level + 1], scale_factor=2.0, mode="nearest")
        return [output(each) for output, each in zip(self.outputs, maps, strict=True)]
