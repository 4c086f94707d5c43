"""Threats on a detector: batches with boxes, suites by task, DetecBench's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.samples import collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat, suites
from gauntlet.threats.compat.detecbench import IID, attacks, corruptions
from gauntlet.threats.compat.detecbench.attacks import unit_scale
from gauntlet.threats.corruptions import COMMON
from gauntlet.threats.kinds.attack import AttackThreat
from tiny_detector import TinyBoxes, TinyDetector

MODEL = TinyDetector()
BATCH = collate([TinyBoxes(3)[index] for index in range(3)], ignore_index=None)
SEEDS = [ImageSeed(0, sample.id) for sample in BATCH.samples]
ATTACK = {"name": "pgd", "epsilon": 0.3, "alpha": 0.1, "steps": 3}


def test_an_attack_is_the_call_with_the_boxes_of_the_batch() -> None:
    threat = build_threat({"attack": ATTACK})
    assert isinstance(threat, AttackThreat)
    perturbed = threat.perturb(MODEL, BATCH, SEEDS)
    seeds = [seed.stream("attack|pgd") for seed in SEEDS]
    direct = threat.attack(MODEL, BATCH.images, BATCH.boxes, seed=seeds)
    assert torch.equal(perturbed.images, direct.images)
    assert perturbed.details["backwards"] == [3, 3, 3]


def test_a_localized_attack_stays_in_its_region() -> None:
    threat = build_threat({"attack": {**ATTACK, "region": {"square": {"size": 16}}}})
    perturbed = threat.perturb(MODEL, BATCH, SEEDS)
    assert perturbed.region is not None
    outside = ~perturbed.region.unsqueeze(1).expand_as(BATCH.images)
    assert torch.equal(perturbed.images[outside], BATCH.images[outside])


def test_a_battery_hands_out_every_candidate() -> None:
    threat = build_threat({"battery": {"name": "mine", "members": {"a": ATTACK, "b": {"name": "bim", "steps": 1}}}})
    perturbed = threat.perturb(MODEL, BATCH, SEEDS)
    assert list(perturbed.candidates) == ["clean", "a", "b"]


def test_rounds_hand_out_boxes() -> None:
    threat = build_threat({"region_aware": {"attack": {"name": "bim", "epsilon": 0.5, "steps": 3}, "rounds": 2}})
    perturbed = threat.perturb(MODEL, BATCH, SEEDS)
    assert isinstance(perturbed.predictions, list)
    assert len(perturbed.predictions) == 3
    assert set(perturbed.details) == {"fooling_objects", "newly_fooled"}


@pytest.mark.parametrize(
    "description",
    [
        {"corruption": {"name": "elastic_transform", "severity": 3}},
        {"localized": {"corruption": {"name": "gaussian_noise", "severity": 3}, "ratio": 0.5, "patch": 8}},
    ],
)
def test_corruptions_leave_the_boxes_where_they_are(description: dict[str, Any]) -> None:
    before = [boxes.xyxy.copy() for boxes in BATCH.boxes]
    perturbed = build_threat(description).perturb(MODEL, BATCH, SEEDS)
    assert not torch.equal(perturbed.images, BATCH.images)
    for boxes, then in zip(BATCH.boxes, before, strict=True):
        np.testing.assert_array_equal(boxes.xyxy, then)


def test_targets_of_a_file_go_by_the_id_of_an_image(tmp_path: Path) -> None:
    classes: dict[str, Any] = {
        f"{sample.id}/classes": (boxes.classes + 1) % 3
        for sample, boxes in zip(BATCH.samples, BATCH.boxes, strict=True)
    }
    np.savez(tmp_path / "targets.npz", **classes)
    threat = build_threat({"attack": {**ATTACK, "target": str(tmp_path / "targets.npz")}})
    assert threat.name.endswith("targets.npz")
    perturbed = threat.perturb(MODEL, BATCH, SEEDS)
    wanted = [np.asarray(each) for each in classes.values()]
    plain = build_threat({"attack": ATTACK})
    assert isinstance(plain, AttackThreat)
    direct = plain.attack(
        MODEL, BATCH.images, BATCH.boxes, target=wanted, seed=[seed.stream("attack|pgd") for seed in SEEDS]
    )
    assert torch.equal(perturbed.images, direct.images)


LEFT = {"box": [0, 0, 32, 24]}
"""The left half of an image: three columns of the detector's cells, which see nothing of the others."""
MARGIN = {"name": "bim", "epsilon": 0.6, "alpha": 0.1, "steps": 6}


def test_a_localized_attack_has_figures_inside_and_outside() -> None:
    data = TinyBoxes(8)
    result = gauntlet.evaluate(MODEL, data, {"attack": {**MARGIN, "region": LEFT}})
    clean = gauntlet.evaluate(MODEL, data)
    assert result.figures["mAP_Mbar"] == result.figures["mAP_Mbar_clean"] > 0.5  # its cells have not changed
    assert result.figures["mAP_M"] < 0.5 * result.figures["mAP_M_clean"]
    assert result.figures["RCE_Mbar"] == 0 < 0.5 < result.figures["RCE_M"]
    assert result.figures["mAP"] < clean.figures["mAP"]
    centres = [(each.boxes.xyxy[:, 0] + each.boxes.xyxy[:, 2]) / 2 for each in data if each.boxes is not None]
    assert result.figures["region_share"] == pytest.approx((np.concatenate(centres) < 24).mean())


def test_rounds_have_figures_of_regions_and_lose_what_no_single_round_does() -> None:
    data = TinyBoxes(8)
    rounds = {"attack": MARGIN, "rounds": 3, "region": LEFT}
    result = gauntlet.evaluate(MODEL, data, {"region_aware": rounds})
    once = gauntlet.evaluate(MODEL, data, {"region_aware": {**rounds, "rounds": 1}})
    assert result.figures["mAP_Mbar"] == result.figures["mAP_Mbar_clean"] > 0.5
    assert result.figures["mAP_M"] <= once.figures["mAP_M"] < 0.5 * once.figures["mAP_M_clean"]
    assert result.figures["RCE_M"] > 0.5
    assert result.figures["F1_images"] < gauntlet.evaluate(MODEL, data).figures["F1_images"]
    assert {"inside", "outside", "clean inside", "clean outside"} <= set(result.per_image["view"])


def test_detecbench_names_go_through_an_evaluation() -> None:
    data = TinyBoxes(3)
    threat = attacks.PGD(epsilon=128, alpha=25.5, steps=6, norm="inf", target=False, random_start=True)
    result = gauntlet.evaluate(MODEL, data, threat)
    described = {"attack": {"name": "pgd", "epsilon": "128/255", "alpha": 0.1, "steps": 6}}
    same = gauntlet.evaluate(MODEL, data, described)
    assert result.key == same.key
    assert result.figures["mAP"] == same.figures["mAP"] < gauntlet.evaluate(MODEL, data).figures["mAP"]
    targeted = gauntlet.evaluate(MODEL, data, attacks.PGD(epsilon=230, alpha=25.5, steps=12, target=2))
    assert targeted.figures["mislabel_rate"] > 0.5


def names_of(descriptions: list[dict[str, Any]]) -> list[str]:
    return [options.get("name", kind) for each in descriptions for kind, options in each.items()]


def test_suites_by_task() -> None:
    assert names_of(suites.build("detecbench"))[:3] == ["clean", "bim", "pgd"]
    attacked = [each["attack"] for each in suites.build("detecbench", "detection") if "attack" in each]
    assert all(
        {"norm": "linf", "epsilon": "8/255", "alpha": 0.01, "steps": 20}.items() <= each.items() for each in attacked
    )
    corrupted = [each["corruption"] for each in suites.build("detecbench", "detection") if "corruption" in each]
    assert [each["name"] for each in corrupted][:15] == list(COMMON)
    assert {each["severity"] for each in corrupted} == {3}
    quick = names_of(suites.build("quick", "detection"))
    assert "cospgd" in names_of(suites.build("quick"))
    assert "cospgd" not in quick
    assert "tog-vanishing" in quick
    assert len(quick) == len(suites.build("quick"))
    assert names_of(suites.build("semsegbench", "detection"))[:3] == ["clean", "pgd", "pgd"]
    assert names_of(suites.build("battery", "detection")) == ["clean", "detectors"]
    assert suites.build("spatial", "detection") == suites.build("spatial")
    assert names_of(suites.build("arnab", "detection")) == ["clean", *["fgsm"] * 8]


def test_the_quick_suite_runs_on_a_detector() -> None:
    for description in suites.build("quick", "detection"):
        perturbed = build_threat(description).perturb(MODEL, BATCH, SEEDS)
        assert perturbed.images.shape == BATCH.images.shape


def test_detecbench_counts_grey_levels() -> None:
    threat = attacks.PGD(epsilon=8, alpha=2.55, steps=20, norm="inf", target=False, random_start=True)
    assert threat.describe() == build_threat({"attack": {"name": "pgd", "epsilon": "8/255", "alpha": 0.01}}).describe()
    assert attacks.PGD().attack.random_start is False  # type: ignore[attr-defined]
    assert attacks.BIM(steps=10, target=0).attack.target == 0
    assert attacks.BIM(target=True).attack.target is True
    assert attacks.PGD(target=False).attack.target is None
    single = attacks.FGSM(epsilon=8, alpha=1.0).describe()["attack"]
    assert single["steps"] == 1
    assert (single["epsilon"], single["alpha"]) == pytest.approx((8 / 255, 1 / 255))
    two = attacks.BIM(norm="two").describe()["attack"]
    assert (two["norm"], two["rule"], two["epsilon"]) == ("l2", "sign", 8 / 255)
    assert unit_scale(2.55) == 0.01
    with pytest.raises(GauntletError, match="unknown norm 'l3'"):
        attacks.PGD(norm="l3")


def test_detecbench_corruptions() -> None:
    assert IID().describe() == {"clean": {}}
    threat = corruptions.CommonCorruption(name="contrast", severity=3)
    assert threat.describe() == build_threat("contrast").describe()
    assert [each.options.name for each in corruptions.AllCommonCorruptions(severity=2)] == list(COMMON)
    with pytest.raises(GauntletError, match="did you mean 'fog'"):
        corruptions.CommonCorruption(name="fogg")
    with pytest.raises(GauntletError, match="3D common corruption"):
        corruptions.CommonCorruption3d(name="shadow")
