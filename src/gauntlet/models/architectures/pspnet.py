"""PSPNet (Zhao et al. 2017, arXiv:1612.01105) with a light residual encoder."""

from __future__ import annotations

from itertools import islice

import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import GauntletError
from gauntlet.models.architectures.base import Architecture, Features
from gauntlet.models.architectures.layers import PyramidPooling, convolution, unit

BINS = (1, 2, 3, 6)
OUTPUT_STRIDES = (4, 8, 16)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions added to the input, which a 1x1 convolution fits where the shape changes."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, dilation: int) -> None:
        super().__init__()
        self.first = unit(in_channels, out_channels, 3, stride, dilation)
        self.second = nn.Sequential(
            convolution(out_channels, out_channels, 3, dilation=dilation), nn.BatchNorm2d(out_channels)
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                convolution(in_channels, out_channels, 1, stride=stride), nn.BatchNorm2d(out_channels)
            )

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(self.first(features)) + self.shortcut(features))


class Encoder(nn.Module):
    """A stem at half resolution and four residual stages; dilation stands in for the strides that are left out."""

    def __init__(self, widths: tuple[int, ...], depths: tuple[int, ...], output_stride: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(unit(3, widths[0], 3, stride=2), unit(widths[0], widths[0], 3))
        self.depths = depths
        blocks: list[nn.Module] = []
        in_channels, reached, dilation = widths[0], 2, 1
        for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            stride = 1
            if stage:
                if reached < output_stride:
                    stride, reached = 2, reached * 2
                else:
                    dilation *= 2
            for index in range(depth):
                blocks.append(ResidualBlock(in_channels, width, stride if index == 0 else 1, dilation))
                in_channels = width
        self.stages = nn.Sequential(*blocks)

    def forward(self, images: torch.Tensor) -> Features:
        fine = self.stem(images)
        return self.stages(fine), fine

    def maps(self, images: torch.Tensor) -> Features:
        """What comes out of every stage, the finest first; for networks that need several resolutions."""
        features, maps = self.stem(images), []
        blocks = iter(self.stages)
        for depth in self.depths:
            for block in islice(blocks, depth):
                features = block(features)
            maps.append(features)
        return tuple(maps)


class Decoder(nn.Module):
    """Pyramid pooling, a 3x3 convolution, dropout, the classifier.

    Args:
        channels: of the encoder's last stage.
        fine_channels: of the stem.
        num_classes: number of logits.
        dropout: before the classifier.
        skip: classify at half resolution, from the pooled features beside those of the stem.
    """

    def __init__(self, channels: int, fine_channels: int, num_classes: int, dropout: float, *, skip: bool) -> None:
        super().__init__()
        self.pooling = PyramidPooling(channels, channels // len(BINS), BINS)
        self.fusion = nn.Sequential(unit(2 * channels, channels, 3), nn.Dropout2d(dropout))
        self.reduction = unit(channels, 2 * fine_channels, 1) if skip else None
        self.refinement = unit(3 * fine_channels, 2 * fine_channels, 3) if skip else None
        self.classifier = nn.Conv2d(2 * fine_channels if skip else channels, num_classes, 1)

    def forward(self, encoded: Features) -> torch.Tensor:
        coarse, fine = encoded
        features = self.fusion(self.pooling(coarse))
        if self.reduction is not None and self.refinement is not None:
            features = functional.interpolate(
                self.reduction(features), size=fine.shape[-2:], mode="bilinear", align_corners=False
            )
            features = self.refinement(torch.cat((features, fine), dim=1))
        logits: torch.Tensor = self.classifier(features)
        return logits


class PSPNet(Architecture):
    """PSPNet with a residual encoder of 16 layers; logits at 1 / output_stride of the resolution, or half of it.

    Args:
        num_classes: number of logits.
        widths: channels of the four stages; the last must be a multiple of 4.
        depths: residual blocks of the four stages.
        output_stride: 8 as published, 16 (faster) or 4 (finer).
        dropout: before the classifier.
        skip: join the features of the stem before the classifier (as DeepLabV3+ does), for small images with thin
            things; the published network has none.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        widths: tuple[int, int, int, int] = (24, 40, 64, 96),
        depths: tuple[int, int, int, int] = (1, 2, 2, 2),
        output_stride: int = 8,
        dropout: float = 0.1,
        skip: bool = False,
    ) -> None:
        super().__init__()
        if output_stride not in OUTPUT_STRIDES:
            raise GauntletError(f"output_stride must be 4, 8 or 16, not {output_stride}.")
        if len(widths) != 4 or len(depths) != 4 or widths[-1] % len(BINS):
            raise GauntletError("widths and depths need four values each, the last width a multiple of 4.")
        self.stride = 1
        self.encoder = Encoder(tuple(widths), tuple(depths), output_stride)
        self.decoder = Decoder(widths[-1], widths[0], num_classes, dropout, skip=skip)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
