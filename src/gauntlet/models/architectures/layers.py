"""Layers that several networks share."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class NormalisedActivation(nn.Module):
    """Batch norm, then PReLU with a slope per channel."""

    def __init__(self, channels: int, eps: float = 1e-3) -> None:
        super().__init__()
        self.normalisation = nn.BatchNorm2d(channels, eps=eps)
        self.activation = nn.PReLU(channels)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.activation(self.normalisation(features))
        return result


class ConvolutionUnit(nn.Module):
    """A convolution without bias that keeps or halves the size, then batch norm and PReLU."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.convolution = convolution(in_channels, out_channels, kernel, stride=stride)
        self.output = NormalisedActivation(out_channels)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.output(self.convolution(features))
        return result


def convolution(
    in_channels: int, out_channels: int, kernel: int, *, stride: int = 1, dilation: int = 1, groups: int = 1
) -> nn.Conv2d:
    """A convolution without bias whose padding keeps the size at stride 1."""
    padding = dilation * (kernel - 1) // 2
    return nn.Conv2d(in_channels, out_channels, kernel, stride, padding, dilation=dilation, groups=groups, bias=False)


def halve(images: torch.Tensor) -> torch.Tensor:
    """Half the size by a 3x3 mean, for networks that are shown the image again deeper down."""
    return functional.avg_pool2d(images, 3, stride=2, padding=1)
