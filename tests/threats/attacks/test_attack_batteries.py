"""Batteries: worst cases per image and metric, skipping that changes nothing, minimum perturbations."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from attack_fixture import IMAGES, LABELS, VOID_LABELS, network

from gauntlet.errors import GauntletError
from gauntlet.threats.attacks import build, build_battery
from gauntlet.threats.attacks.combined.battery_outcome import CLEAN
from gauntlet.threats.attacks.engine.labels import image_figures, label_map

HALMOSI = ["alma-prox", "padam-ce", "padam-cos", "dag-0.001", "dag-0.003", "pdpgd"]
HALMOSI += ["sea-jsd", "sea-mce", "sea-msl", "sea-bce"]


def test_image_figures_of_the_hand_example() -> None:
    """docs/specs/metrics.md, section 12."""
    rows = [[[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [2, 2, 0, 255]], [[3, 0, 0, 0]] + [[0] * 4] * 3, [[255] * 4] * 4]
    truth = torch.tensor(rows)
    actual = torch.tensor([[[0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 3], [2, 0, 0, 0]], [[0] * 4] * 4, [[0, 1, 2, 3]] * 4])
    counted = truth != 255
    accuracy, overlap = image_figures(actual, truth.masked_fill(~counted, 0), counted, 5)
    assert accuracy[:2].tolist() == pytest.approx([11 / 15, 15 / 16], abs=1e-12)
    assert overlap[:2].tolist() == pytest.approx([(7 / 11 + 3 / 5 + 1 / 2 + 0) / 4, (15 / 16 + 0) / 2], abs=1e-12)
    assert torch.isnan(accuracy[2])
    assert torch.isnan(overlap[2])


def test_nan_is_no_prediction() -> None:
    with pytest.raises(GauntletError, match="NaN logits"):
        label_map(torch.full((1, 3, 2, 2), float("nan")))


def test_members() -> None:
    battery = build("halmosi", epsilon="4/255")
    assert list(battery.members) == HALMOSI
    assert [member.describe()["epsilon"] for member in battery.members.values()] == [4 / 255] * 10
    assert [member.describe()["steps"] for member in battery.members.values()] == [500, 200, 200, 200, 200, 500] + [
        300
    ] * 4
    assert battery.members["dag-0.003"].describe()["alpha"] == 0.003
    assert list(build("semsegbench").members) == ["pgd", "segpgd", "cospgd"]
    assert set(build("sea").members) == {"sea-jsd", "sea-mce", "sea-msl", "sea-bce"}


def test_descriptions_build_the_same_battery() -> None:
    battery = build("halmosi", epsilon="4/255", budget=0.1)
    description = battery.describe()
    assert json.loads(json.dumps(description)) == description
    assert build_battery(**description).describe() == description
    assert battery.version == 1


def easy(images: torch.Tensor) -> torch.Tensor:
    """A model that every attack overthrows on bright images and none on dark ones, which it does not look at."""
    bright = (images.mean(dim=(1, 2, 3), keepdim=True) > 0.5).to(images)
    score = images[:, :1] - images[:, 1:2]
    open_to_attack = torch.cat([score, -score, score * 0 - 9, score * 0 - 9, score * 0 - 9], 1)
    return bright * open_to_attack + (1 - bright) * torch.tensor([9.0, 0, 0, 0, 0]).to(images).view(1, 5, 1, 1)


def situation() -> tuple[torch.Tensor, torch.Tensor]:
    images = IMAGES.clone()
    images[0] *= 0.1
    images[1] = 0.8 + 0.1 * images[1]
    labels = easy(images).argmax(1)
    labels[0, :4] = 1
    return images, labels


@pytest.mark.parametrize("name", ["sea", "semsegbench", "halmosi"])
def test_skipping_changes_nothing(name: str) -> None:
    images, labels = situation()
    options: dict[str, Any] = {"epsilon": 0.2, "budget": 0.05 if name != "semsegbench" else 2}
    skipping = build(name, **options)(easy, images, labels, seed=[1, 2])
    full = build(name, skip=False, **options)(easy, images, labels, seed=[1, 2])
    for metric in ("accuracy", "miou"):
        assert torch.equal(skipping.worst[metric], full.worst[metric])
        assert torch.equal(skipping.choice[metric], full.choice[metric])
        assert torch.equal(skipping.chosen_images[metric], full.chosen_images[metric])
        assert skipping.distribution(metric) == full.distribution(metric)
        ran = skipping.ran
        assert torch.equal(skipping.figures[metric][ran], full.figures[metric][ran])
        assert torch.isnan(skipping.figures[metric][~ran]).all()
    assert full.ran.all()
    assert full.worst["accuracy"][1] == 0, "the example should reach the floor"
    assert skipping.ran[:, 0].all()
    assert not skipping.ran[-1, 1]
    assert (skipping.queries.backward[1] < full.queries.backward[1]).all()
    for index, member in enumerate(skipping.names):
        expected = full.candidates[member] if skipping.ran[index, 1] else skipping.images
        assert torch.equal(skipping.candidates[member][1], expected[1])


def test_ties_go_to_the_clean_image_and_then_to_the_first() -> None:
    def blind(images: torch.Tensor) -> torch.Tensor:
        return torch.tensor([0.0, 1, 0, 0, 0]).to(images).view(1, 5, 1, 1) + 0 * images.mean(1, keepdim=True)

    outcome = build("semsegbench")(blind, IMAGES, LABELS)
    assert outcome.choice["accuracy"].tolist() == [CLEAN, CLEAN]
    assert outcome.distribution() == {"clean": 2, "pgd": 0, "segpgd": 0, "cospgd": 0}
    assert torch.equal(outcome.images, IMAGES)
    twins = {name: {"name": "bim", "steps": 3} for name in ("first", "second")}
    assert build("twins", members=twins)(network, IMAGES, LABELS).choice["miou"].tolist() == [0, 0]


def test_the_choice_differs_per_metric_where_it_should() -> None:
    outcome = build("semsegbench", skip=False)(network, IMAGES, LABELS)
    for metric in ("accuracy", "miou"):
        table = torch.cat([outcome.clean[metric].unsqueeze(0), outcome.figures[metric]])
        assert torch.equal(outcome.choice[metric], table.argmin(0) + CLEAN)
        for row in range(2):
            chosen = int(outcome.choice[metric][row])
            assert torch.equal(outcome.chosen_images[metric][row], outcome.candidates[outcome.names[chosen]][row])
    assert torch.equal(outcome.images, outcome.chosen_images["accuracy"])


def test_together_equals_one_by_one_in_double_precision() -> None:
    options: dict[str, Any] = {"epsilon": 0.1, "budget": 0.2}
    one = build("semsegbench", **options)(network, IMAGES, VOID_LABELS, seed=[3, 4])
    both = build("semsegbench", together=True, **options)(network, IMAGES, VOID_LABELS, seed=[3, 4])
    assert torch.equal(one.figures["miou"], both.figures["miou"])
    assert (one.images - both.images).abs().max() <= 1e-6


def test_void_images_count_for_nothing() -> None:
    labels = VOID_LABELS.clone()
    labels[0] = 255
    outcome = build("semsegbench", budget=0.1)(network, IMAGES, labels)
    assert torch.isnan(outcome.worst["accuracy"]).tolist() == [True, False]
    assert sum(outcome.distribution().values()) == 1
    assert torch.equal(outcome.images[0], IMAGES[0])
    assert not outcome.ran[:, 0].any()


def test_minimum_table() -> None:
    members = {
        "strong": {"name": "fmn", "steps": 40, "threshold": 0.9},
        "weak": {"name": "dag", "steps": 3, "alpha": 0.001},
        "pgd": {"name": "pgd", "steps": 2},
    }
    outcome = build("mine", members=members, epsilon="8/255", table=True)(network, IMAGES, LABELS)
    alone = build("fmn", steps=40, threshold=0.9)(network, IMAGES, LABELS)
    table = outcome.minimum_table(0.9)
    assert list(table) == ["strong", "weak", "smallest"]
    assert table["strong"] == pytest.approx(alone.norms.tolist(), rel=1e-9)
    assert table["weak"] == [math.inf, math.inf]
    assert table["smallest"] == table["strong"]
    assert outcome.minimum_table(1.0)["smallest"] == [math.inf, math.inf]
    assert torch.isnan(outcome.norms[2]).all()


def test_minimum_attacks_run_everywhere_for_a_complete_table() -> None:
    images, labels = situation()
    members = {"pgd": {"name": "pgd", "epsilon": 0.2}, "dag": {"name": "dag", "steps": 20, "alpha": 0.02}}
    skipped = build("mine", members=members)(easy, images, labels)
    complete = build("mine", members=members, table=True)(easy, images, labels)
    assert skipped.ran.tolist() == [[True, True], [True, False]]
    assert math.isnan(skipped.minimum_table()["dag"][1])
    assert complete.ran.all()
    assert not math.isnan(complete.minimum_table()["dag"][1])
    assert torch.equal(skipped.worst["miou"], complete.worst["miou"])
    assert torch.equal(skipped.choice["miou"], complete.choice["miou"])


def test_masks_and_targets_reach_the_members() -> None:
    region = torch.zeros(2, 16, 16, dtype=torch.bool)
    region[0, :4] = True
    region[1, 4:9] = True
    outcome = build("semsegbench", budget=0.2)(network, IMAGES, LABELS, region=region, fooling_region=2, target=0)
    changed = (outcome.candidates["pgd"] != IMAGES).any(1)
    assert not (changed & ~region).any()
    assert changed.flatten(1).any(1).all()
    counted = (LABELS == 2).flatten(1).sum(1)
    pixels = outcome.accuracy * counted
    assert torch.allclose(pixels, pixels.round())
