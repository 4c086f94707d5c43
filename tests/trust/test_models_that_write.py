"""Networks that write to their images, or answer in the same memory each time, give the figures of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import gauntlet
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.models.contract import Candidates, ModelIdentity
from gauntlet.threats import attacks
from tiny import TinyDataset, tiny_network
from tiny_detector import TinyBoxes, TinyDetector

MEAN, STD = torch.full((3, 1, 1), 0.45), torch.full((3, 1, 1), 0.2)
FEW = {"epsilon": "8/255", "steps": 2}
THREATS: dict[str, Any] = {
    "pgd": {"attack": {"name": "pgd", **FEW}},
    "square": {"attack": {"name": "square", "epsilon": "8/255", "queries": 12}},
    "label-only": {"attack": {"name": "label-only", "epsilon": "8/255", "queries": 12}},
    "battery": {"battery": {"name": "semsegbench", **FEW}},
    "certify": {"certify": {"sigma": 0.25, "n0": 3, "n": 40, "tau": 0.6}},
    "localized": {"localized": {"corruption": {"name": "contrast", "severity": 5}, "ratio": 0.5, "patch": 8}},
    "geometric_worst": {"geometric_worst": {"draws": 3, "degrees": 10, "shift": 0.1}},
}


class Apart(nn.Module):
    """Normalises its images as it should."""

    def __init__(self) -> None:
        super().__init__()
        self.network = tiny_network()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network((images - MEAN) / STD)
        return logits


class InPlace(Apart):
    """Normalises its images in place, as many do."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(images.sub_(MEAN).div_(STD))
        return logits


class InPlaceModel(SegmentationModel):
    """A Gauntlet model of a user's own around it."""

    def __init__(self) -> None:
        super().__init__(num_classes=3, identity=ModelIdentity("own", "0"))
        self.network = InPlace()
        self.freeze()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(images)
        return logits


class SameMemory(Apart):
    """Answers in one buffer, whatever it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.empty(0)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = super().forward(images)
        if logits.requires_grad:
            return logits
        if self.memory.shape != logits.shape:
            self.memory = torch.empty_like(logits)
        return self.memory.copy_(logits)


class DarkDetector(TinyDetector):
    """A detector that halves its images."""

    def candidates(self, images: torch.Tensor) -> Candidates:
        return super().candidates(images * 0.5)


class InPlaceDetector(TinyDetector):
    """The same one, which halves them in place."""

    def candidates(self, images: torch.Tensor) -> Candidates:
        return super().candidates(images.mul_(0.5))


def figures(model: SegmentationModel, threat: Any) -> dict[str, float]:
    evaluation = gauntlet.evaluate(model, TinyDataset(3, sizes=((32, 40),)), threat, batch_size=2)
    return dict(evaluation.figures)


@pytest.mark.parametrize("name", THREATS)
@pytest.mark.parametrize("build", [lambda: wrap_model(InPlace(), num_classes=3), InPlaceModel], ids=["wrapped", "own"])
def test_a_network_that_normalises_in_place_has_its_own_copy(name: str, build: Any) -> None:
    expected = figures(wrap_model(Apart(), num_classes=3), THREATS[name])
    assert figures(build(), THREATS[name]) == pytest.approx(expected, nan_ok=True, abs=0)


@pytest.mark.parametrize("name", ["square", "battery", "certify", "localized"])
def test_answers_in_the_same_memory_are_kept_apart(name: str) -> None:
    expected = figures(wrap_model(Apart(), num_classes=3), THREATS[name])
    found = figures(wrap_model(SameMemory(), num_classes=3), THREATS[name])
    assert found == pytest.approx(expected, nan_ok=True, abs=0)


def test_an_attack_hands_no_memory_of_its_own_to_a_callable() -> None:
    data = TinyDataset(1, sizes=((32, 40),))
    images, labels = data[0].tensor()[None], torch.from_numpy(data[0].labels)[None].long()
    before = images.clone()
    attack = attacks.build("pgd", epsilon="8/255", steps=3)
    outcome = attack(InPlace(), images, labels)
    assert torch.equal(outcome.images, attack(Apart(), images, labels).images)
    assert torch.equal(images, before)


def test_a_detector_that_writes_to_its_images_has_its_own_copy() -> None:
    for threat in ("clean", {"attack": {"name": "pgd", **FEW}}, {"attack": {"name": "dag", "steps": 2}}):
        expected, found = (
            gauntlet.evaluate(each, TinyBoxes(3), threat, batch_size=2).figures
            for each in (DarkDetector(), InPlaceDetector())
        )
        assert found == pytest.approx(expected, nan_ok=True, abs=0)


@pytest.mark.parametrize(
    "answer",
    [
        lambda labels: labels.to(torch.uint16),
        lambda labels: labels.numpy().astype(np.uint16),
        lambda labels: labels.numpy().astype(">i4"),
        lambda labels: labels.numpy()[..., ::-1].copy()[..., ::-1],
    ],
    ids=["uint16 tensor", "uint16 array", "big-endian", "reversed"],
)
def test_label_maps_of_any_whole_numbers_are_taken(answer: Callable[[torch.Tensor], Any]) -> None:
    images = TinyDataset(1)[0].tensor()[None]
    labels = wrap_model(tiny_network(), num_classes=3)(images).argmax(1)
    model = wrap_model(lambda _: answer(labels), num_classes=3, gives="labels", name="labels")
    assert torch.equal(model(images).argmax(1), labels)
