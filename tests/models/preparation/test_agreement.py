"""Preparing a shipped model leaves what attacks make of it as it is."""

from __future__ import annotations

from functools import cache

import pytest

import gauntlet
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.sample_cache import SampleCache
from gauntlet.models import GauntletModel
from gauntlet.models.preparation.choosing import CANDIDATES
from gauntlet.models.sources import shipped
from gauntlet.tasks import SEGMENTATION

IMAGES, SIZE, STEPS = 32, (64, 128), 3
LARGEST = 0.001
"""Difference of the mIoU: a tenth of a point."""

MODELS = [name for name in shipped.names("streets") if shipped.find(name).task == SEGMENTATION]


@cache
def streets() -> Dataset:
    """Scenes that are rendered once for all models."""
    return SampleCache(gauntlet.load_dataset("streets", split="val", size=SIZE, length=IMAGES))


def miou(model: GauntletModel, attack: str, prepare: str) -> float:
    threat = {"attack": {"name": attack, "steps": STEPS, "epsilon": "4/255"}}
    return gauntlet.evaluate(model, streets(), threat, prepare=prepare, batch_size=4).figures["mIoU"]


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["pgd", "cospgd"])
@pytest.mark.parametrize("name", MODELS)
def test_a_prepared_model_is_as_robust_as_it_was(name: str, attack: str) -> None:
    model = gauntlet.load_model(name)
    expected = miou(model, attack, "off")
    # Every way to prepare on one model of a network; else the one that has all of them at once.
    first = name == next(each for each in MODELS if shipped.find(each).architecture == shipped.find(name).architecture)
    for steps in CANDIDATES[1:] if first else CANDIDATES[-1:]:
        assert miou(model, attack, ",".join(steps)) == pytest.approx(expected, abs=LARGEST), steps
