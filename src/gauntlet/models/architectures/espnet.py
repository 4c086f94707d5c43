"""ESPNet (Mehta, Rastegari, Caspi, Shapiro, Hajishirzi 2018, arXiv:1803.06815): 0.36 M parameters."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.models.architectures.base import Architecture, Features, State, renamed
from gauntlet.models.architectures.layers import ConvolutionUnit, NormalisedActivation, convolution, halve

DILATIONS = (1, 2, 4, 8, 16)
STEM_CHANNELS = 16

# Regular expressions over the authors' key names, and ours.
PUBLISHED_NAMES = (
    (r"^encoder\.classifier\.conv\.", "decoder.classify3."),
    (r"^encoder\.b(\d)\.", r"encoder.merge\1."),
    (r"^encoder\.level1\.", "encoder.stem."),
    (r"^encoder\.level([23])_0\.", r"encoder.down\1."),
    (r"^encoder\.level([23])\.", r"encoder.stage\1."),
    (r"^level3_C\.conv\.", "decoder.classify2."),
    (r"^br\.", "decoder.normalise3."),
    (r"^conv\.", "decoder.merge."),
    (r"^up_l3\.0\.", "decoder.upsample3."),
    (r"^combine_l2_l3\.", "decoder.combine."),
    (r"^up_l2\.", "decoder.upsample2."),
    (r"^classifier\.", "decoder.classifier."),
    (r"\.c1\.conv\.", ".reduction."),
    *((rf"\.d{dilation}\.conv\.", f".branches.{index}.") for index, dilation in enumerate(DILATIONS)),
    (r"(down\d|stem|decoder\.merge)\.(bn|act)\.", r"\1.output.\2."),
    (r"\.bn\.(bn|act)\.", r".output.\1."),
    (r"\.conv\.", ".convolution."),
    (r"\.bn\.", ".normalisation."),
    (r"\.act\.", ".activation."),
)


class PyramidBlock(nn.Module):
    """The ESP module (section 3.1): reduce, split into dilations 1 to 16, sum them hierarchically, merge.

    Args:
        in_channels, out_channels: of the block.
        downsample: reduce by a strided 3x3 convolution in place of a 1x1 one.
        residual: add the input before the normalisation.
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, downsample: bool = False, residual: bool = False
    ) -> None:
        super().__init__()
        width = out_channels // len(DILATIONS)
        first = out_channels - width * (len(DILATIONS) - 1)
        self.residual = residual
        self.reduction = (
            convolution(in_channels, width, 3, stride=2) if downsample else convolution(in_channels, width, 1)
        )
        self.branches = nn.ModuleList(
            convolution(width, first if dilation == 1 else width, 3, dilation=dilation) for dilation in DILATIONS
        )
        self.output = NormalisedActivation(out_channels)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        reduced = self.reduction(features)
        nearest, *dilated = (branch(reduced) for branch in self.branches)
        # Hierarchical feature fusion: running sums over growing dilations remove the gridding.
        merged = torch.cat((nearest, *accumulate(dilated)), dim=1)
        result: torch.Tensor = self.output(features + merged if self.residual else merged)
        return result


class Encoder(nn.Module):
    """ESPNet-C without its classifier: features at half, a quarter and an eighth of the resolution."""

    def __init__(self, blocks2: int, blocks3: int) -> None:
        super().__init__()
        self.stem = ConvolutionUnit(3, STEM_CHANNELS, 3, stride=2)
        self.merge1 = NormalisedActivation(STEM_CHANNELS + 3)
        self.down2 = PyramidBlock(STEM_CHANNELS + 3, 64, downsample=True)
        self.stage2 = nn.Sequential(*(PyramidBlock(64, 64, residual=True) for _ in range(blocks2)))
        self.merge2 = NormalisedActivation(128 + 3)
        self.down3 = PyramidBlock(128 + 3, 128, downsample=True)
        self.stage3 = nn.Sequential(*(PyramidBlock(128, 128, residual=True) for _ in range(blocks3)))
        self.merge3 = NormalisedActivation(256)

    def forward(self, images: torch.Tensor) -> Features:
        half = halve(images)
        level1 = self.merge1(torch.cat((self.stem(images), half), dim=1))
        down = self.down2(level1)
        level2 = self.merge2(torch.cat((self.stage2(down), down, halve(half)), dim=1))
        down = self.down3(level2)
        return level1, level2, self.merge3(torch.cat((down, self.stage3(down)), dim=1))


class Decoder(nn.Module):
    """The reduce-upsample-merge decoder of figure 3d, with K channels throughout.

    The last merge takes the level-1 map with the image (19 channels), as in the published weights.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.classify3 = convolution(256, num_classes, 1)
        self.normalise3 = nn.BatchNorm2d(num_classes, eps=1e-3)
        self.upsample3 = nn.ConvTranspose2d(num_classes, num_classes, 2, stride=2, bias=False)
        self.classify2 = convolution(128 + 3, num_classes, 1)
        self.combine = nn.Sequential(NormalisedActivation(2 * num_classes), PyramidBlock(2 * num_classes, num_classes))
        self.upsample2 = nn.Sequential(
            nn.ConvTranspose2d(num_classes, num_classes, 2, stride=2, bias=False), NormalisedActivation(num_classes)
        )
        self.merge = ConvolutionUnit(STEM_CHANNELS + 3 + num_classes, num_classes, 3)
        self.classifier = nn.ConvTranspose2d(num_classes, num_classes, 2, stride=2, bias=False)

    def forward(self, encoded: Features) -> torch.Tensor:
        level1, level2, level3 = encoded
        scores3 = self.upsample3(self.normalise3(self.classify3(level3)))
        scores2 = self.upsample2(self.combine(torch.cat((self.classify2(level2), scores3), dim=1)))
        logits: torch.Tensor = self.classifier(self.merge(torch.cat((scores2, level1), dim=1)))
        return logits


class ESPNet(Architecture):
    """ESPNet; logits at the input's resolution.

    Args:
        num_classes: number of logits; at least 5, one channel per dilation.
        blocks2, blocks3: ESP modules of the second and third level, alpha_2 (p) and alpha_3 (q) of the paper.
    """

    def __init__(self, num_classes: int, *, blocks2: int = 2, blocks3: int = 8) -> None:
        super().__init__()
        if num_classes < len(DILATIONS):
            raise GauntletError(f"espnet needs at least {len(DILATIONS)} classes, not {num_classes}.")
        self.stride = 8
        self.encoder = Encoder(blocks2, blocks3)
        self.decoder = Decoder(num_classes)

    def rename_published(self, state: Mapping[str, torch.Tensor]) -> State:
        """From the names of sacmehta/ESPNet."""
        return renamed(state, PUBLISHED_NAMES)
