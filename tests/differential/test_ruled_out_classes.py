"""Attacks on a model that rules classes out by logits of -inf are as strong as on one that gives them -30."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from gauntlet.threats import attacks
from tiny import tiny_network

CLASSES = 6
FEW: dict[str, dict[str, Any]] = {
    **{name: {"steps": 8} for name in attacks.names("segmentation")},
    **{name: {} for name in ("fgsm", "fgsm-ll", "fgsm-nth")},
    **{name: {"queries": 20} for name in ("square", "label-only")},
    "region-aware": {"steps": 3, "rounds": 2},
}


class Ruling(nn.Module):
    """A network that gives some of its classes a constant."""

    def __init__(self, ruled_out: tuple[int, ...], logit: float) -> None:
        super().__init__()
        self.network, self.logit = tiny_network(CLASSES), logit
        self.mask = torch.zeros(1, CLASSES, 1, 1, dtype=torch.bool)
        self.mask[:, list(ruled_out)] = True

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(images)
        return logits.masked_fill(self.mask, self.logit)


def accuracy(attack: Any, model: Ruling, images: torch.Tensor, labels: torch.Tensor) -> float:
    made = attack(model, images, labels, seed=[0, 1]).images
    with torch.no_grad():
        return float((model(made).argmax(1) == labels).float().mean())


@pytest.mark.parametrize("true", [False, True], ids=["other classes", "a true class"])
@pytest.mark.parametrize("ruled_out", [(5,), (2, 3, 4, 5)], ids=["one", "all but two"])
@pytest.mark.parametrize("name", FEW)
def test_a_ruled_out_class_switches_no_attack_off(name: str, ruled_out: tuple[int, ...], true: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    images = torch.rand(2, 3, 16, 24, generator=generator)
    low, infinite = Ruling(ruled_out, -30.0), Ruling(ruled_out, -torch.inf)
    labels = infinite(images).argmax(1)
    if true:
        labels[:, :3] = ruled_out[0]
    attack = attacks.build(name, epsilon="2/255", **FEW[name])
    assert accuracy(attack, infinite, images, labels) <= accuracy(attack, low, images, labels) + 0.005
