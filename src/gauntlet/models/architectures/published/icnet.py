"""ICNet (Zhao et al. 2018, arXiv:1704.08545): the image at three sizes, the deepest branch on the smallest."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.layers import floored_means, resize, unit
from gauntlet.models.architectures.published.network import Parts, Published, Readout
from gauntlet.models.architectures.published.residual import CAFFE_NAMES, PTSEMSEG_NAMES, ResidualEncoder

BINS = (6, 3, 2, 1)
WIDTH = 128
# Window and stride per axis of the authors' pooling, made for the map of a 1025x2049 image.
CAFFE_MAP = (33, 65)
CAFFE_WINDOWS = {1: ((33, 65), (33, 65)), 2: ((17, 33), (16, 32)), 3: ((13, 25), (10, 20)), 6: ((8, 15), (5, 10))}


def overlapping_means(features: torch.Tensor, bins: int) -> torch.Tensor:
    """Means over the authors' windows, in proportion where the map has another size than theirs."""

    def scaled(lengths: tuple[int, int]) -> tuple[int, int]:
        height, width = (
            max(1, length * size // made_for)
            for length, size, made_for in zip(lengths, features.shape[-2:], CAFFE_MAP, strict=True)
        )
        return height, width

    window, stride = (scaled(lengths) for lengths in CAFFE_WINDOWS[bins])
    return functional.avg_pool2d(features, window, stride)


def shrink(features: torch.Tensor) -> torch.Tensor:
    """Half the size, corner pixels kept: 2n + 1 to n + 1."""
    height, width = features.shape[-2:]
    return resize(features, ((height - 1) // 2 + 1, (width - 1) // 2 + 1), corners=True)


class CascadeFusion(nn.Module):
    """Figure 3: the coarser map, enlarged, through a dilated 3x3 unit; the finer through a 1x1 unit; their sum."""

    def __init__(self, low_channels: int, high_channels: int) -> None:
        super().__init__()
        self.low = unit(low_channels, WIDTH, 3, dilation=2, activation=None)
        self.high = unit(high_channels, WIDTH, 1, activation=None)

    def forward(self, low: torch.Tensor, high: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The fused map, and the enlarged coarser one for an auxiliary classifier."""
        low = resize(low, high.shape[-2:], corners=True)
        return torch.relu(self.low(low) + self.high(high)), low


class Encoder(nn.Module):
    """Three branches and their fusions, the map before the classifier at 1/4; two coarser ones; the images.

    Args:
        stride_first: see `residual.Block`.
        pool: (features, bins) to means.
    """

    def __init__(self, *, stride_first: bool, pool: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
        super().__init__()
        self.residual = ResidualEncoder(
            50, stem_widths=(32, 32, 64), output_stride=8, dilate_first=True, stride_first=stride_first, width=32
        )
        self.pool = pool
        self.reduction = unit(1024, 256, 1)
        self.full = nn.Sequential(unit(3, 32, 3, 2), unit(32, 32, 3, 2), unit(32, 64, 3, 2))
        self.fusion24 = CascadeFusion(256, 256)
        self.fusion12 = CascadeFusion(WIDTH, 64)

    def forward(self, images: torch.Tensor) -> Features:
        stages = [self.residual.get_submodule(f"stage{number}") for number in (1, 2, 3, 4)]
        first, *others = stages[1].children()
        features = stages[0](self.residual.pooling(self.residual.stem(shrink(images))))
        half = first(features)
        quarter = shrink(half)
        for part in (*others, *stages[2:]):
            quarter = part(quarter)
        size = quarter.shape[-2:]
        pooled = quarter
        for bins in BINS:
            pooled = pooled + resize(self.pool(quarter, bins), size, corners=True)
        middle, coarse = self.fusion24(self.reduction(pooled), half)
        fine, middle = self.fusion12(middle, self.full(images))
        height, width = fine.shape[-2:]
        return resize(fine, (2 * height - 1, 2 * width - 1), corners=True), middle, coarse, images


def icnet(
    num_classes: int,
    *,
    stride_first: bool = False,
    pool: Callable[[torch.Tensor, int], torch.Tensor] = floored_means,
    auxiliary: bool = True,
) -> Parts:
    """ICNet with half the width of ResNet-50; logits at the image's size."""
    taps = ((1, WIDTH), (2, 256)) if auxiliary else ()
    return Parts(
        Encoder(stride_first=stride_first, pool=pool),
        Readout(nn.Conv2d(WIDTH, num_classes, 1), 0, corners=True),
        [Readout(nn.Conv2d(channels, num_classes, 1), tap, enlarge=False) for tap, channels in taps],
    )


PTSEMSEG: tuple[Rule, ...] = (
    *PTSEMSEG_NAMES,
    (r"^(stem|stage)", r"encoder.residual.\1"),
    (r"^conv5_4_k1\.", "encoder.reduction."),
    (r"^convbnrelu(\d)_sub1\.", lambda match: f"encoder.full.{int(match[1]) - 1}."),
    (r"^cff_sub12\.low_classifier_conv\.", "auxiliary.0.head."),
    (r"^cff_sub24\.low_classifier_conv\.", "auxiliary.1.head."),
    (r"^cff_sub(\d\d)\.low_dilated_conv_bn\.", r"encoder.fusion\1.low."),
    (r"^cff_sub(\d\d)\.high_proj_conv_bn\.", r"encoder.fusion\1.high."),
    (r"^classification\.", "decoder.head."),
)
CAFFE: tuple[Rule, ...] = (
    *CAFFE_NAMES,
    (r"^(stem|stage)", r"encoder.residual.\1"),
    (r"^conv6_cls\.", "decoder.head."),
    (r"/bn\.", ".1."),
    (r"^(conv[^.]*)\.(weight|bias)$", r"\1.0.\2"),
    (r"^conv5_4_k1\.", "encoder.reduction."),
    (r"^conv(\d)_sub1\.", lambda match: f"encoder.full.{int(match[1]) - 1}."),
    (r"^conv_sub4\.", "encoder.fusion24.low."),
    (r"^conv3_1_sub2_proj\.", "encoder.fusion24.high."),
    (r"^conv_sub2\.", "encoder.fusion12.low."),
    (r"^conv3_sub1_proj\.", "encoder.fusion12.high."),
)

_PAPER = "arXiv:1704.08545"
NETWORKS = {
    "icnet_ptsemseg": Published(
        icnet, {}, PTSEMSEG, _PAPER, "retis-ai/SemSegAdvPatch (meetps/pytorch-semseg)", unused=(r"^pyramid_pooling\.",)
    ),
    "icnet_caffe": Published(
        icnet,
        {"stride_first": True, "pool": overlapping_means, "auxiliary": False},
        CAFFE,
        _PAPER,
        "hszhao/ICNet",
        arnab_mib=30.1,
    ),
}
