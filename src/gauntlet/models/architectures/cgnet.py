"""CGNet (Wu, Tang, Zhang, Zhang 2018, arXiv:1811.08201): context-guided blocks, 0.49 M parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from gauntlet.models.architectures.base import Architecture, Features, State, renamed
from gauntlet.models.architectures.layers import ConvolutionUnit, NormalisedActivation, convolution, halve

# Regular expressions over the authors' key names, and ours.
PUBLISHED_NAMES = (
    (r"^classifier\.0\.conv\.", "decoder."),
    (r"^level1_(\d)\.", r"encoder.stem.\1."),
    (r"^level([23])_0\.", r"encoder.down\1."),
    (r"^level([23])\.", r"encoder.stage\1."),
    (r"^b1\.", "encoder.merge1."),
    (r"^bn_prelu_([23])\.", r"encoder.merge\1."),
    (r"\.conv1x1\.", ".projection."),
    (r"\.F_loc\.conv\.", ".local."),
    (r"\.F_sur\.conv\.", ".surrounding."),
    (r"\.F_glo\.fc\.0\.", ".recalibration.squeeze."),
    (r"\.F_glo\.fc\.2\.", ".recalibration.excite."),
    (r"\.reduce\.conv\.", ".reduction."),
    (r"(down\d)\.(bn|act)\.", r"\1.joint.\2."),
    (r"\.bn_prelu\.", ".joint."),
    (r"(stem\.\d|projection)\.(bn|act)\.", r"\1.output.\2."),
    (r"\.conv\.", ".convolution."),
    (r"\.bn\.", ".normalisation."),
    (r"\.act\.", ".activation."),
)


class Recalibration(nn.Module):
    """The global context of section 3.1: every channel times a sigmoid of the pooled features."""

    def __init__(self, channels: int, reduction: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, channels // reduction)
        self.excite = nn.Linear(channels // reduction, channels)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        pooled = features.mean(dim=(2, 3))
        weights = torch.sigmoid(self.excite(torch.relu(self.squeeze(pooled))))
        return features * weights[:, :, None, None]


class ContextBlock(nn.Module):
    """Figure 3: local and surrounding (dilated) channel-wise convolutions, joined, recalibrated, added to the input."""

    def __init__(self, channels: int, dilation: int, reduction: int) -> None:
        super().__init__()
        half = channels // 2
        self.projection = ConvolutionUnit(channels, half, 1)
        self.local = convolution(half, half, 3, groups=half)
        self.surrounding = convolution(half, half, 3, dilation=dilation, groups=half)
        self.joint = NormalisedActivation(channels)
        self.recalibration = Recalibration(channels, reduction)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        projected = self.projection(features)
        joined = self.joint(torch.cat((self.local(projected), self.surrounding(projected)), dim=1))
        result: torch.Tensor = features + self.recalibration(joined)
        return result


class DownsamplingContextBlock(nn.Module):
    """A context block at half resolution, without the sum."""

    def __init__(self, in_channels: int, out_channels: int, dilation: int, reduction: int) -> None:
        super().__init__()
        self.projection = ConvolutionUnit(in_channels, out_channels, 3, stride=2)
        self.local = convolution(out_channels, out_channels, 3, groups=out_channels)
        self.surrounding = convolution(out_channels, out_channels, 3, dilation=dilation, groups=out_channels)
        self.joint = NormalisedActivation(2 * out_channels)
        self.reduction = convolution(2 * out_channels, out_channels, 1)
        self.recalibration = Recalibration(out_channels, reduction)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        projected = self.projection(features)
        joined = self.joint(torch.cat((self.local(projected), self.surrounding(projected)), dim=1))
        result: torch.Tensor = self.recalibration(self.reduction(joined))
        return result


class Encoder(nn.Module):
    """Three stages; the image is shown again before the second and the third."""

    def __init__(self, blocks2: int, blocks3: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            ConvolutionUnit(3, 32, 3, stride=2), ConvolutionUnit(32, 32, 3), ConvolutionUnit(32, 32, 3)
        )
        self.merge1 = NormalisedActivation(32 + 3)
        self.down2 = DownsamplingContextBlock(32 + 3, 64, dilation=2, reduction=8)
        self.stage2 = nn.Sequential(*(ContextBlock(64, dilation=2, reduction=8) for _ in range(blocks2 - 1)))
        self.merge2 = NormalisedActivation(128 + 3)
        self.down3 = DownsamplingContextBlock(128 + 3, 128, dilation=4, reduction=16)
        self.stage3 = nn.Sequential(*(ContextBlock(128, dilation=4, reduction=16) for _ in range(blocks3 - 1)))
        self.merge3 = NormalisedActivation(256)

    def forward(self, images: torch.Tensor) -> Features:
        half = halve(images)
        features = self.merge1(torch.cat((self.stem(images), half), dim=1))
        down = self.down2(features)
        features = self.merge2(torch.cat((self.stage2(down), down, halve(half)), dim=1))
        down = self.down3(features)
        return (self.merge3(torch.cat((down, self.stage3(down)), dim=1)),)


class Classifier(nn.Conv2d):
    """The 1x1 convolution at the end, on the only feature map."""

    def forward(self, encoded: Features) -> torch.Tensor:  # type: ignore[override]
        return super().forward(encoded[0])


class CGNet(Architecture):
    """CGNet; logits at an eighth of the input's resolution, to be resized bilinearly.

    Args:
        num_classes: number of logits.
        blocks2, blocks3: blocks of the second and third stage, M and N of the paper.
    """

    def __init__(self, num_classes: int, *, blocks2: int = 3, blocks3: int = 21) -> None:
        super().__init__()
        self.stride = 1
        self.encoder = Encoder(blocks2, blocks3)
        self.decoder = Classifier(256, num_classes, 1, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    def rename_published(self, state: Mapping[str, torch.Tensor]) -> State:
        """From the names of wutianyiRosun/CGNet."""
        return renamed(state, PUBLISHED_NAMES)
