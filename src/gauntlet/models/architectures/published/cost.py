"""What a published network costs: parameters, bytes, and multiplications per image, without computing anything."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from gauntlet.models.architectures.published.catalogue import find
from gauntlet.models.architectures.published.network import PublishedNetwork

HEIGHT, WIDTH = 512, 1024
BYTES_PER_VALUE = 4


@dataclass(frozen=True)
class Cost:
    """What inference needs, auxiliary heads left out.

    Attributes:
        parameters: trainable values.
        mebibytes: of parameters and running statistics in single precision.
        giga_multiplications: multiply-adds of convolutions and matrix products for one image, in 10^9.
    """

    parameters: int
    mebibytes: float
    giga_multiplications: float


def cost(name: str, num_classes: int | None = None, size: tuple[int, int] = (HEIGHT, WIDTH)) -> Cost:
    """The cost of a network on an image of a height and width.

    Args:
        name: of the catalogue.
        num_classes: number of logits; that of the published weights by default.
        size: height and width of the image.
    """
    with torch.device("meta"):
        network = PublishedNetwork(num_classes or find(name).classes, network=name).eval()
        images = torch.zeros(1, 3, *size)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(images)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return Cost(parameters, mebibytes(network), counter.get_total_flops() / 2e9)


def mebibytes(network: nn.Module) -> float:
    """Size of a network's parameters and running statistics in single precision, in MiB."""
    values: int = sum(tensor.numel() for tensor in network.state_dict().values() if tensor.is_floating_point())
    return values * BYTES_PER_VALUE / 2**20
