"""Residual encoders (He et al. 2016, arXiv:1512.03385) in the stems, strides and dilations of segmentation networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.layers import unit
from gauntlet.models.architectures.published.network import Backbone

DEPTHS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
PLAIN_STEM, DEEP_STEM, V1C_STEM = (64,), (64, 64, 128), (32, 32, 64)

# torchvision's names of blocks, which most others took over; the stem differs.
BLOCK_NAMES: tuple[Rule, ...] = (
    (r"layer(\d)(_?d?)\.((?:\d+\.)?)conv(\d)\.", r"stage\1\2.\3unit\4.0."),
    (r"layer(\d)(_?d?)\.((?:\d+\.)?)bn(\d)\.", r"stage\1\2.\3unit\4.1."),
    (r"layer(\d)(_?d?)\.((?:\d+\.)?)downsample\.", r"stage\1\2.\3shortcut."),
)

PTSEMSEG_NAMES: tuple[Rule, ...] = (
    (r"\.cbr?_unit\.", "."),
    (r"^convbnrelu1_(\d)\.(\d)", lambda match: f"stem.{3 * int(match[1]) - 3 + int(match[2])}"),
    (r"^res_block3_identity\.layers\.(\d+)", lambda match: f"stage2.{int(match[1]) + 1}"),
    (r"^res_block(\d)(?:_conv)?\.layers\.", lambda match: f"stage{int(match[1]) - 1}."),
    (r"\.cbr([12])\.", r".unit\1."),
    (r"\.cb3\.", ".unit3."),
    (r"\.cb4\.", ".shortcut."),
)
"""meetps/pytorch-semseg's names."""
_CAFFE_UNITS = {"1x1_reduce": "unit1", "3x3": "unit2", "1x1_increase": "unit3", "1x1_proj": "shortcut"}
CAFFE_NAMES: tuple[Rule, ...] = (
    (r"^conv1_(\d)_3x3(?:_s2)?\.", lambda match: f"stem.{3 * int(match[1]) - 3}."),
    (r"^conv1_(\d)_3x3(?:_s2)?/bn\.", lambda match: f"stem.{3 * int(match[1]) - 2}."),
    (
        r"^conv([2-5])_(\d+)_(1x1_reduce|3x3|1x1_increase|1x1_proj)(/bn)?\.",
        lambda match: f"stage{int(match[1]) - 1}.{int(match[2]) - 1}.{_CAFFE_UNITS[match[3]]}.{int(bool(match[4]))}.",
    ),
)
"""Layer names of the Caffe models of PSPNet and ICNet."""


class Block(nn.Module):
    """Two 3x3 units, or a bottleneck of 1x1, 3x3 and 1x1, added to the input or what a 1x1 unit makes of it.

    Args:
        in_channels: of the input.
        width: of the units; the last of a bottleneck has `expansion` times as many.
        expansion: None for the basic block.
        stride: of the whole block.
        dilation: of a bottleneck's 3x3 unit, of the first unit of a basic block.
        stride_first: the stride is in a bottleneck's first 1x1 unit, as in the Caffe models, not in the 3x3 one.
        activation: ReLU at the end.
    """

    def __init__(
        self,
        in_channels: int,
        width: int,
        *,
        expansion: int | None = None,
        stride: int = 1,
        dilation: int = 1,
        stride_first: bool = False,
        activation: bool = True,
    ) -> None:
        super().__init__()
        out_channels = width * (expansion or 1)
        self.activation = activation
        if expansion is None:
            self.unit1 = unit(in_channels, width, 3, stride, dilation)
            self.unit2 = unit(width, width, 3, activation=None)
            self.unit3: nn.Module = nn.Identity()
        else:
            self.unit1 = unit(in_channels, width, 1, stride if stride_first else 1)
            self.unit2 = unit(width, width, 3, 1 if stride_first else stride, dilation)
            self.unit3 = unit(width, out_channels, 1, activation=None)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = unit(in_channels, out_channels, 1, stride, activation=None)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        result = self.unit3(self.unit2(self.unit1(features))) + self.shortcut(features)
        return functional.relu(result) if self.activation else result


def stage(
    in_channels: int,
    width: int,
    blocks: int,
    *,
    expansion: int | None = 4,
    stride: int = 1,
    first_dilation: int = 1,
    dilation: int = 1,
    stride_first: bool = False,
    open_end: bool = False,
) -> nn.Sequential:
    """Blocks of one width, the first with the stride and a dilation of its own.

    With an open end the last block, and every bottleneck, has no ReLU behind its sum (DDRNet, PIDNet).
    """
    out_channels = width * (expansion or 1)
    return nn.Sequential(
        *(
            Block(
                in_channels if index == 0 else out_channels,
                width,
                expansion=expansion,
                stride=stride if index == 0 else 1,
                dilation=first_dilation if index == 0 else dilation,
                stride_first=stride_first,
                activation=not open_end or (expansion is None and index < blocks - 1),
            )
            for index in range(blocks)
        )
    )


def stem(widths: Sequence[int]) -> nn.Sequential:
    """One 7x7 unit, or three 3x3 units, the first of stride 2, as a flat sequence."""
    if len(widths) == 1:
        return unit(3, widths[0], 7, 2)
    layers: list[nn.Module] = []
    in_channels = 3
    for index, width in enumerate(widths):
        layers += unit(in_channels, width, 3, 2 if index == 0 else 1)
        in_channels = width
    return nn.Sequential(*layers)


class ResidualEncoder(Backbone):
    """A ResNet without its classifier: the maps of its four stages, and the images.

    Args:
        depth: 18, 50 or 101.
        stem_widths: (64,) for the 7x7 stem, three widths for a stem of 3x3 units.
        output_stride: 32, 16 or 8; dilation stands in for the strides that are left out.
        dilate_first: a stage's first block has the stage's dilation already, else that of the stage before.
        stride_first: see `Block`.
        ceil_pooling: the pooling behind the stem rounds its size up.
        width: of the first stage.
    """

    def __init__(
        self,
        depth: int,
        *,
        stem_widths: Sequence[int] = PLAIN_STEM,
        output_stride: int = 32,
        dilate_first: bool = False,
        stride_first: bool = False,
        ceil_pooling: bool = False,
        width: int = 64,
    ) -> None:
        super().__init__()
        self.stem = stem(stem_widths)
        self.pooling = nn.MaxPool2d(3, 2, 1, ceil_mode=ceil_pooling)
        expansion = None if depth == 18 else 4
        in_channels, reached, dilation = stem_widths[-1], 4, 1
        widths: list[int] = []
        for index, blocks in enumerate(DEPTHS[depth]):
            stride, before = 1, dilation
            if index:
                if reached < output_stride:
                    stride, reached = 2, reached * 2
                else:
                    dilation *= 2
            made = stage(
                in_channels,
                width << index,
                blocks,
                expansion=expansion,
                stride=stride,
                first_dilation=dilation if dilate_first else before,
                dilation=dilation,
                stride_first=stride_first,
            )
            self.add_module(f"stage{index + 1}", made)
            in_channels = (width << index) * (expansion or 1)
            widths.append(in_channels)
        self.widths = tuple(widths)

    def forward(self, images: torch.Tensor) -> Features:
        features = self.pooling(self.stem(images))
        maps = []
        for index in range(1, 5):
            features = self.get_submodule(f"stage{index}")(features)
            maps.append(features)
        return (*maps, images)
