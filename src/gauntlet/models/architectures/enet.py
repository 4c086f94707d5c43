"""E-Net (Paszke, Chaurasia, Kim, Culurciello 2016, arXiv:1606.02147): 0.36 M parameters, max-unpooling decoder."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import GauntletError
from gauntlet.models.architectures.base import Architecture, Features, State, renamed
from gauntlet.models.architectures.layers import PReLU

DILATIONS = (2, 4, 8, 16)
DECODER_ACTIVATIONS = ("prelu", "relu")

# Regular expressions over the key names of davidtvs/PyTorch-ENet, and ours.
PUBLISHED_NAMES = (
    (r"^initial_block\.", "encoder.initial."),
    (r"^transposed_conv\.", "decoder.classifier."),
    (r"^[a-z]+([123])_(\d)\.", r"encoder.stage\1.\2."),
    (r"^[a-z]+([45])_(\d)\.", r"decoder.stage\1.\2."),
    (r"\.main_branch\.", ".convolution."),
    (r"\.batch_norm\.", ".normalisation."),
    (r"\.main_conv1\.", ".shortcut."),
    (r"\.ext_conv1\.", ".projection."),
    (r"\.ext_conv2\.", ".convolution."),
    (r"\.ext_conv3\.", ".expansion."),
    (r"\.out_(?:prelu|activation)\.", ".activation."),
)
# Since August 2019 the transposed convolution has a name of its own, and the expansion behind it is the second unit.
CURRENT_NAMES = (
    (r"^upsample(\d)_0\.ext_tconv1\.", r"upsample\1_0.convolution.0."),
    (r"^upsample(\d)_0\.ext_tconv1_bnorm\.", r"upsample\1_0.convolution.1."),
    (r"^upsample(\d)_0\.ext_conv2\.", r"upsample\1_0.expansion."),
    *PUBLISHED_NAMES,
)


def _activation(channels: int, prelu: bool) -> nn.Module:
    return PReLU(channels) if prelu else nn.ReLU()


def _unit(convolution: nn.Conv2d | nn.ConvTranspose2d, prelu: bool) -> list[nn.Module]:
    return [convolution, nn.BatchNorm2d(convolution.out_channels), _activation(1, prelu)]


class InitialBlock(nn.Module):
    """Figure 2a: 13 strided convolutions beside the max-pooled image, 3 to 16 channels at half resolution."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, channels - 3, 3, stride=2, padding=1, bias=False)
        self.normalisation = nn.BatchNorm2d(channels)
        self.activation = PReLU(channels)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pooled = functional.max_pool2d(images, 3, stride=2, padding=1)
        joined = torch.cat((self.convolution(images), pooled), dim=1)
        result: torch.Tensor = self.activation(self.normalisation(joined))
        return result


class Bottleneck(nn.Module):
    """Figure 2b: 1x1 projection to a quarter of the channels, one convolution, 1x1 expansion, added to the input.

    Args:
        channels: in and out.
        dropout: probability of spatial dropout at the end of the branch.
        dilation: of the 3x3 convolution.
        asymmetric: a 5x1 followed by a 1x5 convolution in place of the 3x3 one.
        prelu: PReLU, else ReLU.
    """

    def __init__(
        self, channels: int, dropout: float, *, dilation: int = 1, asymmetric: bool = False, prelu: bool = True
    ) -> None:
        super().__init__()
        inner = channels // 4
        self.projection = nn.Sequential(*_unit(nn.Conv2d(channels, inner, 1, bias=False), prelu))
        if asymmetric:
            self.convolution = nn.Sequential(
                *_unit(nn.Conv2d(inner, inner, (5, 1), padding=(2, 0), bias=False), prelu),
                *_unit(nn.Conv2d(inner, inner, (1, 5), padding=(0, 2), bias=False), prelu),
            )
        else:
            convolution = nn.Conv2d(inner, inner, 3, padding=dilation, dilation=dilation, bias=False)
            self.convolution = nn.Sequential(*_unit(convolution, prelu))
        self.expansion = nn.Sequential(*_unit(nn.Conv2d(inner, channels, 1, bias=False), prelu))
        self.dropout = nn.Dropout2d(dropout)
        self.activation = _activation(channels, prelu)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        branch = self.dropout(self.expansion(self.convolution(self.projection(features))))
        result: torch.Tensor = self.activation(features + branch)
        return result


class DownsamplingBottleneck(nn.Module):
    """A bottleneck at half resolution: max-pooling on the main branch, its indices kept for the decoder."""

    def __init__(self, in_channels: int, out_channels: int, dropout: float, *, pooling: int) -> None:
        super().__init__()
        inner = in_channels // 4
        self.pooling = pooling
        self.extra_channels = out_channels - in_channels
        self.projection = nn.Sequential(*_unit(nn.Conv2d(in_channels, inner, 2, stride=2, bias=False), True))
        self.convolution = nn.Sequential(*_unit(nn.Conv2d(inner, inner, 3, padding=1, bias=False), True))
        self.expansion = nn.Sequential(*_unit(nn.Conv2d(inner, out_channels, 1, bias=False), True))
        self.dropout = nn.Dropout2d(dropout)
        self.activation = PReLU(out_channels)

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pooled, indices = functional.max_pool2d(
            features, self.pooling, stride=2, padding=(self.pooling - 1) // 2, return_indices=True
        )
        branch = self.dropout(self.expansion(self.convolution(self.projection(features))))
        # Section 4: the main branch is padded with zero channels up to the branch's width.
        padded = functional.pad(pooled, (0, 0, 0, 0, 0, self.extra_channels))
        return self.activation(padded + branch), indices


class UpsamplingBottleneck(nn.Module):
    """A bottleneck at double resolution: max-unpooling on the main branch, a transposed convolution on the other."""

    def __init__(
        self, in_channels: int, out_channels: int, dropout: float, *, prelu: bool, transposed_kernel: int = 3
    ) -> None:
        super().__init__()
        inner = in_channels // 4
        padding = transposed_kernel - 2
        transposed = nn.ConvTranspose2d(
            inner, inner, transposed_kernel, stride=2, padding=padding, output_padding=padding, bias=False
        )
        self.shortcut = nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, bias=False), nn.BatchNorm2d(out_channels))
        self.projection = nn.Sequential(*_unit(nn.Conv2d(in_channels, inner, 1, bias=False), prelu))
        self.convolution = nn.Sequential(*_unit(transposed, prelu))
        expansion = _unit(nn.Conv2d(inner, out_channels, 1, bias=False), prelu)
        # The public network with 2x2 transposed convolutions has no activation here.
        self.expansion = nn.Sequential(*(expansion if transposed_kernel == 3 else expansion[:2]))
        self.dropout = nn.Dropout2d(dropout)
        self.activation = _activation(out_channels, prelu)

    def forward(self, features: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        height, width = features.shape[2:]
        # Not functional.max_unpool2d: its check of the size imports sympy, most of a first pass's time.
        main = torch.ops.aten.max_unpool2d(self.shortcut(features), indices, [2 * height, 2 * width])
        branch = self.dropout(self.expansion(self.convolution(self.projection(features))))
        result: torch.Tensor = self.activation(main + branch)
        return result


def _context_stage(channels: int, dropout: float) -> list[nn.Module]:
    """Table 1, bottlenecks 2.1 to 2.8: regular, dilated 2, asymmetric, dilated 4, regular, 8, asymmetric, 16."""
    blocks: list[nn.Module] = []
    for index, dilation in enumerate(DILATIONS):
        first = Bottleneck(channels, dropout) if index % 2 == 0 else Bottleneck(channels, dropout, asymmetric=True)
        blocks += [first, Bottleneck(channels, dropout, dilation=dilation)]
    return blocks


class Encoder(nn.Module):
    """Stages 0 to 3 of Table 1, an eighth of the resolution."""

    def __init__(self, dropout: float, pooling: int) -> None:
        super().__init__()
        # Section 4: a tenth of the dropout before bottleneck 2.0.
        early = dropout / 10
        self.initial = InitialBlock(16)
        self.stage1 = nn.Sequential(
            DownsamplingBottleneck(16, 64, early, pooling=pooling), *(Bottleneck(64, early) for _ in range(4))
        )
        self.stage2 = nn.Sequential(
            DownsamplingBottleneck(64, 128, dropout, pooling=pooling), *_context_stage(128, dropout)
        )
        self.stage3 = nn.Sequential(*_context_stage(128, dropout))

    def forward(self, images: torch.Tensor) -> Features:
        features, first_indices = self.stage1[0](self.initial(images))
        features, second_indices = self.stage2[0](self.stage1[1:](features))
        return self.stage3(self.stage2[1:](features)), first_indices, second_indices


class Decoder(nn.Module):
    """Stages 4 and 5 and the full convolution of Table 1, back to the input's resolution."""

    def __init__(self, num_classes: int, dropout: float, *, prelu: bool, transposed_kernel: int) -> None:
        super().__init__()
        self.stage4 = nn.Sequential(
            UpsamplingBottleneck(128, 64, dropout, prelu=prelu, transposed_kernel=transposed_kernel),
            *(Bottleneck(64, dropout, prelu=prelu) for _ in range(2)),
        )
        self.stage5 = nn.Sequential(
            UpsamplingBottleneck(64, 16, dropout, prelu=prelu, transposed_kernel=transposed_kernel),
            Bottleneck(16, dropout, prelu=prelu),
        )
        self.classifier = nn.ConvTranspose2d(16, num_classes, 3, stride=2, padding=1, output_padding=1, bias=False)

    def forward(self, encoded: Features) -> torch.Tensor:
        features, first_indices, second_indices = encoded
        features = self.stage4[1:](self.stage4[0](features, second_indices))
        features = self.stage5[1:](self.stage5[0](features, first_indices))
        logits: torch.Tensor = self.classifier(features)
        return logits


class ENet(Architecture):
    """E-Net; logits at the input's resolution.

    Args:
        num_classes: number of logits.
        dropout: spatial dropout from bottleneck 2.0 on (0.1 in the paper; a tenth of it before).
        decoder_activation: "prelu" as in the public CamVid weights of 2018, whose file has slopes in the decoder, or
            "relu" as in the authors' Torch code and in the public PyTorch network since 2019.
        pooling: window of the two max-poolings whose indices the decoder uses: 2 as in the paper, or 3 (overlapping)
            as in the public PyTorch network until July 2019.
        transposed_kernel: of the decoder's transposed convolutions: 3, or 2 as in the public PyTorch network of today,
            which has no activation behind the expansion then.
        shared_slopes: one slope for all channels of a PReLU, as in the public PyTorch network since 2019.
    """

    published_options = MappingProxyType({"pooling": 3})

    def __init__(
        self,
        num_classes: int,
        *,
        dropout: float = 0.1,
        decoder_activation: str = "prelu",
        pooling: int = 2,
        transposed_kernel: int = 3,
        shared_slopes: bool = False,
    ) -> None:
        super().__init__()
        for option, value in (("pooling", pooling), ("transposed_kernel", transposed_kernel)):
            if value not in (2, 3):
                raise GauntletError(f"{option} must be 2 or 3, not {value}.")
        if decoder_activation not in DECODER_ACTIVATIONS:
            raise GauntletError(
                f"decoder_activation must be one of {', '.join(DECODER_ACTIVATIONS)}, not '{decoder_activation}'."
            )
        self.stride = 8
        self.encoder = Encoder(dropout, pooling)
        self.decoder = Decoder(
            num_classes, dropout, prelu=decoder_activation == "prelu", transposed_kernel=transposed_kernel
        )
        if shared_slopes:
            for module in self.modules():
                if isinstance(module, PReLU):
                    module.weight = nn.Parameter(module.weight[:1].detach().clone())
                    module.num_parameters = 1

    def rename_published(self, state: Mapping[str, torch.Tensor]) -> State:
        """From the names of davidtvs/PyTorch-ENet: "dilated2_2.ext_conv1" is our "encoder.stage2.2.projection".

        One slope for all channels becomes a slope for each where this network has them.
        """
        result = renamed(state, PUBLISHED_NAMES)
        for name, module in self.named_modules():
            slope = result.get(f"{name}.weight")
            if isinstance(module, PReLU) and slope is not None and slope.numel() == 1:
                result[f"{name}.weight"] = slope.expand(module.num_parameters).clone()
        return result
