"""An attack on an image among others is bit for bit the attack on the image alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.threats import attacks
from tiny import tiny_network

CLASSES, SIZE, COUNT = 5, (7, 9), 3
FEW: dict[str, dict[str, Any]] = {
    **{name: {"steps": 8} for name in attacks.names("segmentation")},
    **{name: {} for name in ("fgsm", "fgsm-ll", "fgsm-nth")},
    **{name: {"queries": 20} for name in ("square", "label-only")},
    "region-aware": {"steps": 3, "rounds": 2},
}


class OneByOne(nn.Module):
    """A network that is shown one image at a time: its own sums do not depend on the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.network = tiny_network(CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.network(each[None]) for each in images])


def batch() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A network, images whose number of pixels is odd, and labels of which four in five are what it says."""
    generator = torch.Generator().manual_seed(3)
    images = torch.rand(COUNT, 3, *SIZE, generator=generator)
    model = OneByOne()
    labels = torch.randint(0, CLASSES, (COUNT, *SIZE), generator=generator)
    with torch.no_grad():
        kept = torch.rand(labels.shape, generator=generator) < 0.8
        labels = torch.where(kept, model(images).argmax(1), labels)
    labels[:, 0] = 255
    return model, images, labels


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("name", FEW)
def test_batch_mates_change_no_bit(name: str, norm: str) -> None:
    try:
        attack = attacks.build(name, norm=norm, epsilon="8/255" if norm == "linf" else 0.5, **FEW[name])
    except GauntletError as error:
        pytest.skip(str(error))
    model, images, labels = batch()
    together = attack(model, images, labels, seed=[0, 1, 2]).images
    for row in range(COUNT):
        alone = attack(model, images[row : row + 1], labels[row : row + 1], seed=[row]).images
        assert torch.equal(alone[0], together[row])
