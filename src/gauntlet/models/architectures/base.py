"""What the shipped networks share: an encoder, a decoder, a stride, and a map from published key names."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import nn

from gauntlet.registry import Registry, subclass_of

Features = tuple[torch.Tensor, ...]
"""What an encoder hands to a decoder: the feature maps (and pooling indices) that the decoder needs."""

State = dict[str, torch.Tensor]

Rule = tuple[str, str | Callable[[re.Match[str]], str]]
"""A regular expression over names of a state dict and what takes its place, as for `re.sub`."""


class FoldsItself(nn.Module, ABC):
    """A part of a network that has a cheaper form once its weights are frozen."""

    @abstractmethod
    def folded(self) -> nn.Module:
        """A module that computes the same as this one in eval mode, up to rounding."""


class Architecture(nn.Module):
    """A segmentation network in two parts, `decoder(encoder(images))`.

    The split lets training put a second decoder on one encoder (DDC-AT); an inference user never sees it.

    Attributes:
        stride: height and width of the input must be multiples of it; `gauntlet.wrap_model(..., stride=...)` pads.
        published_options: options of the network whose weights its authors (or the public port) published.
        encoder: (N, 3, H, W) normalised images to Features.
        decoder: Features to logits (N, K, h, w), h and w at or below the input's.
    """

    stride: int
    published_options: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    encoder: nn.Module
    decoder: nn.Module

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.decoder(self.encoder(images))
        return logits

    def rename_published(self, state: Mapping[str, torch.Tensor]) -> State:
        """The state dict of this network from the one its authors published; our own names by default."""
        return dict(state)


def renamed(state: Mapping[str, torch.Tensor], rules: Sequence[Rule]) -> State:
    """A state dict under other names: every rule is applied to each, in order."""
    result: State = {}
    for name, value in state.items():
        for pattern, replacement in rules:
            name = re.sub(pattern, replacement, name)
        result[name] = value
    return result


architectures: Registry[type[Architecture]] = Registry(
    "architecture", "gauntlet.architectures", check=subclass_of(Architecture)
)
"""Networks by name; an entry is called with `num_classes` and its options."""
