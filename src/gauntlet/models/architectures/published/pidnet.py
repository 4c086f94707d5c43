"""PIDNet (Xu et al. 2023, arXiv:2206.02066): branches for detail (P), context (I) and boundaries (D)."""

from __future__ import annotations

import torch
from torch import nn

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.layers import resize, unit
from gauntlet.models.architectures.published.ddrnet import (
    BRANCH_NAMES,
    DAPPM,
    HEAD_NAMES,
    UNUSED,
    Scales,
    head,
    normalised_first,
    relu,
    two_branch_stem,
)
from gauntlet.models.architectures.published.network import HardPixels, Parts, Published, Readout, Supervision
from gauntlet.models.architectures.published.residual import Block, stage


class PixelAttention(nn.Module):
    """Pag (figure 4): where both branches say the same, the context's map is taken, elsewhere the detail's."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.context = unit(channels, width, 1, activation=None)
        self.detail = unit(channels, width, 1, activation=None)

    def forward(self, detail: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        size = detail.shape[-2:]
        products = self.detail(detail) * resize(self.context(context), size)
        agreement = torch.sigmoid(products.sum(dim=1, keepdim=True))
        return (1 - agreement) * detail + agreement * resize(context, size)


class PAPPM(Scales):
    """The parallel pyramid (figure 5): all scales through one grouped 3x3 convolution at once."""

    def __init__(self, in_channels: int, width: int, out_channels: int) -> None:
        super().__init__(in_channels, width, out_channels)
        self.process = nn.Sequential(*normalised_first(4 * width, 4 * width, 3, groups=4))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        first, means = self.scaled(features)
        processed = self.process(torch.cat([mean + first for mean in means], dim=1))
        result: torch.Tensor = self.compression(torch.cat((first, processed), dim=1)) + self.shortcut(features)
        return result


class LightFusion(nn.Module):
    """Light-Bag (figure 6): boundaries say where detail counts and where context; a 1x1 unit on each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.detail = unit(width, width, 1, activation=None)
        self.context = unit(width, width, 1, activation=None)

    def forward(self, detail: torch.Tensor, context: torch.Tensor, boundary: torch.Tensor) -> torch.Tensor:
        edge = torch.sigmoid(boundary)
        result: torch.Tensor = self.detail((1 - edge) * context + detail) + self.context(context + edge * detail)
        return result


class Fusion(nn.Module):
    """Bag (figure 6): detail at boundaries, context elsewhere, then a 3x3 convolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Sequential(*normalised_first(width, width, 3))

    def forward(self, detail: torch.Tensor, context: torch.Tensor, boundary: torch.Tensor) -> torch.Tensor:
        edge = torch.sigmoid(boundary)
        result: torch.Tensor = self.convolution(edge * detail + (1 - edge) * context)
        return result


class Encoder(nn.Module):
    """The three branches and their fusion at 1/8; the taps of detail and boundary for training; the images.

    Args:
        blocks, deep_blocks: basic blocks of the stages at 1/4 and 1/8, and of the deeper ones.
        width: of the stem.
        pyramid_width: of every scale of the pyramid.
        large: the wider boundary branch, pyramid and fusion of PIDNet-L.
        stem_stride: 4, or 2 for small images: every map is twice as fine then.
    """

    def __init__(
        self, blocks: int, deep_blocks: int, width: int, pyramid_width: int, *, large: bool, stem_stride: int
    ) -> None:
        super().__init__()
        w = width
        self.stem = two_branch_stem(w, stem_stride)
        self.stage1 = stage(w, w, blocks, expansion=None, open_end=True)
        self.stage2 = stage(w, 2 * w, blocks, expansion=None, stride=2, open_end=True)
        self.detail3 = stage(2 * w, 2 * w, blocks, expansion=None, open_end=True)
        boundary_width = 2 * w if large else w
        self.boundary3 = Block(2 * w, boundary_width, activation=False)
        self.stage3 = stage(2 * w, 4 * w, deep_blocks, expansion=None, stride=2, open_end=True)
        self.compression3 = unit(4 * w, 2 * w, 1, activation=None)
        self.attention3 = PixelAttention(2 * w, w)
        self.difference3 = unit(4 * w, boundary_width, 3, activation=None)
        self.stage4 = stage(4 * w, 8 * w, deep_blocks, expansion=None, stride=2, open_end=True)
        self.detail4 = stage(2 * w, 2 * w, blocks, expansion=None, open_end=True)
        self.boundary4 = stage(boundary_width, boundary_width, 1, expansion=None if large else 2, open_end=True)
        self.compression4 = unit(8 * w, 2 * w, 1, activation=None)
        self.attention4 = PixelAttention(2 * w, w)
        self.difference4 = unit(8 * w, 2 * w, 3, activation=None)
        self.detail5 = stage(2 * w, 2 * w, 1, expansion=2, open_end=True)
        self.boundary5 = stage(2 * w, 2 * w, 1, expansion=2, open_end=True)
        self.stage5 = stage(8 * w, 8 * w, 2, expansion=2, stride=2, open_end=True)
        self.pyramid = (DAPPM if large else PAPPM)(16 * w, pyramid_width, 4 * w)
        self.fusion = (Fusion if large else LightFusion)(4 * w)

    def forward(self, images: torch.Tensor) -> Features:
        features = relu(self.stage2(relu(self.stage1(self.stem(images)))))
        size = features.shape[-2:]
        detail, boundary = self.detail3(features), self.boundary3(features)
        features = relu(self.stage3(features))
        # The taps are what the next stages see, behind the ReLU: the authors' ReLU works in place.
        detail_tap = relu(self.attention3(detail, self.compression3(features)))
        boundary = relu(boundary + resize(self.difference3(features), size))
        features = relu(self.stage4(features))
        detail, boundary = self.detail4(detail_tap), self.boundary4(boundary)
        detail = relu(self.attention4(detail, self.compression4(features)))
        boundary_tap = relu(boundary + resize(self.difference4(features), size))
        detail, boundary = self.detail5(detail), self.boundary5(boundary_tap)
        context = resize(self.pyramid(self.stage5(features)), size)
        return self.fusion(detail, context, boundary), detail_tap, boundary_tap, images


def pidnet(
    num_classes: int,
    *,
    blocks: int,
    deep_blocks: int,
    width: int,
    pyramid_width: int,
    head_width: int,
    large: bool = False,
    stem_stride: int = 4,
) -> Parts:
    """PIDNet; logits at 1/8, or at twice the stem's stride.

    The second auxiliary head has one logit per pixel, that of a boundary.
    """
    return Parts(
        Encoder(blocks, deep_blocks, width, pyramid_width, large=large, stem_stride=stem_stride),
        Readout(head(4 * width, head_width, num_classes), 0, enlarge=False),
        [
            Readout(head(2 * width, head_width, num_classes), 1, enlarge=False),
            Readout(head(2 * width, width, 1), 2, enlarge=False),
        ],
    )


NAMES: tuple[Rule, ...] = (
    (r"^final_layer\.", "decoder.head."),
    (r"^seghead_p\.", "auxiliary.0.head."),
    (r"^seghead_d\.", "auxiliary.1.head."),
    *HEAD_NAMES,
    *BRANCH_NAMES,
    (r"^boundary4\.unit", "boundary4.0.unit"),  # PIDNet-L has a block where the others have a stage of one
    (r"^pag(\d)\.f_y\.", r"attention\1.context."),
    (r"^pag(\d)\.f_x\.", r"attention\1.detail."),
    (r"^diff(\d)\.", r"difference\1."),
    (r"^pyramid\.scale_process\.", "pyramid.process."),
    (r"^dfm\.conv_p\.", "fusion.detail."),
    (r"^dfm\.conv_i\.", "fusion.context."),
    (r"^dfm\.conv\.", "fusion.convolution."),
    (r"^(?!decoder\.|auxiliary\.)", "encoder."),
)

_PAPER, _ORIGIN = "arXiv:2206.02066", "XuJiacong/PIDNet"
_SMALL = {"blocks": 2, "deep_blocks": 3, "pyramid_width": 96, "head_width": 128}
_LARGE = {"blocks": 3, "deep_blocks": 4, "width": 64, "pyramid_width": 112, "head_width": 256, "large": True}
_SUPERVISION = Supervision((0.4, 20.0), HardPixels(0.9), boundary=1)
NETWORKS = {
    name: Published(pidnet, options, NAMES, _PAPER, _ORIGIN, stride=64, unused=UNUSED, supervision=_SUPERVISION)
    for name, options in (
        ("pidnet_s", {**_SMALL, "width": 32}),
        ("pidnet_m", {**_SMALL, "width": 64}),
        ("pidnet_l", _LARGE),
    )
}
