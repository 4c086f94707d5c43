"""Attacks where the model's device has no float64: the same outcome, computed on the CPU around the model's passes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.models import wrap_model
from gauntlet.samples import Batch, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat
from gauntlet.threats.attacks import build, check_attack
from gauntlet.threats.attacks.engine.device import BridgedDetector, BridgedPixels, bridge, computing_device
from tiny import TinyDataset, tiny_network
from tiny_detector import TinyBoxes, TinyDetector

THREATS: list[dict[str, Any]] = [
    {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 3}},
    {"attack": {"name": "pgd", "norm": "l2", "epsilon": 0.5, "steps": 3, "region": {"square": {"size": 8}}}},
    {"attack": {"name": "dag", "steps": 4}},
    {"battery": {"name": "mine", "members": {"a": {"name": "bim", "steps": 2}, "b": {"name": "apgd", "steps": 3}}}},
    {"region_aware": {"attack": {"name": "bim", "epsilon": "16/255", "steps": 2}, "rounds": 2}},
]


def batch_of(dataset: Dataset) -> Batch:
    return collate([dataset[0], dataset[1]], ignore_index=255)


def labels_of(batch: Batch) -> torch.Tensor:
    assert batch.labels is not None
    return batch.labels


def task(name: str) -> tuple[Any, Batch]:
    if name == "boxes":
        return TinyDetector(), batch_of(TinyBoxes(2))
    return wrap_model(tiny_network(), num_classes=3), batch_of(TinyDataset(2))


@pytest.mark.parametrize("kind", ["pixels", "boxes"])
@pytest.mark.parametrize("threat", THREATS, ids=lambda threat: next(iter(threat)))
def test_threats_make_the_same_images(kind: str, threat: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = task(kind)
    seeds = [ImageSeed(0, sample.id) for sample in batch.samples]
    expected = build_threat(threat).perturb(model, batch, seeds)
    monkeypatch.setattr("gauntlet.threats.attacks.engine.device.WITHOUT_FLOAT64", ("cpu",))
    made = build_threat(threat).perturb(model, batch, seeds)
    assert torch.equal(made.images, expected.images)
    tried = [made.images, *(candidate.images for candidate in made.candidates.values())]
    assert any(not torch.equal(images, batch.images) for images in tried)
    for name, candidate in expected.candidates.items():
        assert torch.equal(made.candidates[name].images, candidate.images)


def test_only_the_passes_cross_the_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauntlet.threats.attacks.engine.device.WITHOUT_FLOAT64", ("cpu",))
    model, batch = task("pixels")
    seen: list[torch.dtype] = []
    model.register_forward_pre_hook(lambda module, given: seen.append(given[0].dtype))
    bridged, images, labels = bridge(model, batch.images, labels_of(batch))
    assert isinstance(bridged, BridgedPixels)
    assert bridged.ignore_index == model.ignore_index
    assert bridge(bridged, images, labels)[0] is bridged, "there is one bridge, not a row of them"
    build("pgd", norm="l2", steps=2)(model, batch.images, batch.labels)
    assert set(seen) == {torch.float32}
    assert isinstance(bridge(TinyDetector(), batch.images, [])[0], BridgedDetector)


def test_whatever_a_model_is_shines_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gauntlet.threats.attacks.engine.device.WITHOUT_FLOAT64", ("cpu",))
    _, batch = task("pixels")

    class Plain:  # no module
        ignore_index = 7

        def __call__(self, images: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = tiny_network()(images)
            return logits

    assert bridge(Plain(), batch.images, labels_of(batch))[0].ignore_index == 7
    with pytest.raises(GauntletError, match="the model returned a dict; expected logits"):
        build("pgd", steps=1)(lambda images: {"out": images}, batch.images, batch.labels)


def test_half_precision_is_that_of_the_models_device() -> None:
    model, batch = task("pixels")
    assert computing_device(model, batch.images) == torch.device("cpu")
    assert computing_device(BridgedPixels(model, torch.device("mps")), batch.images) == torch.device("mps")
    assert computing_device(BridgedDetector(TinyDetector(), torch.device("mps")), batch.images).type == "mps"


def test_elsewhere_nothing_is_bridged() -> None:
    model, batch = task("pixels")
    assert bridge(model, batch.images, labels_of(batch)) == (model, batch.images, batch.labels)


def test_honesty_checks_cross_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = task("pixels")
    given: dict[str, Any] = {"steps": 2, "noises": 1, "whole_box_steps": 2, "other_model": tiny_network()}
    expected = check_attack(model, batch.images, labels_of(batch), **given)
    monkeypatch.setattr("gauntlet.threats.attacks.engine.device.WITHOUT_FLOAT64", ("cpu",))
    assert check_attack(model, batch.images, labels_of(batch), **given) == expected


@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="this machine has no Apple GPU")
@pytest.mark.parametrize("kind", ["pixels", "boxes"])
def test_on_an_apple_gpu(kind: str) -> None:
    model, batch = task(kind)
    there = Batch(batch.samples, batch.images.to("mps"), None if batch.labels is None else batch.labels.to("mps"))
    seeds = [ImageSeed(0, sample.id) for sample in batch.samples]
    for threat in THREATS:
        made = build_threat(threat).perturb(model.to("mps"), there, seeds)
        assert made.images.device.type == "mps"
        assert torch.isfinite(made.images).all()
