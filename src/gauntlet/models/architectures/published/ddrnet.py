"""DDRNet (Hong et al. 2021, arXiv:2101.06085): a branch that stays at 1/8 and a deep one that tell each other."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.layers import resize, unit
from gauntlet.models.architectures.published.network import Parts, Published, Readout
from gauntlet.models.architectures.published.residual import BLOCK_NAMES, stage

relu = functional.relu
POOLINGS = ((5, 2), (9, 4), (17, 8))
"""Windows and strides of the pyramid's means; the last one is over the whole map."""


def normalised_first(in_channels: int, out_channels: int, kernel: int, *, groups: int = 1) -> list[nn.Module]:
    """Batch norm, ReLU, then a convolution without bias."""
    return [
        nn.BatchNorm2d(in_channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2, groups=groups, bias=False),
    ]


def two_branch_stem(width: int, stride: int = 4) -> nn.Sequential:
    """Two 3x3 convolutions with bias, each with batch norm and ReLU; both strided, or for a stride of 2 the first."""
    layers: list[nn.Module] = []
    for in_channels, step in ((3, 2), (width, stride // 2)):
        layers += [nn.Conv2d(in_channels, width, 3, step, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def head(in_channels: int, width: int, num_classes: int) -> nn.Sequential:
    """A 3x3 and a 1x1 convolution, batch norm and ReLU before each."""
    return nn.Sequential(
        *normalised_first(in_channels, width, 3),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, num_classes, 1),
    )


class Scales(nn.Module):
    """What both pyramids share: means at four scales beside the map itself, and the way out.

    Args:
        in_channels, width, out_channels: of the map, of every scale, of the result.
    """

    def __init__(self, in_channels: int, width: int, out_channels: int) -> None:
        super().__init__()
        self.scale0 = nn.Sequential(*normalised_first(in_channels, width, 1))
        poolings = [nn.AvgPool2d(window, stride, window // 2) for window, stride in POOLINGS]
        for number, pooling in enumerate((*poolings, nn.AdaptiveAvgPool2d(1)), start=1):
            self.add_module(f"scale{number}", nn.Sequential(pooling, *normalised_first(in_channels, width, 1)))
        self.compression = nn.Sequential(*normalised_first(5 * width, out_channels, 1))
        self.shortcut = nn.Sequential(*normalised_first(in_channels, out_channels, 1))

    def scaled(self, features: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The map reduced, and the four means, enlarged to its size."""
        means = [self.get_submodule(f"scale{number}")(features) for number in (1, 2, 3, 4)]
        return self.scale0(features), [resize(mean, features.shape[-2:]) for mean in means]


class DAPPM(Scales):
    """Deep aggregation pyramid pooling (section 3.3): each scale is added to the one before and goes through a 3x3."""

    def __init__(self, in_channels: int, width: int, out_channels: int) -> None:
        super().__init__(in_channels, width, out_channels)
        for number in (1, 2, 3, 4):
            self.add_module(f"process{number}", nn.Sequential(*normalised_first(width, width, 3)))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        first, means = self.scaled(features)
        scales = [first]
        for number, mean in enumerate(means, start=1):
            scales.append(self.get_submodule(f"process{number}")(mean + scales[-1]))
        result: torch.Tensor = self.compression(torch.cat(scales, dim=1)) + self.shortcut(features)
        return result


class Encoder(nn.Module):
    """Both branches (Table 2 of the paper) and the pyramid; their sum at 1/8, the tap for training, the images."""

    def __init__(self, width: int, pyramid_width: int, stem_stride: int) -> None:
        super().__init__()
        w = width
        self.stem = two_branch_stem(w, stem_stride)
        self.stage1 = stage(w, w, 2, expansion=None, open_end=True)
        self.stage2 = stage(w, 2 * w, 2, expansion=None, stride=2, open_end=True)
        self.stage3 = stage(2 * w, 4 * w, 2, expansion=None, stride=2, open_end=True)
        self.detail3 = stage(2 * w, 2 * w, 2, expansion=None, open_end=True)
        self.down3 = unit(2 * w, 4 * w, 3, 2, activation=None)
        self.compression3 = unit(4 * w, 2 * w, 1, activation=None)
        self.stage4 = stage(4 * w, 8 * w, 2, expansion=None, stride=2, open_end=True)
        self.detail4 = stage(2 * w, 2 * w, 2, expansion=None, open_end=True)
        self.down4 = nn.Sequential(*unit(2 * w, 4 * w, 3, 2), *unit(4 * w, 8 * w, 3, 2, activation=None))
        self.compression4 = unit(8 * w, 2 * w, 1, activation=None)
        self.detail5 = stage(2 * w, 2 * w, 1, expansion=2, open_end=True)
        self.stage5 = stage(8 * w, 8 * w, 1, expansion=2, stride=2, open_end=True)
        self.pyramid = DAPPM(16 * w, pyramid_width, 4 * w)

    def forward(self, images: torch.Tensor) -> Features:
        fine = relu(self.stage2(relu(self.stage1(self.stem(images)))))
        size = fine.shape[-2:]
        deep, detail = self.stage3(fine), self.detail3(fine)
        # Both sums take what the other branch was before its own sum.
        deep, tap = (
            deep + self.down3(relu(detail)),
            detail + resize(self.compression3(relu(deep)), size),
        )
        deep, detail = self.stage4(relu(deep)), self.detail4(relu(tap))
        deep, detail = (
            deep + self.down4(relu(detail)),
            detail + resize(self.compression4(relu(deep)), size),
        )
        detail = self.detail5(relu(detail))
        return detail + resize(self.pyramid(self.stage5(relu(deep))), size), tap, images


def ddrnet(num_classes: int, *, width: int, head_width: int, pyramid_width: int = 128, stem_stride: int = 4) -> Parts:
    """DDRNet-23; logits at 1/8, or at twice the stem's stride.

    Args:
        num_classes: number of logits.
        width: of the stem; 32 for the slim variant, 64 for the other.
        head_width: of the 3x3 convolutions before the classifiers.
        pyramid_width: of every scale of the pyramid.
        stem_stride: 4, or 2 for small images: every map is twice as fine then.
    """
    return Parts(
        Encoder(width, pyramid_width, stem_stride),
        Readout(head(4 * width, head_width, num_classes), 0, enlarge=False),
        [Readout(head(2 * width, head_width, num_classes), 1, enlarge=False)],
    )


HEAD_NAMES: tuple[Rule, ...] = (
    (r"\.head\.bn1\.", ".head.0."),
    (r"\.head\.conv1\.", ".head.2."),
    (r"\.head\.bn2\.", ".head.3."),
    (r"\.head\.conv2\.", ".head.5."),
)
BRANCH_NAMES: tuple[Rule, ...] = (
    *BLOCK_NAMES,
    (r"^conv1\.", "stem."),
    (r"^spp\.", "pyramid."),
    (r"^stage(\d)_\.", r"detail\1."),
    (r"^stage(\d)_d\.", r"boundary\1."),
)
NAMES: tuple[Rule, ...] = (
    (r"^final_layer\.", "decoder.head."),
    (r"^seghead_extra\.", "auxiliary.0.head."),
    *HEAD_NAMES,
    *BRANCH_NAMES,
    (r"^(?!decoder\.|auxiliary\.)", "encoder."),
)
UNUSED = (r"^criterion\.", r"^(\w+_)?loss\.")
"""Class weights of the losses, which the authors' programs save beside the network; PIDNet has two losses."""

_PAPER, _ORIGIN = "arXiv:2101.06085", "ydhongHIT/DDRNet"
NETWORKS = {
    "ddrnet23_slim": Published(
        ddrnet, {"width": 32, "head_width": 64}, NAMES, _PAPER, _ORIGIN, stride=64, unused=UNUSED
    ),
    "ddrnet23": Published(ddrnet, {"width": 64, "head_width": 128}, NAMES, _PAPER, _ORIGIN, stride=64, unused=UNUSED),
}
