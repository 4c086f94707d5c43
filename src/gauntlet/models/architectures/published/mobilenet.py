"""MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381) and V3 (Howard et al. 2019, arXiv:1905.02244) as encoders."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features
from gauntlet.models.architectures.published.network import Backbone

# Expansion, width, repetitions, stride, dilation of the first and of the others, at output stride 16.
V2_STAGES = (
    (1, 16, 1, 1, 1, 1),
    (6, 24, 2, 2, 1, 1),
    (6, 32, 3, 2, 1, 1),
    (6, 64, 4, 2, 1, 1),
    (6, 96, 3, 1, 1, 1),
    (6, 160, 3, 1, 1, 2),
    (6, 320, 1, 1, 2, 2),
)
V2_LOW_BLOCKS = 4  # the stem and the first two stages: 24 channels at 1/4
# Kernel, expanded width, width, squeeze-and-excitation, hard swish, stride, dilation: "large", at output stride 16.
V3_BLOCKS = (
    (3, 16, 16, False, False, 1, 1),
    (3, 64, 24, False, False, 2, 1),
    (3, 72, 24, False, False, 1, 1),
    (5, 72, 40, True, False, 2, 1),
    (5, 120, 40, True, False, 1, 1),
    (5, 120, 40, True, False, 1, 1),
    (3, 240, 80, False, True, 2, 1),
    (3, 200, 80, False, True, 1, 1),
    (3, 184, 80, False, True, 1, 1),
    (3, 184, 80, False, True, 1, 1),
    (3, 480, 112, True, True, 1, 1),
    (3, 672, 112, True, True, 1, 1),
    (5, 672, 160, True, True, 1, 2),
    (5, 960, 160, True, True, 1, 2),
    (5, 960, 160, True, True, 1, 2),
)
V3_TAP = 4  # the first block at 1/8, for the auxiliary head


def _unpadded(
    in_channels: int, out_channels: int, kernel: int, stride: int = 1, dilation: int = 1, groups: int = 1
) -> nn.Sequential:
    """A convolution without padding, batch norm, ReLU6."""
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel, stride, dilation=dilation, groups=groups, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """1x1 to a wide map, depthwise 3x3, 1x1 back, added to the input where the shapes agree.

    As in VainF's port the input is padded with zeros before the expansion, not the wide map before the depthwise
    convolution, so that the border passes batch norm and ReLU6.
    """

    def __init__(self, in_channels: int, out_channels: int, expansion: int, stride: int, dilation: int) -> None:
        super().__init__()
        wide = in_channels * expansion
        layers: list[nn.Module] = [_unpadded(in_channels, wide, 1)] if expansion != 1 else []
        layers += [
            _unpadded(wide, wide, 3, stride, dilation, groups=wide),
            nn.Conv2d(wide, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        ]
        self.branch = nn.Sequential(*layers)
        self.padding = [dilation] * 4
        self.adds = stride == 1 and in_channels == out_channels

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.branch(functional.pad(features, self.padding))
        return features + result if self.adds else result


class MobileNetV2(Backbone):
    """VainF's MobileNetV2 at output stride 16: the map of 24 channels, the last of 320, and the images."""

    widths = (24, 320)

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = [_unpadded(3, 32, 3, 2)]
        in_channels = 32
        for expansion, width, repetitions, stride, first_dilation, dilation in V2_STAGES:
            for index in range(repetitions):
                first = index == 0
                blocks.append(
                    InvertedResidual(
                        in_channels, width, expansion, stride if first else 1, first_dilation if first else dilation
                    )
                )
                in_channels = width
        self.blocks = nn.Sequential(*blocks)

    def forward(self, images: torch.Tensor) -> Features:
        low = self.blocks[:V2_LOW_BLOCKS](images)
        return low, self.blocks[V2_LOW_BLOCKS:](low), images


def _v3_unit(
    in_channels: int,
    out_channels: int,
    kernel: int,
    activation: type[nn.Module] | None,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
) -> nn.Sequential:
    padding = dilation * (kernel - 1) // 2
    layers: list[nn.Module] = [
        nn.Conv2d(in_channels, out_channels, kernel, stride, padding, dilation, groups, bias=False),
        nn.BatchNorm2d(out_channels, eps=1e-3, momentum=0.01),
    ]
    return nn.Sequential(*layers, *([activation(inplace=True)] if activation else []))


class SqueezeExcitation(nn.Module):
    """Channels weighed by a small network on their means (Hu et al. 2018), with a hard sigmoid."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, channels, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        means = features.mean((2, 3), keepdim=True)
        return features * functional.hardsigmoid(self.expand(torch.relu(self.reduce(means))))


class V3Block(nn.Module):
    """An inverted residual with, in some, squeeze-and-excitation before the last 1x1 unit."""

    def __init__(
        self,
        in_channels: int,
        kernel: int,
        wide: int,
        out_channels: int,
        excitation: bool,
        hard_swish: bool,
        stride: int,
        dilation: int,
    ) -> None:
        super().__init__()
        activation = nn.Hardswish if hard_swish else nn.ReLU
        layers: list[nn.Module] = [_v3_unit(in_channels, wide, 1, activation)] if wide != in_channels else []
        layers.append(_v3_unit(wide, wide, kernel, activation, stride, dilation, groups=wide))
        if excitation:
            layers.append(SqueezeExcitation(wide, _multiple_of_eight(wide / 4)))
        layers.append(_v3_unit(wide, out_channels, 1, None))
        self.branch = nn.Sequential(*layers)
        self.adds = stride == 1 and in_channels == out_channels

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.branch(features)
        return features + result if self.adds else result


class MobileNetV3(Backbone):
    """torchvision's MobileNetV3-Large, its last stage dilated: a map of 40 channels at 1/8, of 960 at 1/16, images."""

    widths = (40, 960)

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = [_v3_unit(3, 16, 3, nn.Hardswish, 2)]
        in_channels = 16
        for kernel, wide, width, excitation, hard_swish, stride, dilation in V3_BLOCKS:
            block = V3Block(in_channels, kernel, wide, width, excitation, hard_swish, stride, dilation)
            blocks.append(block)
            in_channels = width
        blocks.append(_v3_unit(in_channels, 960, 1, nn.Hardswish))
        self.blocks = nn.Sequential(*blocks)

    def forward(self, images: torch.Tensor) -> Features:
        middle = self.blocks[: V3_TAP + 1](images)
        return middle, self.blocks[V3_TAP + 1 :](middle), images


def _multiple_of_eight(width: float) -> int:
    """The nearest multiple of 8, not below nine tenths of the width."""
    nearest = max(8, int(width + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * width else nearest
