"""Attacks on the shipped two-stage detector: its loss and its candidates are what they need."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gauntlet
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.sample_cache import SampleCache
from gauntlet.models.contract import DetectionModel
from gauntlet.samples import Batch, Boxes, collate
from gauntlet.threats.attacks import build

FACTORS: dict[str, tuple[dict[str, Any], float]] = {
    "pgd": ({"epsilon": "8/255", "steps": 5}, 0.2),
    "tog-vanishing": ({"epsilon": "8/255", "steps": 5}, 0.7),
    "tog-fabrication": ({"epsilon": "8/255", "steps": 5}, 0.7),
    "tog-untargeted": ({"epsilon": "8/255", "steps": 5}, 0.7),
    "tog-mislabeling": ({"epsilon": "8/255", "steps": 5}, 0.9),
    "dag": ({"alpha": "4/255", "steps": 10}, 0.7),  # it has no ball; by default 150 steps of 0.5/255
}
"""Options of an attack, and how much of the clean mAP it may leave at most."""


@pytest.fixture(scope="module")
def model() -> DetectionModel:
    loaded = gauntlet.load_model("streets/faster-rcnn")
    assert isinstance(loaded, DetectionModel)
    return loaded


@pytest.fixture(scope="module")
def scenes() -> Dataset:
    """Two, rendered once."""
    return SampleCache(gauntlet.load_dataset("streets", split="val", limit=2))


@pytest.fixture(scope="module")
def scene() -> Dataset:
    return SampleCache(gauntlet.load_dataset("streets", split="val", limit=1))


@pytest.fixture(scope="module")
def batch(scenes: Dataset) -> Batch:
    return collate([scenes[0], scenes[1]], ignore_index=None)


@pytest.fixture(scope="module")
def clean(model: DetectionModel, scene: Dataset) -> float:
    """Precision before any attack."""
    return gauntlet.evaluate(model, scene, "clean", store=None).figures["mAP"]


def confident(detected: list[Boxes]) -> int:
    return sum(int((each.scores >= 0.5).sum()) for each in detected if each.scores is not None)


@pytest.mark.parametrize("name", sorted(FACTORS))
def test_attacks_lower_the_precision(name: str, model: DetectionModel, scene: Dataset, clean: float) -> None:
    options, most = FACTORS[name]
    threat = {"attack": {"name": name, **options}}
    attacked = gauntlet.evaluate(model, scene, threat, store=None, prepare="off").figures["mAP"]
    assert attacked < most * clean


def test_vanishing_takes_boxes_away_and_fabrication_adds_some(model: DetectionModel, batch: Batch) -> None:
    before = confident(model.predict(batch.images))
    for name, sign in (("tog-vanishing", -1), ("tog-fabrication", 1)):
        outcome = build(name, epsilon="8/255", steps=5)(model, batch.images, batch.boxes, seed=[0, 1])
        assert sign * (confident(model.predict(outcome.images)) - before) > 0


def test_an_image_does_not_depend_on_its_batch_and_the_loss_draws_nothing(model: DetectionModel, batch: Batch) -> None:
    losses = model.losses(batch.images, batch.boxes)
    assert torch.equal(model.losses(batch.images, batch.boxes), losses)
    together = model.candidates(batch.images)
    for index in range(2):
        one = slice(index, index + 1)
        assert model.losses(batch.images[one], batch.boxes[one]).item() == pytest.approx(losses[index].item(), rel=1e-4)
        alone = model.candidates(batch.images[one])
        assert torch.allclose(alone.boxes, together.boxes[one], atol=1e-2)
        assert torch.allclose(alone.scores, together.scores[one], atol=1e-2)
