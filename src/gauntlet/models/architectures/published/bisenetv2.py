"""BiSeNet V2 (Yu et al. 2021, arXiv:2004.02147): a wide shallow detail branch beside a narrow deep semantic one."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.layers import convolution, unit
from gauntlet.models.architectures.published.network import (
    HardPixels,
    Head,
    Parts,
    Published,
    Readout,
    Supervision,
    he_normal,
)

EXPANSION = 6


class Stem(nn.Module):
    """Figure 4a: two ways to half the size again, a convolution and a pooling, side by side.

    Args:
        width: of the result.
        stride: 4; for a stride of 2 the two ways keep the size.
    """

    def __init__(self, width: int, stride: int) -> None:
        super().__init__()
        self.first = unit(3, width, 3, 2)
        self.left = nn.Sequential(unit(width, width // 2, 1), unit(width // 2, width, 3, stride // 2))
        self.right = nn.MaxPool2d(3, stride // 2, 1)
        self.fusion = unit(2 * width, width, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.first(images)
        result: torch.Tensor = self.fusion(torch.cat((self.left(features), self.right(features)), dim=1))
        return result


class GatherAndExpand(nn.Module):
    """Figure 5: 3x3, depthwise to six times the channels, 1x1 back; with a stride twice depthwise, also on the side."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        wide = in_channels * EXPANSION
        self.gather = unit(in_channels, in_channels, 3)
        self.shortcut: nn.Module = nn.Identity()
        if stride == 1:
            self.expansion = nn.Sequential(unit(in_channels, wide, 3, groups=in_channels))
        else:
            self.expansion = nn.Sequential(
                unit(in_channels, wide, 3, stride, groups=in_channels, activation=None),
                unit(wide, wide, 3, groups=wide),
            )
            self.shortcut = nn.Sequential(
                *unit(in_channels, in_channels, 3, stride, groups=in_channels, activation=None),
                *unit(in_channels, out_channels, 1, activation=None),
            )
        self.projection = unit(wide, out_channels, 1, activation=None)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.projection(self.expansion(self.gather(features))) + self.shortcut(features))


class ContextEmbedding(nn.Module):
    """Figure 4b: the map's mean, normalised and projected, added to the map; a 3x3 unit behind."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.normalisation = nn.BatchNorm2d(width)
        self.projection = unit(width, width, 1)
        self.output = unit(width, width, 3)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        mean = features.mean((2, 3), keepdim=True)
        result: torch.Tensor = self.output(features + self.projection(self.normalisation(mean)))
        return result


class Aggregation(nn.Module):
    """Figure 6: each branch weighs the other's map at its own resolution; the sum goes through a 3x3 unit."""

    def __init__(self, width: int) -> None:
        super().__init__()

        def separable() -> nn.Sequential:
            return nn.Sequential(*unit(width, width, 3, groups=width, activation=None), convolution(width, width, 1))

        self.detail_fine = separable()
        self.detail_coarse = nn.Sequential(*unit(width, width, 3, 2, activation=None), nn.AvgPool2d(3, 2, 1))
        self.semantic_fine = unit(width, width, 3, activation=None)
        self.semantic_coarse = separable()
        self.output = unit(width, width, 3)

    def forward(self, detail: torch.Tensor, semantic: torch.Tensor) -> torch.Tensor:
        gate = functional.interpolate(self.semantic_fine(semantic), scale_factor=4.0, mode="nearest")
        fine = self.detail_fine(detail) * torch.sigmoid(gate)
        coarse = self.detail_coarse(detail) * torch.sigmoid(self.semantic_coarse(semantic))
        result: torch.Tensor = self.output(fine + functional.interpolate(coarse, scale_factor=4.0, mode="nearest"))
        return result


class Encoder(nn.Module):
    """Both branches and their aggregation at 1/8; the semantic maps at 1/4 to 1/32 for auxiliary heads; the images.

    Args:
        width: of the detail branch's first stages; the semantic branch begins with a quarter of it.
        stem_stride: 4, or 2 for small images: every map is twice as fine then.
    """

    def __init__(self, width: int, stem_stride: int) -> None:
        super().__init__()
        w = width
        self.detail = nn.Sequential(
            nn.Sequential(unit(3, w, 3, 2), unit(w, w, 3)),
            nn.Sequential(unit(w, w, 3, stem_stride // 2), unit(w, w, 3), unit(w, w, 3)),
            nn.Sequential(unit(w, 2 * w, 3, 2), unit(2 * w, 2 * w, 3), unit(2 * w, 2 * w, 3)),
        )
        quarter, half, double = w // 4, w // 2, 2 * w
        self.semantic = nn.ModuleList(
            (
                Stem(quarter, stem_stride),
                nn.Sequential(GatherAndExpand(quarter, half, 2), GatherAndExpand(half, half)),
                nn.Sequential(GatherAndExpand(half, w, 2), GatherAndExpand(w, w)),
                nn.Sequential(GatherAndExpand(w, double, 2), *(GatherAndExpand(double, double) for _ in range(3))),
            )
        )
        self.context = ContextEmbedding(double)
        self.aggregation = Aggregation(double)

    def forward(self, images: torch.Tensor) -> Features:
        features, maps = images, []
        for part in self.semantic:
            features = part(features)
            maps.append(features)
        return self.aggregation(self.detail(images), self.context(features)), *maps, images


def auxiliary_head(channels: int, width: int, stride: int, num_classes: int) -> nn.Sequential:
    """A head that doubles the size inside, with as many channels in the end as pixels per cell of its map."""
    return nn.Sequential(
        unit(channels, width, 3),
        nn.Dropout(0.1),
        nn.Upsample(scale_factor=2.0, mode="nearest"),
        unit(width, stride * stride, 3),
        nn.Conv2d(stride * stride, num_classes, 1),
    )


def bisenet_v2(num_classes: int, *, width: int = 64, head_width: int = 1024, stem_stride: int = 4) -> Parts:
    """BiSeNet V2; logits at the image's size.

    Args:
        num_classes: number of logits.
        width, stem_stride: of the encoder.
        head_width: of the 3x3 unit before the classifier.
    """
    taps = [(1 + depth, (width // 4) << depth, stem_stride << depth) for depth in range(4)]
    return Parts(
        Encoder(width, stem_stride),
        Readout(Head(2 * width, head_width, num_classes), 0),
        [Readout(auxiliary_head(channels, 2 * width, stride, num_classes), tap) for tap, channels, stride in taps],
    )


def initialise(module: nn.Module) -> None:
    """He normal; the last batch norm of every gather-and-expand branch starts at 0, so that it starts as identity."""
    he_normal(module)
    for layer in module.modules():
        if isinstance(layer, GatherAndExpand):
            nn.init.zeros_(layer.get_parameter("projection.1.weight"))


COINCHEUNG: tuple[Rule, ...] = (
    (r"^detail\.S(\d)\.", lambda match: f"encoder.detail.{int(match[1]) - 1}."),
    (r"^segment\.S1S2\.conv\.", "encoder.semantic.0.first."),
    (r"^segment\.S1S2\.fuse\.", "encoder.semantic.0.fusion."),
    (r"^segment\.S1S2\.", "encoder.semantic.0."),
    (r"^segment\.S5_5\.bn\.", "encoder.context.normalisation."),
    (r"^segment\.S5_5\.conv_gap\.", "encoder.context.projection."),
    (r"^segment\.S5_5\.conv_last\.", "encoder.context.output."),
    (r"^segment\.S(\d)(?:_4)?\.", lambda match: f"encoder.semantic.{int(match[1]) - 2}."),
    (r"\.conv1\.", ".gather."),
    (r"\.conv2\.", ".projection."),
    (r"\.dwconv\.", ".expansion.0."),
    (r"\.dwconv(\d)\.", lambda match: f".expansion.{int(match[1]) - 1}."),
    (r"^bga\.left1\.", "encoder.aggregation.detail_fine."),
    (r"^bga\.left2\.", "encoder.aggregation.detail_coarse."),
    (r"^bga\.right1\.", "encoder.aggregation.semantic_fine."),
    (r"^bga\.right2\.", "encoder.aggregation.semantic_coarse."),
    (r"^bga\.conv\.", "encoder.aggregation.output."),
    (r"^head\.conv_out\.1\.", "decoder.head.classifier."),
    (r"^head\.conv\.", "decoder.head.unit."),
    (r"^aux(\d)(?:_4)?\.", lambda match: f"auxiliary.{int(match[1]) - 2}.head."),
    (r"\.head\.conv_out\.1\.", ".head.4."),
    (r"\.head\.conv_out\.0\.1\.", ".head.3."),
    (r"(auxiliary\.\d\.head)\.conv\.", r"\1.0."),
    (r"\.conv\.(weight|bias)$", r".0.\1"),
    (r"\.bn\.", ".1."),
)

NETWORKS = {
    "bisenetv2": Published(
        bisenet_v2, {}, COINCHEUNG, "arXiv:2004.02147", "CoinCheung/BiSeNet", stride=32, initialise=initialise,
        supervision=Supervision(1.0, HardPixels(), hard_everywhere=True),
    ),
}  # fmt: skip
