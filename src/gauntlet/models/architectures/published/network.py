"""What a published network is: parts, a row of a table that says how to build them, and its authors' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from gauntlet.models.architectures.base import Architecture, Features, Rule, State, renamed
from gauntlet.models.architectures.layers import resize, unit


class Backbone(nn.Module):
    """An encoder that says the channels of its maps.

    Attributes:
        widths: of the maps among its features, finest first.
    """

    widths: Sequence[int]


class Head(nn.Module):
    """A convolution unit, dropout of whole channels, and a 1x1 classifier with bias."""

    def __init__(
        self, in_channels: int, width: int, num_classes: int, *, kernel: int = 3, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.unit = unit(in_channels, width, kernel)
        self.dropout = nn.Dropout2d(dropout)
        self.classifier = nn.Conv2d(width, num_classes, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.classifier(self.dropout(self.unit(features)))
        return logits


class Readout(nn.Module):
    """Logits from the encoder's features, whose last is the images: a decoder, or a head for training only.

    Args:
        head: from features to logits.
        tap: which of the features the head takes; None for all of them.
        enlarge: logits are enlarged to the image's size, else they stay at the features'.
        corners: how, see `resize`.
    """

    def __init__(self, head: nn.Module, tap: int | None = None, *, enlarge: bool = True, corners: bool = False) -> None:
        super().__init__()
        self.head = head
        self.tap, self.enlarge, self.corners = tap, enlarge, corners

    def forward(self, encoded: Features) -> torch.Tensor:
        logits: torch.Tensor = self.head(encoded if self.tap is None else encoded[self.tap])
        return resize(logits, encoded[-1].shape[-2:], corners=self.corners) if self.enlarge else logits


@dataclass(frozen=True)
class Parts:
    """What a network is made of.

    Attributes:
        encoder: images to Features, the images themselves the last of them (decoders need their size).
        decoder: Features to logits.
        auxiliary: heads for training.
    """

    encoder: nn.Module
    decoder: nn.Module
    auxiliary: Sequence[nn.Module] = ()


def he_normal(module: nn.Module) -> None:
    """Convolutions: normal, variance 2 / fan-out (He et al. 2015), as semseg, DDRNet and PIDNet start theirs."""
    for layer in module.modules():
        if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


@dataclass(frozen=True)
class HardPixels:
    """Only the hardest pixels count (online hard example mining, Shrivastava et al. 2016).

    Attributes:
        threshold: pixels count whose right class has a probability below it.
        share: of the labelled pixels that count at least, the hardest first.
    """

    threshold: float = 0.7
    share: float = 1 / 16


@dataclass(frozen=True)
class Supervision:
    """What a network was published to be trained with.

    Attributes:
        weight: of each auxiliary head's loss, one number for all or one for each; the main loss has weight 1. 0.4 as in
            PSPNet (section 3.3), ICNet, DDRNet and mmsegmentation.
        hard: the pixels that count for the main loss; None for all.
        hard_everywhere: they count for the auxiliary losses too.
        boundary: which auxiliary head says where boundaries between classes are, with one logit; None for none.
    """

    weight: float | tuple[float, ...] = 0.4
    hard: HardPixels | None = None
    hard_everywhere: bool = False
    boundary: int | None = None


@dataclass(frozen=True)
class Published:
    """A row of a family's table.

    Attributes:
        build: (num_classes, options) to parts.
        options: of `build`.
        names: rules from the authors' names to ours.
        paper: where the network is described.
        origin: whose code and files the names and details are of.
        stride: height and width must be multiples of it.
        classes: number of logits of the published weights.
        unused: regular expressions of the authors' names (without wrappers) that inference never reads.
        convert: on the state dict under our names, where tensors differ in more than their names.
        initialise: fresh weights.
        supervision: the losses of training.
        behind: the address of the model that net:NAME stands for, where that is a network behind a wrapper.
        arnab_mib: size in MiB that Arnab et al. (2018), table 6, print for it; None where they have no such network.
    """

    build: Callable[..., Parts]
    options: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[Rule] = ()
    paper: str = ""
    origin: str = ""
    stride: int = 1
    classes: int = 19
    unused: Sequence[str] = ()
    convert: Callable[[State], State] = dict
    initialise: Callable[[nn.Module], None] = he_normal
    supervision: Supervision = Supervision()
    behind: str | None = None
    arnab_mib: float | None = None


class PublishedNetwork(Architecture):
    """A network of the catalogue, with fresh weights.

    Args:
        num_classes: number of logits.
        network: its name in the catalogue, or an alias.
        auxiliary: build the heads that only training needs.
        options: of the family, in place of the row's.
    """

    def __init__(self, num_classes: int, *, network: str, auxiliary: bool = False, **options: Any) -> None:
        super().__init__()
        # The catalogue imports the families, and they import this module.
        from gauntlet.models.architectures.published.catalogue import NETWORKS, full_name

        self.name = full_name(network)
        self.row = NETWORKS[self.name]
        self.stride = self.row.stride
        self._build = partial(self.row.build, num_classes, **{**self.row.options, **options})
        parts = self._build()
        self.encoder, self.decoder = parts.encoder, parts.decoder
        self.auxiliary = nn.ModuleList(parts.auxiliary if auxiliary else ())
        self.row.initialise(self)

    def training_heads(self) -> nn.ModuleList:
        """The auxiliary heads with fresh weights, apart from this network."""
        heads = nn.ModuleList(self._build().auxiliary)
        for head in heads:
            self.row.initialise(head)
        return heads

    def auxiliary_logits(self, encoded: Features) -> list[torch.Tensor]:
        """What the auxiliary heads say about the encoder's features, each (N, K, h, w)."""
        return [head(encoded) for head in self.auxiliary]

    def rename_published(self, state: Mapping[str, torch.Tensor]) -> State:
        """The state dict of this network from its authors'."""
        return self.row.convert(renamed(state, self.row.names))
