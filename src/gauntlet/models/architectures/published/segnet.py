"""SegNet (Badrinarayanan, Kendall, Cipolla 2017, arXiv:1511.00561): VGG-16 and its mirror image, joined by indices."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.published.network import Parts, Published
from gauntlet.models.architectures.published.vgg import STAGES


class ChannelAffine(nn.Module):
    """A scale and a shift per channel: batch norm whose statistics were folded in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features * self.weight[:, None, None] + self.bias[:, None, None]


def _units(widths: list[int], normalisation: type[nn.Module], last: bool) -> nn.Sequential:
    """3x3 convolutions with bias, each normalised, with ReLU; the last one bare where `last` is false."""
    units = []
    for index, (in_channels, out_channels) in enumerate(pairwise(widths)):
        layers: list[nn.Module] = [nn.Conv2d(in_channels, out_channels, 3, padding=1)]
        if last or index < len(widths) - 2:
            layers += [normalisation(out_channels), nn.ReLU(inplace=True)]
        units.append(nn.Sequential(*layers))
    return nn.Sequential(*units)


class Encoder(nn.Module):
    """The last pooled map, then index maps, finest first, and the images."""

    def __init__(self, normalisation: type[nn.Module], dropout: float) -> None:
        super().__init__()
        inputs = (3, *(stage[-1] for stage in STAGES))
        self.levels = nn.ModuleList(
            _units([before, *widths], normalisation, True) for before, widths in zip(inputs, STAGES, strict=False)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, images: torch.Tensor) -> Features:
        features, indices = images, []
        for level in self.levels:
            features, places = functional.max_pool2d(self.dropout(level(features)), 2, 2, return_indices=True)
            indices.append(places)
        return features, *indices, images


class Decoder(nn.Module):
    """Level by level: values back to where the maxima were, then convolutions; logits at the image's size."""

    def __init__(self, num_classes: int, normalisation: type[nn.Module], dropout: float, normalise_last: bool) -> None:
        super().__init__()
        levels = []
        for index in reversed(range(len(STAGES))):
            below = STAGES[index - 1][-1] if index else num_classes
            widths = [*reversed(STAGES[index]), below]
            levels.append(_units(widths, normalisation, bool(index) or normalise_last))
        self.levels = nn.ModuleList(levels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, encoded: Features) -> torch.Tensor:
        features, *indices, images = encoded
        finer = [images, *indices]
        for depth, level in enumerate(self.levels, start=1):
            size = finer[-1 - depth].shape[-2:]
            features = level(
                functional.max_unpool2d(self.dropout(features), indices[-depth], (2, 2), None, (0, 0), size)
            )
        return features


def segnet(
    num_classes: int, *, normalisation: type[nn.Module], dropout: float = 0.0, normalise_last: bool = False
) -> Parts:
    """SegNet; logits at the image's size.

    Args:
        num_classes: number of logits.
        normalisation: behind every convolution: `ChannelAffine` in the authors' file for inference, or batch norm.
        dropout: behind every level.
        normalise_last: logits are normalised and cut off at 0, as in ptsemseg's port, not the authors'.
    """
    return Parts(Encoder(normalisation, dropout), Decoder(num_classes, normalisation, dropout, normalise_last))


def _caffe_place(level: str, unit: str, mirrored: bool, layer: int) -> str:
    """Our place of a layer "conv{level}_{unit}", "_D" where mirrored."""
    if mirrored:
        units = len(STAGES[int(level) - 1])
        return f"decoder.levels.{5 - int(level)}.{units - int(unit)}.{layer}."
    return f"encoder.levels.{int(level) - 1}.{int(unit) - 1}.{layer}."


CAFFE: tuple[Rule, ...] = (
    (
        r"^conv(\d)_(\d)(_D)?(_bn)?\.",
        lambda match: _caffe_place(match[1], match[2], bool(match[3]), int(bool(match[4]))),
    ),
)
PTSEMSEG: tuple[Rule, ...] = (
    (
        r"^down(\d)\.conv(\d)\.cbr_unit\.",
        lambda match: f"encoder.levels.{int(match[1]) - 1}.{int(match[2]) - 1}.",
    ),
    (r"^up(\d)\.conv(\d)\.cbr_unit\.", lambda match: f"decoder.levels.{5 - int(match[1])}.{int(match[2]) - 1}."),
)

_PAPER = "arXiv:1511.00561"
NETWORKS = {
    "segnet_caffe": Published(
        segnet, {"normalisation": ChannelAffine, "dropout": 0.5}, CAFFE, _PAPER, "alexgkendall/SegNet-Tutorial",
        stride=32, classes=21, arnab_mib=112.4,
    ),
    "segnet_ptsemseg": Published(
        segnet, {"normalisation": nn.BatchNorm2d, "normalise_last": True}, PTSEMSEG, _PAPER,
        "retis-ai/SemSegAdvPatch (meetps/pytorch-semseg)", stride=32, classes=21,
    ),
}  # fmt: skip
