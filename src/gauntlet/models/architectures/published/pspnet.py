"""PSPNet (Zhao et al. 2017, arXiv:1612.01105) in its authors' and others' forms, and DDC-AT's with three branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Rule
from gauntlet.models.architectures.layers import PyramidPooling, floored_means
from gauntlet.models.architectures.published.network import Head, Parts, Published, Readout
from gauntlet.models.architectures.published.residual import (
    BLOCK_NAMES,
    CAFFE_NAMES,
    DEEP_STEM,
    PTSEMSEG_NAMES,
    V1C_STEM,
    ResidualEncoder,
)

STAGE3, STAGE4 = 2, 3
"""Places of a residual encoder's last maps among its features."""
MASK_CLASSES = 2


class Divided(nn.Module):
    """DDC-AT's three equal heads (Xu, Zhao, Jia 2021, arXiv:2003.06555); the first is the model after training."""

    def __init__(self, context: nn.Module, head: Callable[[int], nn.Module], num_classes: int) -> None:
        super().__init__()
        self.context = context
        self.output = head(num_classes)
        self.boundary = head(num_classes)
        self.mask = head(MASK_CLASSES)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.output(self.context(features))
        return logits

    def branches(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logits of the main branch, of the one for pixels near a boundary, and of the mask that tells them apart."""
        context = self.context(features)
        return self.output(context), self.boundary(context), self.mask(context)


class Pooled(nn.Module):
    """A head on what a context module makes of the features."""

    def __init__(self, context: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.context = context
        self.output = output

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.output(self.context(features))
        return logits


def context_head(
    context: nn.Module, head: Callable[[int], nn.Module], num_classes: int, *, divided: bool = False
) -> nn.Module:
    """A head on a context module, or DDC-AT's three."""
    return Divided(context, head, num_classes) if divided else Pooled(context, head(num_classes))


def pspnet(
    num_classes: int,
    *,
    encoder: Mapping[str, Any],
    bins: Sequence[int] = (1, 2, 3, 6),
    pool: Callable[[torch.Tensor, int], torch.Tensor] = functional.adaptive_avg_pool2d,
    corners: bool = True,
    auxiliary_width: int | None = 256,
    enlarge_auxiliary: bool = True,
    divided: bool = False,
) -> Parts:
    """PSPNet; logits at the image's size.

    Args:
        num_classes: number of logits.
        encoder: options of `ResidualEncoder`.
        bins, pool: of the pyramid, see `PyramidPooling`.
        corners: how maps and logits are enlarged, see `resize`.
        auxiliary_width: of the auxiliary head on stage 3; None for no such head.
        enlarge_auxiliary: its logits are enlarged to the image's size.
        divided: with DDC-AT's three heads.
    """
    residual = ResidualEncoder(**encoder)
    channels = residual.widths[STAGE4]
    width = channels // len(bins)
    pooling = PyramidPooling(channels, width, bins, pool=pool, corners=corners)
    decoder = context_head(pooling, lambda outputs: Head(2 * channels, width, outputs), num_classes, divided=divided)
    auxiliary = []
    if auxiliary_width is not None:
        head = Head(residual.widths[STAGE3], auxiliary_width, num_classes)
        auxiliary.append(Readout(head, STAGE3, enlarge=enlarge_auxiliary, corners=corners))
    return Parts(residual, Readout(decoder, STAGE4, corners=corners), auxiliary)


def sequence_head(prefix: str, ours: str) -> tuple[Rule, ...]:
    """Names of a head that is a sequence of convolution, batch norm, ReLU, dropout and classifier."""
    return ((rf"^{prefix}\.([01])\.", rf"{ours}.unit.\1."), (rf"^{prefix}\.4\.", f"{ours}.classifier."))


SEMSEG_ENCODER: tuple[Rule, ...] = (
    *BLOCK_NAMES,
    (r"^layer0\.", "encoder.stem."),
    (r"^stage", "encoder.stage"),
)
SEMSEG: tuple[Rule, ...] = (
    *SEMSEG_ENCODER,
    (r"^ppm\.features\.(\d)\.1\.", r"decoder.head.context.levels.\1.0."),
    (r"^ppm\.features\.(\d)\.2\.", r"decoder.head.context.levels.\1.1."),
    *sequence_head("cls1?", "decoder.head.output"),
    *sequence_head("cls2", "decoder.head.boundary"),
    *sequence_head("mask1", "decoder.head.mask"),
    *sequence_head("aux(?:_cls1)?", "auxiliary.0.head"),
)
PTSEMSEG: tuple[Rule, ...] = (
    *PTSEMSEG_NAMES,
    (r"^(stem|stage)", r"encoder.\1"),
    (r"^pyramid_pooling\.path_module_list\.", "decoder.head.context.levels."),
    (r"^cbr_final\.", "decoder.head.output.unit."),
    (r"^classification\.", "decoder.head.output.classifier."),
    (r"^convbnrelu4_aux\.", "auxiliary.0.head.unit."),
    (r"^aux_cls\.", "auxiliary.0.head.classifier."),
)
_CAFFE_LEVELS = {"1": 3, "2": 2, "3": 1, "6": 0}
CAFFE: tuple[Rule, ...] = (
    *CAFFE_NAMES,
    (r"^(stem|stage)", r"encoder.\1"),
    (r"/bn\.", ".1."),
    (r"^(conv5[^.]*)\.(weight|bias)$", r"\1.0.\2"),
    (r"^conv5_3_pool(\d)_conv\.", lambda match: f"decoder.head.context.levels.{_CAFFE_LEVELS[match[1]]}."),
    (r"^conv5_4\.", "decoder.head.output.unit."),
    (r"^conv6\.", "decoder.head.output.classifier."),
)
MMSEG_ENCODER: tuple[Rule, ...] = (
    (r"^backbone\.conv1\.", "encoder.stem.0."),
    (r"^backbone\.bn1\.", "encoder.stem.1."),
    (r"^backbone\.", "encoder."),
    *BLOCK_NAMES,
)
MMSEG_HEADS: tuple[Rule, ...] = (
    (r"^auxiliary_head\.convs\.0\.", "auxiliary.0.head.unit."),
    (r"^auxiliary_head\.conv_seg\.", "auxiliary.0.head.classifier."),
    (r"^decode_head\.conv_seg\.", "decoder.head.output.classifier."),
    (r"\.conv\.(weight|bias)$", r".0.\1"),
    (r"\.bn\.", ".1."),
)
MMSEG: tuple[Rule, ...] = (
    *MMSEG_ENCODER,
    (r"^decode_head\.psp_modules\.(\d)\.1\.", r"decoder.head.context.levels.\1."),
    (r"^decode_head\.bottleneck\.", "decoder.head.output.unit."),
    *MMSEG_HEADS,
)

DEEP_50, DEEP_101 = (
    {"depth": depth, "stem_widths": DEEP_STEM, "output_stride": 8, "dilate_first": True} for depth in (50, 101)
)
V1C_18, V1C_50, V1C_101 = ({"depth": depth, "stem_widths": V1C_STEM, "output_stride": 8} for depth in (18, 50, 101))
PLAIN_50, PLAIN_101 = ({"depth": depth, "output_stride": 8} for depth in (50, 101))

_PAPER = "arXiv:1612.01105"
MMSEG_ORIGIN, DDCAT_ORIGIN = "open-mmlab/mmsegmentation", "dvlab-research/Robust-Semantic-Segmentation"
_FLOORED = {"bins": (6, 3, 2, 1), "pool": floored_means}


def _mmseg(encoder: Mapping[str, Any], auxiliary_width: int = 256, classes: int = 19) -> Published:
    options = {"encoder": encoder, "corners": False, "auxiliary_width": auxiliary_width}
    return Published(pspnet, options, MMSEG, _PAPER, MMSEG_ORIGIN, classes=classes)


NETWORKS = {
    "pspnet50_semseg": Published(pspnet, {"encoder": DEEP_50}, SEMSEG, _PAPER, "hszhao/semseg"),
    "pspnet101_semseg": Published(pspnet, {"encoder": DEEP_101}, SEMSEG, _PAPER, "hszhao/semseg"),
    "pspnet101_ptsemseg": Published(
        pspnet,
        {"encoder": DEEP_101, **_FLOORED, "enlarge_auxiliary": False},
        PTSEMSEG,
        _PAPER,
        "retis-ai/SemSegAdvPatch (meetps/pytorch-semseg)",
    ),
    "pspnet101_caffe": Published(
        pspnet, {"encoder": DEEP_101, **_FLOORED, "auxiliary_width": None}, CAFFE, _PAPER, "hszhao/PSPNet",
        arnab_mib=260.2,
    ),
    "pspnet50_ddcat_divided": Published(pspnet, {"encoder": DEEP_50, "divided": True}, SEMSEG, _PAPER, DDCAT_ORIGIN),
    "mm_pspnet_r18": _mmseg(V1C_18, 64),
    "mm_pspnet_r50": _mmseg(V1C_50),
    "mm_pspnet_r50_plainstem": _mmseg(PLAIN_50, classes=21),
    "mm_pspnet_r101": _mmseg(V1C_101),
}  # fmt: skip
