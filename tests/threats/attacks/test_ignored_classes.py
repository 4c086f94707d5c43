"""Classes that an attack leaves out of account, per attack and in batteries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel, wrap_model
from gauntlet.samples import Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import attacks, build_threat
from tiny import tiny_network


def tiny_model() -> SegmentationModel:
    model = wrap_model(tiny_network(), num_classes=3)
    model.freeze()
    return model


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, 3, 8, 10, generator=generator)
    return images, torch.randint(0, 3, (2, 8, 10), generator=generator)


def test_ignored_pixels_give_no_gradient() -> None:
    """An attack that ignores a class makes what one makes that sees void there."""
    model, (images, labels) = tiny_model(), batch()
    ignoring = attacks.build("pgd", epsilon="8/255", steps=3, ignore=[0])
    voided = attacks.build("pgd", epsilon="8/255", steps=3)
    one = ignoring(model, images, labels, seed=1)
    other = voided(model, images, labels.masked_fill(labels == 0, 255), seed=1)
    assert torch.equal(one.images, other.images)
    assert not torch.equal(one.images, voided(model, images, labels, seed=1).images)


def test_the_option_survives_an_evaluation() -> None:
    """The threat sets the dataset's ignore index, and keeps the classes."""
    model, (images, labels) = tiny_model(), batch()
    samples = [
        Sample(str(index), (255 * image).byte().permute(1, 2, 0).numpy(), label.numpy())
        for index, (image, label) in enumerate(zip(images, labels, strict=True))
    ]
    seeds = [ImageSeed(0, sample.id) for sample in samples]
    made = [
        build_threat({"attack": {"name": "pgd", "epsilon": "8/255", "steps": 3, **options}})
        .perturb(model, collate(samples, ignore_index=255), seeds)
        .images
        for options in ({}, {"ignore": [0]}, {"ignore": 0})
    ]
    assert not torch.equal(made[0], made[1])
    assert torch.equal(made[1], made[2])


def test_descriptions_and_names_tell_of_it_only_where_it_is_set() -> None:
    plain = build_threat({"attack": {"name": "pgd"}})
    assert "ignore" not in plain.describe()["attack"]
    ignoring = build_threat({"attack": {"name": "pgd", "ignore": [2, 0, 2]}})
    assert ignoring.describe()["attack"]["ignore"] == [0, 2]
    assert ignoring.name == f"{plain.name} ignoring 0+2"
    assert build_threat(ignoring.describe()).describe() == ignoring.describe()


def test_a_battery_judges_by_what_all_its_members_count() -> None:
    model, (images, labels) = tiny_model(), batch()
    members: dict[str, dict[str, Any]] = {
        "one": {"name": "fgsm", "ignore": [0]},
        "two": {"name": "pgd", "steps": 2, "ignore": [0, 1]},
    }
    outcome = attacks.build_battery("own", epsilon="8/255", members=members)(model, images, labels, seed=1)
    void = labels.masked_fill(labels == 0, 255)
    predicted = model(images).argmax(1)
    right = ((predicted == labels) & (void != 255)).flatten(1).sum(1) / (void != 255).flatten(1).sum(1)
    assert outcome.clean["accuracy"].tolist() == pytest.approx(right.double().tolist(), abs=1e-6)


@pytest.mark.parametrize("wrong", [[-1], [1.5], ["road"], [True]])
def test_nonsense_is_refused(wrong: list[object]) -> None:
    with pytest.raises(GauntletError, match="ignore must be a whole number"):
        attacks.build("pgd", ignore=wrong)


def test_a_table_reaches_the_battery() -> None:
    """Minimum-perturbation attacks run on images that have nothing left to lose."""
    model, (images, _) = tiny_model(), batch()
    predicted = model(images).argmax(1)
    lost = ((predicted + 1) % model.num_classes).numpy()  # every pixel is wrong from the start
    samples = [
        Sample(str(index), (255 * image).byte().permute(1, 2, 0).numpy(), label)
        for index, (image, label) in enumerate(zip(images, lost, strict=True))
    ]
    seeds = [ImageSeed(0, sample.id) for sample in samples]
    options = {"name": "own", "members": {"dag": {"name": "dag", "steps": 2}}}
    described = {}
    for table in (False, True):
        threat = build_threat({"battery": {**options, "table": table}})
        made = threat.perturb(model, collate(samples, ignore_index=255), seeds)
        ran = made.candidates["dag"].ran.numpy()
        assert np.all(ran) if table else not np.any(ran)
        described[table] = threat.describe()["battery"]
    assert described[True].pop("table") is True
    assert described[True] == described[False]
