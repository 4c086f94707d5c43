"""Models that processes of their own can build by address: "python:nets:street_network"."""

from __future__ import annotations

import os
import sys
import time

import torch
from torch import nn


def street_network() -> nn.Module:
    """Two convolutions with fixed random weights, for the eleven classes of streets."""
    generator = torch.Generator().manual_seed(7)
    network = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, 11, 3, padding=1))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return network


class _Deadly(nn.Module):
    """A network that ends its process, or raises, when it sees one certain image."""

    def __init__(self, mean: float, how: str) -> None:
        super().__init__()
        self.network, self.mean, self.how = street_network(), mean, how

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if (images.mean(dim=(1, 2, 3)) - self.mean).abs().min() < 1e-6:
            if self.how == "exit":
                os._exit(1)
            if self.how == "raise":
                raise ValueError("this image is poison")
            _die_once(os.environ["GAUNTLET_TEST_MARK"])
        logits: torch.Tensor = self.network(images)
        return logits


def _die_once(mark: str) -> None:
    """Kills this process, unless a file says that it happened."""
    if not os.path.exists(mark):
        with open(mark, "w") as stream:
            stream.write("killed")
        sys.stdout.flush()
        os.kill(os.getpid(), 9)


def _deadly(how: str) -> nn.Module:
    return _Deadly(float(os.environ["GAUNTLET_TEST_POISON"]), how)


def killer() -> nn.Module:
    """Ends its process at the image whose mean is in GAUNTLET_TEST_POISON."""
    return _deadly("exit")


def raiser() -> nn.Module:
    """Raises at the image whose mean is in GAUNTLET_TEST_POISON."""
    return _deadly("raise")


def killed_once() -> nn.Module:
    """Kills the first process that sees that image: the file in GAUNTLET_TEST_MARK remembers that it happened."""
    return _deadly("once")


class _Waiting(nn.Module):
    """Answers a dozen times in every process, then waits for a file."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.calls = street_network(), 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        while self.calls > 12 and not os.path.exists(os.environ["GAUNTLET_TEST_MARK"]):
            time.sleep(0.02)
        logits: torch.Tensor = self.network(images)
        return logits


def waiting() -> nn.Module:
    """A network whose evaluation begins and does not end before the file in GAUNTLET_TEST_MARK is there."""
    return _Waiting()
