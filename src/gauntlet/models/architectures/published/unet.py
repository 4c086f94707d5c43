"""U-Net (Ronneberger, Fischer, Brox 2015, arXiv:1505.04597) with batch norm and an FCN head, as in mmsegmentation."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.layers import resize, unit
from gauntlet.models.architectures.published.network import Head, Parts, Published, Readout
from gauntlet.models.architectures.published.pspnet import MMSEG_ORIGIN

WIDTHS = (64, 128, 256, 512, 1024)


def _pair(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(unit(in_channels, out_channels, 3), unit(out_channels, out_channels, 3))


class Up(nn.Module):
    """The coarser map enlarged and narrowed, behind the finer one, through two units."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduction = unit(2 * width, width, 1)
        self.units = _pair(2 * width, width)

    def forward(self, coarser: torch.Tensor, finer: torch.Tensor) -> torch.Tensor:
        enlarged = self.reduction(resize(coarser, finer.shape[-2:]))
        result: torch.Tensor = self.units(torch.cat((finer, enlarged), dim=1))
        return result


class Encoder(nn.Module):
    """Both arms of the U: the finest map, the one before it (for the auxiliary head), and the images."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(_pair(before, width) for before, width in zip((3, *WIDTHS), WIDTHS, strict=False))
        self.up = nn.ModuleList(Up(width) for width in WIDTHS[:-1])

    def forward(self, images: torch.Tensor) -> Features:
        maps = [self.down[0](images)]
        for level in self.down[1:]:
            maps.append(level(functional.max_pool2d(maps[-1], 2)))
        features, before = maps[-1], maps[-1]
        for index in reversed(range(len(self.up))):
            features, before = self.up[index](features, maps[index]), features
        return features, before, images


def unet(num_classes: int) -> Parts:
    """U-Net of five levels; logits at the image's size."""
    return Parts(
        Encoder(),
        Readout(Head(WIDTHS[0], WIDTHS[0], num_classes), 0),
        [Readout(Head(WIDTHS[1], WIDTHS[0], num_classes), 1)],
    )


NAMES: tuple[Rule, ...] = (
    (r"^backbone\.encoder\.(\d)\.\d\.convs\.", r"encoder.down.\1."),
    (r"^backbone\.decoder\.(\d)\.upsample\.interp_upsample\.1\.", r"encoder.up.\1.reduction."),
    (r"^backbone\.decoder\.(\d)\.conv_block\.convs\.", r"encoder.up.\1.units."),
    (r"^decode_head\.convs\.0\.", "decoder.head.unit."),
    (r"^decode_head\.conv_seg\.", "decoder.head.classifier."),
    (r"^auxiliary_head\.convs\.0\.", "auxiliary.0.head.unit."),
    (r"^auxiliary_head\.conv_seg\.", "auxiliary.0.head.classifier."),
    (r"\.conv\.(weight|bias)$", r".0.\1"),
    (r"\.bn\.", ".1."),
)

NETWORKS = {"mm_unet_fcn": Published(unet, {}, NAMES, "arXiv:1505.04597", MMSEG_ORIGIN, stride=16)}
