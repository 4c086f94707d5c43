"""DeepLab v2 (arXiv:1606.00915), v3 (arXiv:1706.05587) and v3+ (arXiv:1802.02611), Chen et al.: dilated pyramids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.layers import resize, unit
from gauntlet.models.architectures.published import vgg
from gauntlet.models.architectures.published.mobilenet import MobileNetV2, MobileNetV3
from gauntlet.models.architectures.published.network import (
    Backbone,
    Head,
    Parts,
    Published,
    Readout,
    Supervision,
    he_normal,
)
from gauntlet.models.architectures.published.pspnet import (
    DDCAT_ORIGIN,
    DEEP_50,
    MMSEG_ENCODER,
    MMSEG_HEADS,
    MMSEG_ORIGIN,
    PLAIN_50,
    PLAIN_101,
    SEMSEG_ENCODER,
    V1C_18,
    V1C_50,
    V1C_101,
    context_head,
    sequence_head,
)
from gauntlet.models.architectures.published.residual import ResidualEncoder

NARROW_RATES, WIDE_RATES = (6, 12, 18), (12, 24, 36)
V2_RATES = (6, 12, 18, 24)
LOW, MIDDLE, DEEPEST = 0, -3, -2
"""Places among an encoder's features, whose last is the images."""
SCALES = (0.5, 0.75)

ENCODERS: dict[str, Callable[..., Backbone]] = {
    "residual": ResidualEncoder,
    "mobilenet_v2": MobileNetV2,
    "mobilenet_v3": MobileNetV3,
}


def separable(in_channels: int, out_channels: int, dilation: int = 1) -> nn.Sequential:
    """A depthwise 3x3 unit, then a 1x1 unit."""
    return nn.Sequential(
        unit(in_channels, in_channels, 3, dilation=dilation, groups=in_channels), unit(in_channels, out_channels, 1)
    )


class ASPP(nn.Module):
    """Atrous spatial pyramid pooling: 1x1, three dilated 3x3 and the map's mean, side by side.

    Args:
        in_channels: of the features.
        width: of every branch.
        rates: dilations of the 3x3 branches.
        projection: kernel of a unit from the five branches to one width; None for none.
        dropout: behind the projection.
        image_first: the branch of the mean comes first in the result, else last.
        separated: dilated branches are depthwise first.
    """

    def __init__(
        self,
        in_channels: int,
        width: int,
        rates: Sequence[int],
        *,
        projection: int | None = None,
        dropout: float = 0.0,
        image_first: bool = False,
        separated: bool = False,
    ) -> None:
        super().__init__()
        dilated = [
            separable(in_channels, width, rate) if separated else unit(in_channels, width, 3, dilation=rate)
            for rate in rates
        ]
        self.branches = nn.ModuleList((unit(in_channels, width, 1), *dilated))
        self.image = unit(in_channels, width, 1)
        self.image_first = image_first
        self.projection = unit(5 * width, width, projection) if projection is not None else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        maps = [branch(features) for branch in self.branches]
        mean = self.image(features.mean((2, 3), keepdim=True)).expand_as(maps[0])
        joined = torch.cat((mean, *maps) if self.image_first else (*maps, mean), dim=1)
        result: torch.Tensor = self.dropout(self.projection(joined))
        return result


class SeparableHead(nn.Module):
    """Two separable 3x3 units, dropout, a classifier."""

    def __init__(self, in_channels: int, width: int, num_classes: int) -> None:
        super().__init__()
        self.units = nn.Sequential(separable(in_channels, width), separable(width, width))
        self.dropout = nn.Dropout2d(0.1)
        self.classifier = nn.Conv2d(width, num_classes, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.classifier(self.dropout(self.units(features)))
        return logits


class Refined(nn.Module):
    """The decoder of v3+: context enlarged to the finest map's size and joined with a narrow projection of that map.

    Args:
        context: on the deepest map.
        low_channels, low_width: of the finest map, before and after its projection.
        output: from the joined maps to logits.
        low_first: the finest map comes first.
    """

    def __init__(
        self, context: nn.Module, low_channels: int, low_width: int, output: nn.Module, *, low_first: bool
    ) -> None:
        super().__init__()
        self.context = context
        self.low = unit(low_channels, low_width, 1)
        self.output = output
        self.low_first = low_first

    def forward(self, encoded: Features) -> torch.Tensor:
        low = self.low(encoded[LOW])
        context = resize(self.context(encoded[DEEPEST]), low.shape[-2:])
        logits: torch.Tensor = self.output(torch.cat((low, context) if self.low_first else (context, low), dim=1))
        return logits


def deeplab_v3(
    num_classes: int,
    *,
    encoder: Mapping[str, Any],
    kind: str = "residual",
    rates: Sequence[int] = WIDE_RATES,
    width: int = 256,
    projection: bool = True,
    dropout: float = 0.5,
    image_first: bool = False,
    head_kernel: int = 3,
    auxiliary_width: int | None = None,
    auxiliary_kernel: int = 3,
    corners: bool = False,
    divided: bool = False,
) -> Parts:
    """DeepLab v3; logits at the image's size.

    Args:
        num_classes: number of logits.
        encoder, kind: options and name of an encoder of `ENCODERS`.
        rates, width, image_first: of the pyramid, see `ASPP`.
        projection: the pyramid ends in a 1x1 unit of its width, with dropout behind.
        dropout: there.
        head_kernel: of the unit before the classifier.
        auxiliary_width, auxiliary_kernel: of the auxiliary head; None for no such head.
        corners: how logits are enlarged, see `resize`.
        divided: with DDC-AT's three heads.
    """
    made = ENCODERS[kind](**encoder)
    context = ASPP(
        made.widths[-1], width, rates, projection=1 if projection else None,
        dropout=dropout if projection else 0.0, image_first=image_first,
    )  # fmt: skip
    joined = width if projection else 5 * width

    def head(outputs: int) -> nn.Module:
        return Head(joined, width, outputs, kernel=head_kernel, dropout=0.0 if projection else 0.1)

    auxiliary = []
    if auxiliary_width is not None:
        small = Head(made.widths[-2], auxiliary_width, num_classes, kernel=auxiliary_kernel)
        auxiliary.append(Readout(small, MIDDLE, corners=corners))
    decoder = context_head(context, head, num_classes, divided=divided)
    return Parts(made, Readout(decoder, DEEPEST, corners=corners), auxiliary)


def deeplab_v3_plus(
    num_classes: int, *, encoder: Mapping[str, Any], kind: str = "residual", rates: Sequence[int] = NARROW_RATES
) -> Parts:
    """DeepLab v3+ as in VainF's port; logits at the image's size."""
    made = ENCODERS[kind](**encoder)
    context = ASPP(made.widths[-1], 256, rates, projection=1, dropout=0.1)
    output = Head(256 + 48, 256, num_classes, dropout=0.0)
    return Parts(made, Readout(Refined(context, made.widths[0], 48, output, low_first=True)))


def separable_deeplab_v3_plus(
    num_classes: int, *, encoder: Mapping[str, Any], width: int = 512, low_width: int = 48, auxiliary_width: int = 256
) -> Parts:
    """DeepLab v3+ as in mmsegmentation, with depthwise separable convolutions; logits at the image's size."""
    made = ResidualEncoder(**encoder)
    context = ASPP(made.widths[-1], width, WIDE_RATES, projection=3, image_first=True, separated=True)
    output = SeparableHead(width + low_width, width, num_classes)
    refined = Refined(context, made.widths[0], low_width, output, low_first=False)
    return Parts(made, Readout(refined), [Readout(Head(made.widths[-2], auxiliary_width, num_classes), MIDDLE)])


class SummedPyramid(nn.Module):
    """The pyramid of v2: the sum of what branches say at four rates."""

    def __init__(self, branches: Sequence[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = sum(branch(features) for branch in self.branches)
        return total


class MultiScaleEncoder(nn.Module):
    """The deepest map of the image at full, half and three quarter size, and the images."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, images: torch.Tensor) -> Features:
        smaller = [
            functional.interpolate(images, scale_factor=scale, mode="bilinear", align_corners=False) for scale in SCALES
        ]
        return (*(self.base(each)[DEEPEST] for each in (images, *smaller)), images)


class LargestLogits(nn.Module):
    """One head on the maps of every scale, at the first one's size; the largest of their logits."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, encoded: Features) -> torch.Tensor:
        first, *others = (self.head(features) for features in encoded[:-1])
        for other in others:
            first = torch.maximum(first, resize(other, first.shape[-2:]))
        logits: torch.Tensor = first
        return logits


def deeplab_v2_residual(num_classes: int, *, multi_scale: bool) -> Parts:
    """DeepLab v2 on ResNet-101, on one or three scales of the image; logits at 1/8."""
    encoder = ResidualEncoder(101, output_stride=8, dilate_first=True, stride_first=True, ceil_pooling=True)
    pyramid = SummedPyramid([nn.Conv2d(2048, num_classes, 3, 1, rate, rate) for rate in V2_RATES])
    if not multi_scale:
        return Parts(encoder, Readout(pyramid, DEEPEST, enlarge=False))
    return Parts(MultiScaleEncoder(encoder), Readout(LargestLogits(pyramid), enlarge=False))


def deeplab_v2_vgg(num_classes: int) -> Parts:
    """DeepLab v2 on VGG-16; logits at the image's size."""
    poolings = [
        *(nn.MaxPool2d(3, 2, 1, ceil_mode=True) for _ in range(3)),
        *(nn.MaxPool2d(3, 1, 1) for _ in range(2)),
    ]
    branches = [
        nn.Sequential(
            *(nn.Conv2d(512, 1024, 3, 1, rate, rate), nn.ReLU(inplace=True), nn.Dropout(0.5)),
            *(nn.Conv2d(1024, 1024, 1), nn.ReLU(inplace=True), nn.Dropout(0.5)),
            nn.Conv2d(1024, num_classes, 1),
        )
        for rate in V2_RATES
    ]
    encoder = vgg.VGG16(poolings, last_dilation=2)
    return Parts(encoder, Readout(SummedPyramid(branches), DEEPEST, corners=True))


def initialise_v2(module: nn.Module) -> None:
    """He normal, and 0.01 normal in the pyramid."""
    he_normal(module)
    for layer in module.modules():
        if isinstance(layer, SummedPyramid):
            for convolution in layer.modules():
                if isinstance(convolution, nn.Conv2d):
                    nn.init.normal_(convolution.weight, std=0.01)


_PYRAMID: tuple[Rule, ...] = (
    (r"\.convs\.4\.1\.", ".image.0."),
    (r"\.convs\.4\.2\.", ".image.1."),
    (r"\.convs\.", ".branches."),
    (r"\.project\.", ".projection."),
)
DDCAT: tuple[Rule, ...] = (
    *SEMSEG_ENCODER,
    (r"^aspp\.", "decoder.head.context."),
    *_PYRAMID,
    *sequence_head("cls1?", "decoder.head.output"),
    *sequence_head("cls2", "decoder.head.boundary"),
    *sequence_head("mask1", "decoder.head.mask"),
    *sequence_head("aux(?:_cls1)?", "auxiliary.0.head"),
)
TORCHVISION: tuple[Rule, ...] = (
    *MMSEG_ENCODER,
    (r"^encoder\.(\d+)\.", r"encoder.blocks.\1."),
    (r"\.block\.", ".branch."),
    (r"\.fc1\.", ".reduce."),
    (r"\.fc2\.", ".expand."),
    (r"^classifier\.0\.", "decoder.head.context."),
    *_PYRAMID,
    (r"^classifier\.1\.", "decoder.head.output.unit.0."),
    (r"^classifier\.2\.", "decoder.head.output.unit.1."),
    (r"^classifier\.4\.", "decoder.head.output.classifier."),
    *sequence_head("aux_classifier", "auxiliary.0.head"),
)
_VAINF_MOBILENET: tuple[Rule, ...] = (
    (r"^backbone\.(?:low|high)_level_features\.", "encoder.blocks."),
    (r"^(encoder\.blocks\.\d+)\.conv\.", r"\1.branch."),
)
VAINF: tuple[Rule, ...] = (*_VAINF_MOBILENET, (r"^classifier\.classifier\.", "classifier."), *TORCHVISION)
VAINF_PLUS: tuple[Rule, ...] = (
    *_VAINF_MOBILENET,
    *MMSEG_ENCODER,
    (r"^classifier\.project\.", "decoder.head.low."),
    (r"^classifier\.aspp\.", "decoder.head.context."),
    *_PYRAMID,
    (r"^classifier\.classifier\.3\.", "decoder.head.output.classifier."),
    (r"^classifier\.classifier\.", "decoder.head.output.unit."),
)
_MMSEG_PYRAMID: tuple[Rule, ...] = (
    *MMSEG_ENCODER,
    (r"^decode_head\.image_pool\.1\.", "decoder.head.context.image."),
    (r"^decode_head\.aspp_modules\.", "decoder.head.context.branches."),
    (r"\.depthwise_conv\.", ".0."),
    (r"\.pointwise_conv\.", ".1."),
)
MMSEG: tuple[Rule, ...] = (*_MMSEG_PYRAMID, (r"^decode_head\.bottleneck\.", "decoder.head.output.unit."), *MMSEG_HEADS)
MMSEG_PLUS: tuple[Rule, ...] = (
    *_MMSEG_PYRAMID,
    (r"^decode_head\.bottleneck\.", "decoder.head.context.projection."),
    (r"^decode_head\.c1_bottleneck\.", "decoder.head.low."),
    (r"^decode_head\.sep_bottleneck\.", "decoder.head.output.units."),
    *MMSEG_HEADS,
)
_V2_UNITS = {"reduce": "unit1", "conv3x3": "unit2", "increase": "unit3", "shortcut": "shortcut"}
KAZUTO: tuple[Rule, ...] = (
    (r"^base\.", ""),
    (r"\.conv\.(weight|bias)$", r".0.\1"),
    (r"\.bn\.", ".1."),
    (r"^layer1\.conv1\.", "encoder.stem."),
    (
        r"^layer(\d)\.block(\d+)\.(\w+)\.",
        lambda match: f"encoder.stage{int(match[1]) - 1}.{int(match[2]) - 1}.{_V2_UNITS[match[3]]}.",
    ),
    (r"^aspp\.c(\d)\.", r"decoder.head.branches.\1."),
)
KAZUTO_MULTI_SCALE: tuple[Rule, ...] = (
    *KAZUTO,
    (r"^encoder\.", "encoder.base."),
    (r"^decoder\.head\.", "decoder.head.head."),
)
CAFFE_VGG: tuple[Rule, ...] = (
    *vgg.NAMES,
    (
        r"^fc([678])(?:_\w+?)?_([1-4])\.",
        lambda match: f"decoder.head.branches.{int(match[2]) - 1}.{3 * int(match[1]) - 18}.",
    ),
)

_V2, _V3, _PLUS = "arXiv:1606.00915", "arXiv:1706.05587", "arXiv:1802.02611"
_VAINF_ORIGIN = "VainF/DeepLabV3Plus-Pytorch"
_OS16 = {"depth": 101, "output_stride": 16}
_DDCAT_OPTIONS = {
    "encoder": DEEP_50, "rates": NARROW_RATES, "projection": False, "head_kernel": 1, "auxiliary_width": 256,
    "auxiliary_kernel": 1, "corners": True,
}  # fmt: skip


def _mmseg(encoder: Mapping[str, Any], width: int, auxiliary_width: int) -> Published:
    options = {
        "encoder": encoder, "width": width, "projection": False, "image_first": True,
        "auxiliary_width": auxiliary_width,
    }  # fmt: skip
    return Published(deeplab_v3, options, MMSEG, _V3, MMSEG_ORIGIN)


def _mmseg_plus(encoder: Mapping[str, Any], **options: Any) -> Published:
    return Published(separable_deeplab_v3_plus, {"encoder": encoder, **options}, MMSEG_PLUS, _PLUS, MMSEG_ORIGIN)


def _torchvision(auxiliary_width: int, **options: Any) -> Published:
    return Published(
        deeplab_v3,
        {**options, "auxiliary_width": auxiliary_width},
        TORCHVISION,
        _V3,
        "pytorch/vision",
        classes=21,
        supervision=Supervision(0.5),
    )


def _vainf(build: Callable[..., Parts], names: Sequence[Rule], paper: str, **options: Any) -> Published:
    return Published(build, {"rates": NARROW_RATES, **options}, names, paper, _VAINF_ORIGIN)


_MOBILENET_V2 = {"encoder": {}, "kind": "mobilenet_v2"}
NETWORKS = {
    "deeplabv3_50_ddcat": Published(deeplab_v3, _DDCAT_OPTIONS, DDCAT, _V3, DDCAT_ORIGIN),
    "deeplabv3_50_ddcat_divided": Published(
        deeplab_v3, {**_DDCAT_OPTIONS, "divided": True}, DDCAT, _V3, DDCAT_ORIGIN
    ),
    "tv_deeplabv3_resnet50": _torchvision(256, encoder=PLAIN_50),
    "tv_deeplabv3_resnet101": _torchvision(256, encoder=PLAIN_101),
    "tv_deeplabv3_mobilenet_v3_large": _torchvision(10, encoder={}, kind="mobilenet_v3"),
    "vainf_deeplabv3_mobilenet": _vainf(deeplab_v3, VAINF, _V3, **_MOBILENET_V2, dropout=0.1),
    "vainf_deeplabv3_resnet101": _vainf(deeplab_v3, VAINF, _V3, encoder=_OS16, dropout=0.1),
    "mm_deeplabv3_r18": _mmseg(V1C_18, 128, 64),
    "mm_deeplabv3_r50": _mmseg(V1C_50, 512, 256),
    "mm_deeplabv3_r101": _mmseg(V1C_101, 512, 256),
    "vainf_deeplabv3plus_mobilenet": _vainf(deeplab_v3_plus, VAINF_PLUS, _PLUS, **_MOBILENET_V2),
    "vainf_deeplabv3plus_resnet101": _vainf(deeplab_v3_plus, VAINF_PLUS, _PLUS, encoder=_OS16),
    "mm_deeplabv3plus_r18": _mmseg_plus(V1C_18, width=128, low_width=12, auxiliary_width=64),
    "mm_deeplabv3plus_r50": _mmseg_plus(V1C_50),
    "mm_deeplabv3plus_r101": _mmseg_plus(V1C_101),
    "deeplabv2_resnet101": Published(
        deeplab_v2_residual, {"multi_scale": False}, KAZUTO, _V2, "kazuto1011/deeplab-pytorch",
        initialise=initialise_v2, classes=21, arnab_mib=168.4,
    ),
    "deeplabv2_resnet101_msc": Published(
        deeplab_v2_residual, {"multi_scale": True}, KAZUTO_MULTI_SCALE, _V2, "kazuto1011/deeplab-pytorch",
        initialise=initialise_v2, classes=21, arnab_mib=168.4,
    ),
    "deeplabv2_vgg16": Published(
        deeplab_v2_vgg, {}, CAFFE_VGG, _V2, "DeepLab v2 (Caffe)", initialise=initialise_v2, classes=21, arnab_mib=144.5
    ),
}  # fmt: skip
