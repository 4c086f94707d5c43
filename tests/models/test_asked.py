"""Models that can only be asked: label maps as a model, white-box attacks refused, black-box attacks and figures."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel, resolve_model, wrap_model
from gauntlet.models.asked import gives_labels, has_gradient
from gauntlet.threats.attacks import build
from tiny import TinyDataset, tiny_network

IMAGES = torch.rand(2, 3, 16, 24, generator=torch.Generator().manual_seed(0))


def answer(images: torch.Tensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Label maps as an API would send them: bytes, no torch."""
    with torch.no_grad():
        labels: torch.Tensor = tiny_network()(images).argmax(1)
    return labels.numpy().astype(np.uint8)


def other_answer(images: torch.Tensor) -> Any:
    return answer(1 - images)


def build_answer(num_classes: int) -> Any:
    return answer


def asked() -> SegmentationModel:
    return wrap_model(answer, num_classes=3, gives="labels", name="api")


def test_a_callable_that_gives_label_maps_is_a_model() -> None:
    model, network = asked(), wrap_model(tiny_network(), num_classes=3)
    assert torch.equal(model(IMAGES).argmax(1), network(IMAGES).argmax(1))
    assert (has_gradient(model), gives_labels(model)) == (False, True)
    assert (has_gradient(network), gives_labels(network)) == (True, False)
    assert model.identity.digest != wrap_model(other_answer, num_classes=3, gives="labels").identity.digest
    padded = wrap_model(answer, num_classes=3, gives="labels", stride=32)
    assert padded(IMAGES).shape == (2, 3, 16, 24)


def test_it_is_evaluated_without_confidence_and_attacked_by_its_answers_only() -> None:
    dataset = TinyDataset(2, sizes=((32, 48),))
    threat = {"attack": {"name": "label-only", "queries": 8, "epsilon": "16/255"}}
    clean, attacked = (gauntlet.evaluate(asked(), dataset, each, prepare="off") for each in ("clean", threat))
    full = gauntlet.evaluate(wrap_model(tiny_network(), num_classes=3), dataset, prepare="off")
    assert clean.figures["mIoU"] == full.figures["mIoU"]
    assert np.isnan(clean.figures.get("ECE", float("nan")))
    assert attacked.figures["aAcc"] <= clean.figures["aAcc"]
    assert attacked.per_image["forwards"].tolist() == [9, 9]
    assert attacked.per_image["backwards"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "threat",
    [
        {"attack": {"name": "pgd"}},
        {"battery": {"name": "semsegbench"}},
        {"region_aware": {"rounds": 2}},
    ],
)
def test_white_box_attacks_are_refused(threat: dict[str, Any]) -> None:
    sentence = "needs the gradient of the model, and this one can only be asked; use square or label-only"
    with pytest.raises(GauntletError, match=re.escape(sentence)):
        gauntlet.evaluate(asked(), TinyDataset(1), threat, prepare="off")


def test_a_battery_of_attacks_without_gradient_runs() -> None:
    members = {"a": {"name": "square", "queries": 6}, "b": {"name": "label-only", "queries": 4}}
    sample = TinyDataset(1)[0]
    assert sample.labels is not None
    images = torch.from_numpy(sample.image.copy()).permute(2, 0, 1)[None] / 255
    outcome = build("mine", members=members)(asked(), images, torch.from_numpy(sample.labels[None].astype(np.int64)))
    assert outcome.queries.backward.tolist() == [0]
    assert [member.queries for member in build("mine", members=members, budget=0.5).members.values()] == [3, 2]


def test_python_sources_give_label_maps_too() -> None:
    source = resolve_model("python:test_asked:build_answer", num_classes=3, gives="labels")
    assert torch.equal(source.load()(IMAGES), asked()(IMAGES))
    assert source.identity == resolve_model("python:test_asked:build_answer", num_classes=3, gives="labels").identity
    with pytest.raises(GauntletError, match="expected a torch module, or with gives=labels"):
        resolve_model("python:test_asked:build_answer", num_classes=3).load()
    with pytest.raises(GauntletError, match="input_size cannot be set for a model that gives label maps"):
        resolve_model("python:test_asked:build_answer", num_classes=3, gives="labels", input_size=(8, 8)).load()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda images: images, r"the model returned torch.float32 of shape \(2, 3, 16, 24\); expected label maps"),
        (lambda images: images[:, 0, 1:].long(), r"torch.int64 of shape \(2, 15, 24\); expected label maps"),
        (lambda images: images[:, 0].long() + 3, r"the model returned the label 3; expected classes 0 to 2"),
        (lambda images: "road", r"the model returned a str; expected label maps"),
    ],
)
def test_other_answers_are_one_sentence(wrong: Any, sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        wrap_model(wrong, num_classes=3, gives="labels", name="wrong")(IMAGES)


def test_what_a_model_gives_is_logits_or_labels() -> None:
    with pytest.raises(GauntletError, match="gives must be one of logits, labels, not 'boxes'"):
        wrap_model(tiny_network(), num_classes=3, gives="boxes")
    with pytest.raises(GauntletError, match="for one that gives label maps say gives='labels'"):
        wrap_model(answer, num_classes=3)
