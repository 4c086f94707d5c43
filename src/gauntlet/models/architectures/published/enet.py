"""E-Net (Paszke et al. 2016, arXiv:1606.02147) in three public forms: davidtvs's of 2019 and of today, Saemann's.

The first two, in PyTorch, are our `enet.ENet` with other options; the last, in Caffe, which Arnab et al. used, has its
own blocks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.base import Features, Rule
from gauntlet.models.architectures.enet import CURRENT_NAMES, DILATIONS, PUBLISHED_NAMES, ENet
from gauntlet.models.architectures.layers import PReLU
from gauntlet.models.architectures.published.network import Parts, Published


def davidtvs(num_classes: int, **options: Any) -> Parts:
    """Encoder and decoder of our E-Net."""
    network = ENet(num_classes, **options)
    return Parts(network.encoder, network.decoder)


def _unit(convolution: nn.Module, channels: int, prelu: bool | None) -> nn.Sequential:
    """A convolution, batch norm, and PReLU, ReLU (False) or nothing (None)."""
    layers = [convolution, nn.BatchNorm2d(channels)]
    if prelu is not None:
        layers.append(PReLU(channels) if prelu else nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class CaffeBottleneck(nn.Module):
    """A bottleneck of the Caffe network: biases inside, no activation behind the expansion.

    Args:
        in_channels, out_channels: of the block.
        dropout: probability of spatial dropout at the end of the branch.
        middle: the convolution between projection and expansion, of a quarter of the output's channels.
        first: kernel and stride of the projection.
        widen: the main branch goes through a 1x1 unit.
        prelu: PReLU, else ReLU.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        dropout: float,
        middle: nn.Module,
        *,
        first: int = 1,
        widen: bool = False,
        prelu: bool = True,
    ) -> None:
        super().__init__()
        inner = out_channels // 4
        self.projection = _unit(nn.Conv2d(in_channels, inner, first, first, bias=False), inner, prelu)
        self.convolution = _unit(middle, inner, prelu)
        self.expansion = _unit(nn.Conv2d(inner, out_channels, 1, bias=False), out_channels, None)
        self.dropout = nn.Dropout2d(dropout)
        self.main: nn.Module = nn.Identity()
        if widen:
            self.main = _unit(nn.Conv2d(in_channels, out_channels, 1, bias=False), out_channels, None)
        self.activation = PReLU(out_channels) if prelu else nn.ReLU()

    def forward(
        self, features: torch.Tensor, pooled: torch.Tensor | None = None, unpool_to: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The block's map.

        Args:
            features: what the branch takes.
            pooled: what the main branch takes instead, at half the size.
            unpool_to: places where the main branch puts its values, at double the size.
        """
        main = self.main(features if pooled is None else pooled)
        if unpool_to is not None:
            main = functional.max_unpool2d(main, unpool_to, (2, 2))
        branch = self.dropout(self.expansion(self.convolution(self.projection(features))))
        result: torch.Tensor = self.activation(main + branch)
        return result


def _middle(channels: int, dilation: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation)


def _asymmetric(channels: int) -> nn.Sequential:
    """5x1 then 1x5; each pads both axes by one, so that the map is distorted between them."""
    return nn.Sequential(
        nn.Conv2d(channels, channels, (5, 1), padding=1, bias=False), nn.Conv2d(channels, channels, (1, 5), padding=1)
    )


def _context_stage(channels: int, dropout: float) -> list[nn.Module]:
    inner = channels // 4
    blocks: list[nn.Module] = []
    for index, dilation in enumerate(DILATIONS):
        first = _middle(inner) if index % 2 == 0 else _asymmetric(inner)
        blocks += [CaffeBottleneck(channels, channels, dropout, middle) for middle in (first, _middle(inner, dilation))]
    return blocks


class CaffeEncoder(nn.Module):
    """Stages 0 to 3, an eighth of the resolution; the last map and the places of both poolings' maxima."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        early = dropout / 10
        self.initial = nn.Conv2d(3, 13, 3, 2, 1)
        self.initial_output = nn.Sequential(nn.BatchNorm2d(16), PReLU(16))
        self.stage1 = nn.Sequential(
            CaffeBottleneck(16, 64, early, _middle(16), first=2, widen=True),
            *(CaffeBottleneck(64, 64, early, _middle(16)) for _ in range(4)),
        )
        self.stage2 = nn.Sequential(
            CaffeBottleneck(64, 128, dropout, _middle(32), first=2, widen=True), *_context_stage(128, dropout)
        )
        self.stage3 = nn.Sequential(*_context_stage(128, dropout))

    def forward(self, images: torch.Tensor) -> Features:
        joined = torch.cat((self.initial(images), functional.max_pool2d(images, 2)), dim=1)
        features, indices = self.initial_output(joined), []
        for stage in (self.stage1, self.stage2):
            first, *others = stage
            pooled, places = functional.max_pool2d(features, 2, return_indices=True)
            features = first(features, pooled)
            indices.append(places)
            for block in others:
                features = block(features)
        return self.stage3(features), *indices


class CaffeDecoder(nn.Module):
    """Stages 4 and 5 and the last transposed convolution, with ReLU; logits at the image's size."""

    def __init__(self, num_classes: int, dropout: float = 0.1) -> None:
        super().__init__()

        def up(in_channels: int, out_channels: int) -> CaffeBottleneck:
            inner = out_channels // 4
            transposed = nn.ConvTranspose2d(inner, inner, 2, 2)
            return CaffeBottleneck(in_channels, out_channels, dropout, transposed, widen=True, prelu=False)

        def regular(channels: int) -> CaffeBottleneck:
            return CaffeBottleneck(channels, channels, dropout, _middle(channels // 4), prelu=False)

        self.stage4 = nn.Sequential(up(128, 64), regular(64), regular(64))
        self.stage5 = nn.Sequential(up(64, 16), regular(16))
        self.classifier = nn.ConvTranspose2d(16, num_classes, 2, 2)

    def forward(self, encoded: Features) -> torch.Tensor:
        features, first_places, second_places = encoded
        for stage, places in ((self.stage4, second_places), (self.stage5, first_places)):
            first, *others = stage
            features = first(features, unpool_to=places)
            for block in others:
                features = block(features)
        logits: torch.Tensor = self.classifier(features)
        return logits


def saemann(num_classes: int) -> Parts:
    """The Caffe network."""
    return Parts(CaffeEncoder(), CaffeDecoder(num_classes))


_CAFFE_PARTS = ("projection", "convolution", "expansion", "", "main")
_CAFFE_LAYERS = {"conv": 0, "deconv": 0, "bn": 1, "prelu": 2}


def _caffe_place(kind: str, stage: str, block: str, part: str, first: bool) -> str:
    """Our place of a layer such as "bn2_3_1": kind, stage, block, part of the block."""
    # Stage 3 has no first block that reduces the size, and counts from 1 all the same.
    number = int(block) - (stage == "3")
    place = f"{'encoder' if int(stage) < 4 else 'decoder'}.stage{stage}.{number}."
    if kind == "prelu" and part == "4":
        return f"{place}activation."
    asymmetric = kind == "conv" and part == "1" and stage in "23" and number - (stage == "2") in (2, 6)
    inside = f"{int(not first)}." if asymmetric else ""
    return f"{place}{_CAFFE_PARTS[int(part)]}.{_CAFFE_LAYERS[kind]}.{inside}"


CAFFE: tuple[Rule, ...] = (
    (r"^conv0_1\.", "encoder.initial."),
    (r"^bn0_1\.", "encoder.initial_output.0."),
    (r"^prelu0_1\.", "encoder.initial_output.1."),
    (r"^deconv6_0_0\.", "decoder.classifier."),
    (
        r"^(conv|deconv|bn|prelu)(\d)_(\d)_(\d)(_a)?\.",
        lambda match: _caffe_place(match[1], match[2], match[3], match[4], bool(match[5])),
    ),
)

_PAPER = "arXiv:1606.02147"
NETWORKS = {
    "enet_davidtvs": Published(
        davidtvs,
        {"decoder_activation": "relu", "transposed_kernel": 2, "shared_slopes": True},
        CURRENT_NAMES,
        _PAPER,
        "davidtvs/PyTorch-ENet",
        stride=8,
    ),
    "enet_davidtvs_2019": Published(
        davidtvs,
        {"decoder_activation": "relu", "pooling": 3, "shared_slopes": True},
        PUBLISHED_NAMES,
        _PAPER,
        "davidtvs/PyTorch-ENet, January to July 2019",
        stride=8,
    ),
    "enet_caffe": Published(saemann, {}, CAFFE, _PAPER, "TimoSaemann/ENet", stride=8, arnab_mib=1.5),
}
