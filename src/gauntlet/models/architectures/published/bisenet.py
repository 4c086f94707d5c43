"""BiSeNet (Yu et al. 2018, arXiv:1808.00897): a spatial path for detail beside a context path, fused by attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.layers import resize, unit
from gauntlet.models.architectures.published.network import (
    Backbone,
    HardPixels,
    Head,
    Parts,
    Published,
    Readout,
    Supervision,
)
from gauntlet.models.architectures.published.residual import BLOCK_NAMES, DEEP_STEM, ResidualEncoder
from gauntlet.models.architectures.published.xception import Xception39

WIDTH = 128
BACKBONES: dict[str, Callable[[], Backbone]] = {
    "resnet18": lambda: ResidualEncoder(18),
    "resnet101": lambda: ResidualEncoder(101, stem_widths=DEEP_STEM),
    "xception39": Xception39,
}


def spatial_mean(features: torch.Tensor) -> torch.Tensor:
    """(N, C, H, W) to (N, C, 1, 1)."""
    return features.mean((2, 3), keepdim=True)


class AttentionRefinement(nn.Module):
    """Figure 2b: a 3x3 unit whose channels are weighed by what a 1x1 unit makes of their means."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.unit = unit(in_channels, WIDTH, 3)
        self.gate = unit(WIDTH, WIDTH, 1, activation=None)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        features = self.unit(features)
        return features * torch.sigmoid(self.gate(spatial_mean(features)))


class Fusion(nn.Module):
    """Figure 2c: both paths joined by a 1x1 unit, channels weighed, added to what they were.

    Args:
        normalised: the gate is one 1x1 convolution with batch norm (CoinCheung), else two with ReLU between (TorchSeg).
    """

    def __init__(self, *, normalised: bool) -> None:
        super().__init__()
        width = 2 * WIDTH
        self.unit = unit(width, width, 1)
        self.gate = (
            unit(width, width, 1, activation=None)
            if normalised
            else nn.Sequential(
                nn.Conv2d(width, width, 1, bias=False), nn.ReLU(inplace=True), nn.Conv2d(width, width, 1, bias=False)
            )
        )

    def forward(self, detail: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.unit(torch.cat((detail, context), dim=1))
        return features + features * torch.sigmoid(self.gate(spatial_mean(features)))


class Encoder(nn.Module):
    """Both paths and their fusion, at 1/8.

    Args:
        backbone: of the context path, a name of `BACKBONES`.
        nearest: context is enlarged by repeating pixels, else bilinearly.
        normalised_gate: see `Fusion`.
    """

    def __init__(self, backbone: str, *, nearest: bool, normalised_gate: bool) -> None:
        super().__init__()
        self.nearest = nearest
        self.spatial = nn.Sequential(unit(3, 64, 7, 2), unit(64, 64, 3, 2), unit(64, 64, 3, 2), unit(64, WIDTH, 1))
        self.context = BACKBONES[backbone]()
        sixteenth, coarsest = self.context.widths[-2:]
        self.global_context = unit(coarsest, WIDTH, 1)
        self.attention = nn.ModuleList((AttentionRefinement(coarsest), AttentionRefinement(sixteenth)))
        self.refinement = nn.ModuleList(unit(WIDTH, WIDTH, 3) for _ in range(2))
        self.fusion = Fusion(normalised=normalised_gate)

    def forward(self, images: torch.Tensor) -> Features:
        """The fused map, the context at 1/16 and at 1/8 (for auxiliary heads), and the images."""
        eighth, sixteenth, coarsest, _ = self.context(images)[-4:]
        context = self.attention[0](coarsest) + self.global_context(spatial_mean(coarsest))
        coarse = self.refinement[0](self._enlarge(context, sixteenth))
        fine = self.refinement[1](self._enlarge(self.attention[1](sixteenth) + coarse, eighth))
        return self.fusion(self.spatial(images), fine), coarse, fine, images

    def _enlarge(self, features: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        if self.nearest:
            return functional.interpolate(features, scale_factor=2.0, mode="nearest")
        return resize(features, like.shape[-2:], corners=True)


def bisenet_v1(
    num_classes: int,
    *,
    backbone: str,
    head_width: int,
    auxiliary_width: int,
    auxiliary_taps: Sequence[int] = (1, 2),
    nearest: bool = False,
    normalised_gate: bool = False,
    corners: bool = True,
) -> Parts:
    """BiSeNet; logits at the image's size.

    Args:
        num_classes: number of logits.
        backbone, nearest, normalised_gate: of the encoder.
        head_width, auxiliary_width: of the 3x3 units before the classifiers.
        auxiliary_taps: which features the auxiliary heads take, in the authors' order.
        corners: how logits are enlarged, see `resize`.
    """

    def readout(channels: int, width: int, tap: int) -> Readout:
        return Readout(Head(channels, width, num_classes, dropout=0.0), tap, corners=corners)

    return Parts(
        Encoder(backbone, nearest=nearest, normalised_gate=normalised_gate),
        readout(2 * WIDTH, head_width, 0),
        [readout(WIDTH, auxiliary_width, tap) for tap in auxiliary_taps],
    )


_HEADS: tuple[Rule, ...] = (
    (r"^heads\.2\.", "decoder.head."),
    (r"^heads\.(\d)\.", r"auxiliary.\1.head."),
)
_UNITS: tuple[Rule, ...] = ((r"\.conv\.(weight|bias)$", r".0.\1"), (r"\.bn\.", ".1."))
TORCHSEG: tuple[Rule, ...] = (
    *_HEADS,
    (r"^spatial_path\.conv_7x7", "encoder.spatial.0"),
    (r"^spatial_path\.conv_3x3_(\d)", r"encoder.spatial.\1"),
    (r"^spatial_path\.conv_1x1", "encoder.spatial.3"),
    (r"^context_path\.", "encoder.context."),
    (r"^global_context\.1", "encoder.global_context"),
    (r"^arms\.(\d)\.channel_attention\.1", r"encoder.attention.\1.gate"),
    (r"^arms\.", "encoder.attention."),
    (r"^refines\.", "encoder.refinement."),
    (r"^ffm\.channel_attention\.1\.conv", "encoder.fusion.gate.0"),
    (r"^ffm\.channel_attention\.2\.conv", "encoder.fusion.gate.2"),
    (r"^ffm\.conv_1x1", "encoder.fusion.unit"),
    (r"^decoder\.head\.conv_1x1", "decoder.head.classifier"),
    (r"^(auxiliary\.\d\.head)\.conv_1x1", r"\1.classifier"),
    (r"\.conv_3x3", ".unit"),
    *BLOCK_NAMES,
    (r"context\.bn1\.", "context.stem.1."),
    (r"context\.conv1\.(conv|bn)\.", r"context.stem.\1."),
    (r"context\.conv1\.weight", "context.stem.0.weight"),
    # Xception39
    (r"layer(\d)\.(\d+)\.proj\.", r"stage\1.\2.shortcut."),
    (r"layer(\d)\.(\d+)\.residual_branch\.", r"stage\1.\2.branch."),
    (r"\.point_wise_cbr\.", ".pointwise."),
    (r"\.(branch\.\d|shortcut)\.conv1\.", r".\1.depthwise."),
    *_UNITS,
)
TORCHSEG_DEEP: tuple[Rule, ...] = (
    (r"^context_path\.conv1\.", "context_path.stem."),
    (r"^context_path\.bn1\.", "context_path.stem.7."),
    *TORCHSEG,
)
COINCHEUNG: tuple[Rule, ...] = (
    (r"^conv_out\.", "decoder.head."),
    (r"^conv_out16\.", "auxiliary.0.head."),
    (r"^conv_out32\.", "auxiliary.1.head."),
    (r"\.head\.conv_out\.", ".head.classifier."),
    (r"\.head\.conv\.", ".head.unit."),
    (r"^cp\.resnet\.conv1\.", "encoder.context.stem.0."),
    (r"^cp\.resnet\.bn1\.", "encoder.context.stem.1."),
    (r"^cp\.resnet\.", "encoder.context."),
    (r"^cp\.conv_avg\.", "encoder.global_context."),
    (r"^cp\.arm32\.", "encoder.attention.0."),
    (r"^cp\.arm16\.", "encoder.attention.1."),
    (r"\.conv_atten\.", ".gate.0."),
    (r"\.bn_atten\.", ".gate.1."),
    (r"(attention\.\d)\.conv\.", r"\1.unit."),
    (r"^cp\.conv_head32\.", "encoder.refinement.0."),
    (r"^cp\.conv_head16\.", "encoder.refinement.1."),
    (r"^sp\.conv_out\.", "encoder.spatial.3."),
    (r"^sp\.conv(\d)\.", lambda match: f"encoder.spatial.{int(match[1]) - 1}."),
    (r"^ffm\.convblk\.", "encoder.fusion.unit."),
    (r"^ffm\.conv\.", "encoder.fusion.gate.0."),
    (r"^ffm\.bn\.", "encoder.fusion.gate.1."),
    *BLOCK_NAMES,
    *_UNITS,
)

_PAPER = "arXiv:1808.00897"
SUPERVISION = Supervision(1.0, HardPixels(), hard_everywhere=True)
_TORCHSEG_ORIGIN = "retis-ai/SemSegAdvPatch (TorchSeg)"
NETWORKS = {
    "bisenetv1_r18_torchseg": Published(
        bisenet_v1,
        {"backbone": "resnet18", "head_width": 64, "auxiliary_width": 256},
        TORCHSEG, _PAPER, _TORCHSEG_ORIGIN, stride=32, supervision=SUPERVISION,
    ),
    "bisenetv1_x39_torchseg": Published(
        bisenet_v1,
        {"backbone": "xception39", "head_width": 64, "auxiliary_width": 128},
        TORCHSEG, _PAPER, _TORCHSEG_ORIGIN, stride=32, supervision=SUPERVISION,
    ),
    "bisenetv1_r101_torchseg": Published(
        bisenet_v1,
        {"backbone": "resnet101", "head_width": 256, "auxiliary_width": 256},
        TORCHSEG_DEEP, _PAPER, _TORCHSEG_ORIGIN, stride=32, supervision=SUPERVISION,
    ),
    "bisenetv1_r18_coincheung": Published(
        bisenet_v1,
        {
            "backbone": "resnet18",
            "head_width": 256,
            "auxiliary_width": 64,
            "auxiliary_taps": (2, 1),
            "nearest": True,
            "normalised_gate": True,
            "corners": False,
        },
        COINCHEUNG, _PAPER, "CoinCheung/BiSeNet", stride=32, supervision=SUPERVISION,
    ),
}  # fmt: skip
