"""UPerNet (Xiao et al. 2018, arXiv:1807.10221) on ConvNeXt, as in SEA's robust models (arXiv:2306.12941)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.layers import PyramidPooling, resize, unit
from gauntlet.models.architectures.published.convnext import ConvNeXt
from gauntlet.models.architectures.published.network import Head, Parts, Published, Readout

MIDDLE = 2


class FeaturePyramid(nn.Module):
    """Pyramid pooling on the coarsest map, handed down to the finer ones; all four at the finest size, classified."""

    def __init__(self, channels: Sequence[int], width: int, num_classes: int) -> None:
        super().__init__()
        self.laterals = nn.ModuleList(unit(each, width, 1) for each in channels[:-1])
        self.pooling = PyramidPooling(channels[-1], width)
        self.top = unit(channels[-1] + 4 * width, width, 3)
        self.smoothing = nn.ModuleList(unit(width, width, 3) for _ in channels[:-1])
        self.fusion = unit(len(channels) * width, width, 3)
        self.classifier = nn.Conv2d(width, num_classes, 1)

    def forward(self, encoded: Features) -> torch.Tensor:
        *finer, coarsest = encoded[:-1]
        maps = [lateral(features) for lateral, features in zip(self.laterals, finer, strict=True)]
        maps.append(self.top(self.pooling(coarsest)))
        for level in reversed(range(len(finer))):
            maps[level] = maps[level] + resize(maps[level + 1], maps[level].shape[-2:])
        size = maps[0].shape[-2:]
        smoothed = [smooth(features) for smooth, features in zip(self.smoothing, maps, strict=False)]
        joined = torch.cat([resize(features, size) for features in (*smoothed, maps[-1])], dim=1)
        logits: torch.Tensor = self.classifier(self.fusion(joined))
        return logits


def upernet(num_classes: int, *, size: str, convolutional_stem: bool, width: int = 512) -> Parts:
    """UPerNet on a ConvNeXt; logits at the image's size."""
    encoder = ConvNeXt(size, convolutional_stem=convolutional_stem)
    return Parts(
        encoder,
        Readout(FeaturePyramid(encoder.widths, width, num_classes)),
        [Readout(Head(encoder.widths[MIDDLE], 256, num_classes), MIDDLE)],
    )


def initialise(module: nn.Module) -> None:
    """Normal with deviation 0.02, cut off at two of them."""
    for layer in module.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(layer.weight, std=0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


NAMES: tuple[Rule, ...] = (
    (r"^backbone\.downsample_layers\.(\d)\.(?:stem\.)?", r"encoder.reductions.\1."),
    (r"^backbone\.norm(\d)\.", r"encoder.normalisations.\1."),
    (r"^backbone\.stages\.", "encoder.stages."),
    (r"\.dwconv\.", ".depthwise."),
    (r"\.norm\.", ".normalisation."),
    (r"\.pwconv1\.", ".expand."),
    (r"\.pwconv2\.", ".reduce."),
    (r"\.gamma$", ".scale"),
    (r"^auxiliary_head\.convs\.0\.", "auxiliary.0.head.unit."),
    (r"^auxiliary_head\.", "auxiliary.0.head."),
    (r"^decode_head\.lateral_convs\.", "decoder.head.laterals."),
    (r"^decode_head\.psp_modules\.(\d)\.1\.", r"decoder.head.pooling.levels.\1."),
    (r"^decode_head\.bottleneck\.", "decoder.head.top."),
    (r"^decode_head\.fpn_convs\.", "decoder.head.smoothing."),
    (r"^decode_head\.fpn_bottleneck\.", "decoder.head.fusion."),
    (r"^decode_head\.", "decoder.head."),
    (r"\.conv\.(weight|bias)$", r".0.\1"),
    (r"\.batch_norm\.", ".1."),
)

_PAPER, _ORIGIN = "arXiv:1807.10221", "nmndeep/Robust-Segmentation"
NETWORKS = {
    name: Published(
        upernet,
        {"size": size, "convolutional_stem": convolutional},
        NAMES,
        _PAPER,
        _ORIGIN,
        stride=32,
        classes=21,
        initialise=initialise,
    )
    for name, size, convolutional in (
        ("upernet_convnext_t", "tiny", False),
        ("upernet_convnext_t_cvst", "tiny", True),
        ("upernet_convnext_s_cvst", "small", True),
    )
}
