"""Threats from names, descriptions, sweeps and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gauntlet.errors import GauntletError
from gauntlet.threats import build_threat, build_threats, rebuild_threat, suites
from gauntlet.threats.contract import threats
from gauntlet.threats.corruptions import COMMON
from gauntlet.threats.sweeps import expand


@pytest.mark.parametrize("name", ["clean", "pgd", "fog", "glass_blur", "frosted_glass_blur"])
def test_a_description_builds_the_same_threat_again(name: str) -> None:
    threat = build_threat(name)
    again = rebuild_threat(threat.describe())
    assert again.describe() == threat.describe()
    assert again.name == threat.name


def test_suites_hold_threats_with_names_of_their_own() -> None:
    for name in suites.names():
        built = [threat for description in suites.build(name) for threat in build_threats(description)]
        assert len({threat.name for threat in built}) == len(built), name


def test_the_semsegbench_suite_is_the_published_protocol() -> None:
    built = [build_threat(description) for description in suites.build("semsegbench")]
    described = [threat.describe() for threat in built]
    attacks = [each["attack"] for each in described if "attack" in each]
    assert [(a["name"], a["norm"]) for a in attacks] == [
        (name, norm) for norm in ("linf", "l2") for name in ("pgd", "segpgd", "cospgd")
    ]
    assert {a["steps"] for a in attacks} == {20}
    assert {(a["norm"], a["epsilon"], a["alpha"]) for a in attacks} == {
        ("linf", 8 / 255, 0.01), ("l2", 64 / 255, 0.1)
    }  # fmt: skip
    corruptions = [each["corruption"] for each in described if "corruption" in each]
    assert [c["name"] for c in corruptions] == list(COMMON)
    assert {c["severity"] for c in corruptions} == {3}


def test_the_spatial_suite_is_what_the_paper_prints() -> None:
    described = [build_threat(description).describe() for description in suites.build("spatial")]
    localized = [each["localized"] for each in described if "localized" in each]
    assert {each["patch"] for each in localized} == {"quarter"}  # 256 of 1024 pixels
    severities = {(each["corruption"]["name"], each["corruption"]["severity"]) for each in localized}
    assert severities == {(name, level) for name in ("brightness", "snow", "gaussian_noise") for level in (1, 3, 5)}
    ratios = [each["ratio"] for each in localized if each["corruption"] == localized[1]["corruption"]]
    assert sorted(ratios) == [step / 10 for step in range(11)]
    attacks = [each["region_aware"] for each in described if "region_aware" in each]
    found = {
        (
            each["region"]["square"]["size"],
            round(255 * each["attack"]["epsilon"]),
            each["rounds"],
            each["attack"]["steps"],
            each["region"]["square"]["position"],
        )
        for each in attacks
    }
    assert found == {
        *((size, level, 3, 50, "centre") for size in ("100/1024", "200/1024") for level in (16, 32)),
        *(("200/1024", 16, rounds, 50, "centre") for rounds in (1, 2, 3, 4, 5)),
        *(("200/1024", 16, 3, steps, "centre") for steps in (10, 25, 50, 100, 150, 200, 250)),
        ("200/1024", 16, 3, 50, "bottom-left"),
    }
    backward = {name: cost_of(name) for name in ("spatial", "spatial-quick")}
    assert backward == {"spatial": 3555, "spatial-quick": 300}


def cost_of(suite: str) -> float:
    """Backward passes per image."""
    return sum(build_threat(description).passes().backward for description in suites.build(suite))


def test_fgsm_of_the_suite_arnab_leaves_the_own_prediction() -> None:
    built = [build_threat(description) for description in suites.build("arnab")]
    untargeted = [each for each in built if each.name.split()[0] in ("fgsm", "ifgsm")]
    assert len(untargeted) == 16
    assert {each.describe()["attack"]["labels"] for each in untargeted} == {"prediction"}
    assert built[1].name == "fgsm linf 0.25/255 x1 labels prediction"


def test_the_rank_of_the_target_class_is_swept() -> None:
    built = build_threats({"attack": {"name": "fgsm-nth", "epsilon": "8/255", "rank": "2..7"}})
    assert [each.describe()["attack"]["target"] for each in built] == [{"rank": rank} for rank in range(2, 8)]
    assert len({each.name for each in built}) == 6


def test_sweeps_are_every_combination() -> None:
    swept = expand(
        {"attack": {"name": ["pgd", "bim"], "epsilon": ["2/255", "4/255"], "steps": {"range": [10, 30, 10]}}}
    )
    assert len(swept) == 12
    assert swept[0] == {"attack": {"name": "pgd", "epsilon": "2/255", "steps": 10}}
    assert swept[-1] == {"attack": {"name": "bim", "epsilon": "4/255", "steps": 30}}
    ratios = expand(
        {"localized": {"corruption": {"name": "snow", "severity": "1..2"}, "ratio": {"range": [0, 1, 0.5]}}}
    )
    assert [(each["localized"]["corruption"]["severity"], each["localized"]["ratio"]) for each in ratios] == [
        (1, 0.0), (1, 0.5), (1, 1.0), (2, 0.0), (2, 0.5), (2, 1.0)
    ]  # fmt: skip
    assert len(expand({"corruption": {"name": "all", "severity": [1, 5]}})) == 30
    assert expand({"region": {"box": [0, 0, 4, 4]}}) == [{"region": {"box": [0, 0, 4, 4]}}]  # not a sweep


@pytest.mark.parametrize(
    ("description", "sentence"),
    [
        ({"corruption": {"name": "fog", "severity": "a..b"}}, "not a range of whole numbers"),
        ({"corruption": {"name": "fog", "severity": []}}, "list of values for 'severity' is empty"),
        ({"attack": {"name": "pgd", "steps": {"range": [5, 1]}}}, "must go upwards"),
        ({"attack": {"name": "pgd", "steps": {"from": 1}}}, "takes a value, a list or"),
        ({"atack": {}}, "unknown kind of threat 'atack'; did you mean 'attack'"),
        ({}, "described by one of"),
        ({"clean": {}, "attack": {"name": "pgd"}}, "not by clean, attack"),
        ({"attack": "pgd"}, "the options of 'attack' must be a mapping"),
        ({"attack": {"epsilon": 0.1}}, "an attack needs a name"),
        ({"clean": {"x": 1}}, "unknown option of the threat 'clean' 'x'"),
    ],
)
def test_bad_descriptions_are_one_sentence(description: dict[str, object], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        build_threats(description)


def test_one_threat_is_asked_for_but_many_are_described() -> None:
    with pytest.raises(GauntletError, match="stands for 2 threats"):
        build_threat({"corruption": {"name": ["fog", "snow"]}})


def write(path: Path, **content: object) -> Path:
    path.write_text(yaml.safe_dump(content))
    return path


def test_semsegbench_files_run_unchanged(tmp_path: Path) -> None:
    path = write(tmp_path / "adv.yml", threat_model="CosPGD", iterations=20, epsilon=8, alpha=0.01, lp_norm="Linf")
    described = build_threat(path).describe()["attack"]
    assert (described["name"], described["norm"], described["steps"]) == ("cospgd", "linf", 20)
    assert described["epsilon"] == pytest.approx(8 / 255)
    assert described["alpha"] == 0.01
    l2 = build_threat(
        write(
            tmp_path / "l2.yml",
            **{"threat model": "SegPGD", "iterations": 20, "epsilon": 64, "alpha": 0.1, "lp norm": "L2"},
        )
    )
    assert l2.describe()["attack"]["epsilon"] == pytest.approx(64 / 255)
    assert l2.describe()["attack"]["norm"] == "l2"
    corruptions = build_threats(write(tmp_path / "cc.yml", threat_model="2DCommonCorruption", severity=2))
    assert [c.describe()["corruption"]["name"] for c in corruptions] == list(COMMON)
    assert {c.describe()["corruption"]["severity"] for c in corruptions} == {2}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"threat_model": "PGDD"}, "unknown threat_model 'PGDD'; did you mean 'PGD'"),
        ({"threat_model": "PGD", "lp_norm": "L3"}, "unknown lp_norm 'L3'"),
        ({"threat_model": "PGD", "iteration": 3}, "did you mean 'iterations'"),
        ({"threat_model": "ACDC", "condition": "Fog"}, "use --dataset acdc"),
    ],
)
def test_bad_semsegbench_files_are_one_sentence(tmp_path: Path, content: dict[str, object], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        build_threats(write(tmp_path / "threat.yml", **content))


def test_every_kind_of_threat_says_whether_it_needs_the_model() -> None:
    assert {kind: threats[kind].needs_model for kind in ("clean", "corruption", "localized", "attack")} == {
        "clean": False, "corruption": False, "localized": False, "attack": True
    }  # fmt: skip


@pytest.mark.parametrize(("target", "expected"), [(0, 0), (3, 3), (True, 1), (False, None), (None, None)])
def test_semsegbench_targets(tmp_path: Path, target: object, expected: int | None) -> None:
    path = write(tmp_path / "threat.yml", threat_model="PGD", target=target)
    assert build_threat(path).describe()["attack"]["target"] == expected


def test_sweeps_have_names_of_their_own() -> None:
    for option, values in (("alpha", [0.005, 0.01]), ("restarts", [1, 2]), ("samples", [1, 3])):
        built = build_threats({"attack": {"name": "pgd", option: values}})
        assert len({threat.name for threat in built}) == 2


SQUARE = {"attack": {"name": "pgd", "steps": 2, "region": {"square": {"size": [100, 200]}}}}


def test_sizes_and_positions_are_swept() -> None:
    sizes = [threat.describe()["attack"]["region"] for threat in build_threats(SQUARE)]
    assert sizes == [{"square": {"size": 100}}, {"square": {"size": 200}}]
    corners = {"size": {"range": [32, 64, 32]}, "position": ["centre", "top-left"]}
    built = build_threats({"region_aware": {"attack": "bim", "region": {"square": corners}}})
    assert [tuple(threat.describe()["region_aware"]["region"]["square"].values()) for threat in built] == [
        (32, "centre"), (32, "top-left"), (64, "centre"), (64, "top-left")
    ]  # fmt: skip
    localized = build_threats(
        {"localized": {"corruption": {"name": "fog"}, "patch": ["quarter", 8, {"height": 8, "width": 16}]}}
    )
    assert [threat.describe()["localized"]["patch"] for threat in localized] == ["quarter", 8, [8, 16]]
    assert len({threat.name for threat in [*built, *localized]}) == 7


def test_a_rectangle_is_a_height_and_a_width() -> None:
    threat = build_threat({"attack": {"name": "pgd", "region": {"square": {"size": {"height": 32, "width": 64}}}}})
    assert threat.describe()["attack"]["region"] == {"square": {"size": [32, 64]}}
    assert threat.name.endswith("in square [32, 64]")
    aimed = build_threat({"attack": {"name": "pgd", "fooling_region": {"square": {"size": {"height": 3, "width": 4}}}}})
    assert aimed.describe()["attack"]["fooling_region"] == {"square": {"size": [3, 4]}}
    with pytest.raises(GauntletError, match=r"size as a rectangle is \{height: 32, width: 64\}, not"):
        build_threat({"attack": {"name": "pgd", "region": {"square": {"size": {"height": 32}}}}})


def test_where_one_threat_is_wanted_a_list_of_sizes_is_told_from_a_rectangle() -> None:
    with pytest.raises(GauntletError, match="stands for 2 threats") as caught:
        build_threat(SQUARE)
    assert "a rectangle is written {height: 32, width: 64}" in str(caught.value)


@pytest.mark.parametrize(
    "description",
    [
        {"attack": {"name": "pgd", "region": {"square": {"size": {"height": 32, "width": 64}}}}},
        {"attack": {"name": "bim", "fooling_region": {"square": {"size": {"height": 8, "width": 9}}}}},
        {"region_aware": {"attack": "bim", "region": {"square": {"size": {"height": 32, "width": 64}}}}},
        {"localized": {"corruption": {"name": "fog"}, "patch": {"height": 8, "width": 16}}},
        {"localized": {"corruption": {"name": "fog"}, "region": {"square": {"size": {"height": 8, "width": 16}}}}},
        {"battery": {"name": "semsegbench", "region": {"square": {"size": {"height": 8, "width": 16}}}}},
    ],
)
def test_stored_descriptions_are_never_sweeps(description: dict[str, Any]) -> None:
    threat = build_threat(description)
    stored = json.loads(json.dumps(threat.describe()))
    again = rebuild_threat(stored)
    assert again.describe() == threat.describe() == stored
    if "battery" not in description:
        assert again.name == threat.name
