"""SegFormer (Xie et al. 2021, arXiv:2105.15203): a hierarchical transformer encoder (MiT) and an all-MLP decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import unknown_name
from gauntlet.models.architectures.base import Architecture, Features, FoldsItself
from gauntlet.models.architectures.layers import drop_path, scale_and_shift

REDUCTIONS = (8, 4, 2, 1)


@dataclass(frozen=True)
class Variant:
    """Sizes of a SegFormer.

    Attributes:
        widths, depths, heads: channels, blocks and attention heads of the four stages.
        decoder_width: channels of the decoder.
        expansion: hidden width of the Mix-FFN over its input.
        first_stride: of the first patch embedding: 4 as published; 2 keeps thin things at small image sizes.
    """

    widths: tuple[int, int, int, int]
    depths: tuple[int, int, int, int]
    heads: tuple[int, int, int, int]
    decoder_width: int
    expansion: int = 4
    first_stride: int = 4


VARIANTS = {
    "b0": Variant((32, 64, 160, 256), (2, 2, 2, 2), (1, 2, 5, 8), 256),
    "b1": Variant((64, 128, 320, 512), (2, 2, 2, 2), (1, 2, 5, 8), 256),
    "b2": Variant((64, 128, 320, 512), (3, 4, 6, 3), (1, 2, 5, 8), 768),
    "b3": Variant((64, 128, 320, 512), (3, 4, 18, 3), (1, 2, 5, 8), 768),
    "b4": Variant((64, 128, 320, 512), (3, 8, 27, 3), (1, 2, 5, 8), 768),
    "b5": Variant((64, 128, 320, 512), (3, 6, 40, 3), (1, 2, 5, 8), 768),
    "tiny": Variant((16, 32, 64, 128), (1, 2, 2, 2), (1, 1, 2, 4), 64, first_stride=2),
    "small": Variant((24, 48, 96, 96), (2, 2, 2, 2), (1, 2, 3, 4), 64),
}


class PatchEmbedding(nn.Module):
    """Overlapped patches (section 3.1): a strided convolution whose windows overlap, then layer norm."""

    def __init__(self, in_channels: int, width: int, stride: int, epsilon: float) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, width, 2 * stride - 1, stride, stride - 1)
        self.normalisation = nn.LayerNorm(width, eps=epsilon)

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, tuple[int, int]]:
        embedded = self.convolution(features)
        return self.normalisation(to_tokens(embedded)), (embedded.shape[2], embedded.shape[3])


class EfficientAttention(nn.Module):
    """Equation 2: keys and values from a map that is reduced R times in height and width."""

    def __init__(self, width: int, heads: int, reduction: int, epsilon: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)
        self.reduction: nn.Conv2d | None = None
        if reduction > 1:
            self.reduction = nn.Conv2d(width, width, reduction, reduction)
            self.normalisation = nn.LayerNorm(width, eps=epsilon)

    def forward(self, tokens: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        source = tokens
        if self.reduction is not None:
            source = self.normalisation(to_tokens(self.reduction(to_map(tokens, size))))
        query = self._split(self.query(tokens))
        key, value = (self._split(part) for part in self.key_value(source).chunk(2, dim=-1))
        attended = functional.scaled_dot_product_attention(query, key, value)
        result: torch.Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return result

    def _split(self, tokens: torch.Tensor) -> torch.Tensor:
        batch, count, width = tokens.shape
        return tokens.reshape(batch, count, self.heads, width // self.heads).transpose(1, 2)


class MixFeedForward(nn.Module):
    """Equation 3: a 3x3 channel-wise convolution between two linear layers tells positions apart."""

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        hidden = width * expansion
        self.expand = nn.Linear(width, hidden)
        self.convolution = nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden)
        self.reduce = nn.Linear(hidden, width)

    def forward(self, tokens: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        hidden = to_tokens(self.convolution(to_map(self.expand(tokens), size)))
        result: torch.Tensor = self.reduce(functional.gelu(hidden))
        return result


class Block(nn.Module):
    """Attention and Mix-FFN, each after a layer norm and added to its input; whole branches drop out in training."""

    def __init__(
        self, width: int, heads: int, reduction: int, expansion: int, drop_path: float, epsilon: float
    ) -> None:
        super().__init__()
        self.drop_path = drop_path
        self.attention_norm = nn.LayerNorm(width, eps=1e-6)
        self.attention = EfficientAttention(width, heads, reduction, epsilon)
        self.feed_forward_norm = nn.LayerNorm(width, eps=1e-6)
        self.feed_forward = MixFeedForward(width, expansion)

    def forward(self, tokens: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        attended = self.attention(self.attention_norm(tokens), size)
        tokens = tokens + drop_path(attended, self.drop_path, self.training)
        fed = self.feed_forward(self.feed_forward_norm(tokens), size)
        return tokens + drop_path(fed, self.drop_path, self.training)


class Stage(nn.Module):
    """Patches of the features before, transformer blocks, layer norm; a map out."""

    def __init__(self, embedding: PatchEmbedding, blocks: list[Block], width: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = nn.ModuleList(blocks)
        self.normalisation = nn.LayerNorm(width, eps=1e-6)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        tokens, size = self.embedding(features)
        for block in self.blocks:
            tokens = block(tokens, size)
        return to_map(self.normalisation(tokens), size)


class Encoder(nn.Module):
    """The Mix Transformer: four stages, each at half the resolution of the one before."""

    def __init__(self, variant: Variant, drop_path: float, reduction_epsilon: float) -> None:
        super().__init__()
        total = sum(variant.depths)
        before = 0
        stages: list[Stage] = []
        in_channels = 3
        for index, width in enumerate(variant.widths):
            # Stochastic depth grows linearly over all blocks, as in the authors' code.
            blocks = [
                Block(
                    width,
                    variant.heads[index],
                    REDUCTIONS[index],
                    variant.expansion,
                    drop_path * (before + number) / max(1, total - 1),
                    reduction_epsilon,
                )
                for number in range(variant.depths[index])
            ]
            stride = variant.first_stride if index == 0 else 2
            embedding = PatchEmbedding(in_channels, width, stride, reduction_epsilon)
            stages.append(Stage(embedding, blocks, width))
            before += variant.depths[index]
            in_channels = width
        self.stages = nn.ModuleList(stages)

    def forward(self, images: torch.Tensor) -> Features:
        maps = []
        for stage in self.stages:
            images = stage(images)
            maps.append(images)
        return tuple(maps)


class Decoder(FoldsItself):
    """The all-MLP decoder (equation 4): one width for every stage, upsampled to the first, fused, classified."""

    def __init__(self, variant: Variant, num_classes: int, dropout: float) -> None:
        super().__init__()
        width = variant.decoder_width
        self.projections = nn.ModuleList(nn.Conv2d(channels, width, 1) for channels in variant.widths)
        self.fusion = nn.Sequential(
            nn.Conv2d(width * len(variant.widths), width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Dropout2d(dropout),
        )
        self.classifier = nn.Conv2d(width, num_classes, 1)

    def forward(self, encoded: Features) -> torch.Tensor:
        size = encoded[0].shape[-2:]
        fused = torch.cat(
            [
                functional.interpolate(projection(features), size=size, mode="bilinear", align_corners=False)
                for projection, features in zip(self.projections, encoded, strict=True)
            ],
            dim=1,
        )
        logits: torch.Tensor = self.classifier(self.fusion(fused))
        return logits

    def folded(self) -> nn.Module:
        return FoldedDecoder(self)


class FoldedDecoder(nn.Module):
    """The decoder with projection, fusion and batch norm as one 1x1 convolution per stage, at the stage's resolution.

    A 1x1 convolution and an interpolation commute, and one over a concatenation is a sum over its parts: fewer
    products, and nothing as wide as all stages together is ever stored.
    """

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        fusion, normalisation = decoder.fusion[0], decoder.fusion[1]
        assert isinstance(fusion, nn.Conv2d)
        assert isinstance(normalisation, nn.BatchNorm2d)
        scale, shift = scale_and_shift(normalisation)
        stages: list[nn.Conv2d] = []
        fused = (scale[:, None] * fusion.weight.flatten(1)).cpu().double()  # MPS has no double precision
        parts = fused.chunk(len(decoder.projections), dim=1)
        for part, projection in zip(parts, decoder.projections, strict=True):
            assert isinstance(projection, nn.Conv2d)
            assert projection.bias is not None
            stage = nn.Conv2d(projection.in_channels, len(scale), 1, bias=not stages, device=scale.device)
            stage.weight.data = (part @ projection.weight.flatten(1).cpu().double()).to(scale)[:, :, None, None]
            shift = shift + (part @ projection.bias.cpu().double()).to(scale)
            stages.append(stage)
        stages[0].bias = nn.Parameter(shift)
        self.stages = nn.ModuleList(stages)
        self.classifier = decoder.classifier

    def forward(self, encoded: Features) -> torch.Tensor:
        fused = self.stages[0](encoded[0])
        for stage, features in zip(self.stages[1:], encoded[1:], strict=True):
            fused = fused + functional.interpolate(
                stage(features), size=fused.shape[-2:], mode="bilinear", align_corners=False
            )
        logits: torch.Tensor = self.classifier(functional.relu(fused))
        return logits


class SegFormer(Architecture):
    """SegFormer; logits at a quarter of the input's resolution ("tiny": a half), to be resized bilinearly.

    Args:
        num_classes: number of logits.
        variant: "b0" (3.7 M) to "b5" as published; "small" is a narrower b0, "tiny" keeps thin things in small images.
        dropout: before the classifier.
        drop_path: stochastic depth of the last block.
        reduction_epsilon: of the layer norms behind strided convolutions; 1e-5 in the authors' code, which has 1e-6 in
            the others as we have in all.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        variant: str = "b0",
        dropout: float = 0.1,
        drop_path: float = 0.1,
        reduction_epsilon: float = 1e-6,
    ) -> None:
        super().__init__()
        if variant not in VARIANTS:
            raise unknown_name("variant of segformer", variant, VARIANTS)
        sizes = VARIANTS[variant]
        self.stride = sizes.first_stride * 8
        self.encoder = Encoder(sizes, drop_path, reduction_epsilon)
        self.decoder = Decoder(sizes, num_classes, dropout)
        initialise(self)


def initialise(network: nn.Module) -> None:
    """Fresh weights as in the authors' code; near-equal class scores at the start."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            nn.init.zeros_(cast(torch.Tensor, module.bias))
        elif isinstance(module, nn.Conv2d):
            fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels // module.groups
            nn.init.normal_(module.weight, std=(2.0 / fan_out) ** 0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    nn.init.normal_(network.get_parameter("decoder.classifier.weight"), std=0.01)


def to_tokens(features: torch.Tensor) -> torch.Tensor:
    """(N, C, H, W) to (N, H * W, C)."""
    return features.flatten(2).transpose(1, 2)


def to_map(tokens: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """(N, H * W, C) to (N, C, H, W)."""
    return tokens.transpose(1, 2).reshape(len(tokens), -1, *size)
