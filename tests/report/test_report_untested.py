"""The section "What was not tested": derived from the store and the list of kinds."""

from __future__ import annotations

import json
from typing import Any

from synthetic_store import CLEAN, MadeUpThreat, attack, corruption, fill_store, localized

from gauntlet.report.assembly import build_report
from gauntlet.report.document import Bullets, Section
from gauntlet.report.tables import Table
from gauntlet.results import Store
from gauntlet.tasks import SEGMENTATION
from gauntlet.threats import build_threats, suites
from gauntlet.threats.safety_case import kinds_of_task


def untested(store: Store) -> Section:
    (part,) = build_report(store).parts
    (section,) = (each for each in part.sections if each.title == "What was not tested")
    return section


def blocks(section: Section) -> tuple[list[str], Table]:
    _, bullets, table = section.blocks
    assert isinstance(bullets, Bullets)
    assert isinstance(table, Table)
    return list(bullets.items), table


def test_every_model_is_told_what_it_lacks() -> None:
    corruptions = [corruption(name, 3) for name in ("fog", "gaussian_noise", "motion_blur", "pixelate")]
    store = fill_store(Store(), ("one", "two"), (CLEAN, *corruptions, attack("pgd", 8, 20)), images=2)
    fill_store(store, ("one",), (localized("snow", 0.5), attack("square", 8, 100)), images=2)
    sentences, table = blocks(untested(store))
    lacks = dict(each.split(": ", 1) for each in sentences)
    assert "localized corruptions" in lacks["two"]
    assert "attacks without gradients" in lacks["two"]
    assert "localized corruptions" not in lacks["one"]
    assert "attacks without gradients" not in lacks["one"]
    for name in ("common corruptions", "white-box attacks, linf", "clean images"):
        assert name not in lacks["two"]
    assert all("adversarial patches" in each and "white-box attacks, l2" in each for each in sentences)
    rows = {str(row[0]): row for row in table.rows}
    names = [column.name for column in table.columns]
    assert rows["localized corruptions"][names.index("two")] == "not run"
    assert rows["localized corruptions"][names.index("one")] == "1"
    assert rows["adversarial patches"][-1] == kinds_of_task(SEGMENTATION)[8].how
    assert rows["clean images"][-1] == ""


def test_after_the_suite_full_only_what_needs_more_is_missing() -> None:
    threats = []
    for description in suites.build("full"):
        (threat,) = build_threats(description)
        described = json.loads(json.dumps(threat.describe()))
        threats.append(CLEAN if threat.name == "clean" else MadeUpThreat(threat.name, described, 0.5, 0.5))
    sentences, _ = blocks(untested(fill_store(Store(), ("one",), threats, images=2)))
    missing = [kind.name for kind in kinds_of_task(SEGMENTATION) if not kind.threats]
    assert sentences == [f"one: {', '.join(missing)}."]


def test_images_of_acdc_are_real_weather() -> None:
    sentences, _ = blocks(untested(fill_store(Store(), ("one",), (CLEAN,), images=2, dataset="acdc")))
    assert "real weather" not in sentences[0]
    assert "clean images" not in sentences[0]


def described(threat: dict[str, Any]) -> MadeUpThreat:
    """A threat as its evaluation would be stored."""
    (built,) = build_threats(threat)
    return MadeUpThreat(built.name, json.loads(json.dumps(built.describe())), 0.5, 0.5)


def cells(*threats: dict[str, Any]) -> dict[str, str]:
    _, table = blocks(untested(fill_store(Store(), ("one",), (CLEAN, *map(described, threats)), images=2)))
    place = [column.name for column in table.columns].index("one")
    return {str(row[0]): str(row[place]) for row in table.rows}


def test_two_steps_of_pgd_are_no_white_box_attack_and_no_attack_in_a_region() -> None:
    weak = cells({"attack": {"name": "pgd", "epsilon": "8/255", "steps": 2}})
    assert weak["white-box attacks, linf"] == "1, too weak"
    assert weak["attacks in a region"] == "not run"
    tiny = cells({"attack": {"name": "pgd", "epsilon": "1/255", "steps": 20}})
    assert tiny["white-box attacks, linf"] == "1, too weak"
    strong = cells({"attack": {"name": "pgd", "epsilon": "8/255", "steps": 10}})
    assert (strong["white-box attacks, linf"], strong["attacks in a region"]) == ("1", "not run")
    smallest = cells({"attack": {"name": "alma-prox"}})
    assert smallest["white-box attacks, linf"] == "1"


def test_an_attack_is_of_the_kind_that_its_options_say() -> None:
    region = {"square": {"size": "quarter", "position": "centre"}}
    inside = cells({"attack": {"name": "pgd", "epsilon": "8/255", "region": region}})
    assert (inside["attacks in a region"], inside["white-box attacks, linf"]) == ("1", "not run")
    targeted = cells({"attack": {"name": "pgd", "epsilon": "8/255", "target": 0}})
    assert targeted["white-box attacks, linf"] == "not run"
    asking = cells({"attack": {"name": "square", "epsilon": "8/255", "queries": 20}})
    assert asking["attacks without gradients"] == "1, too weak"


def test_one_corruption_is_not_all_families_and_a_mild_one_is_none() -> None:
    fog = cells({"corruption": {"name": "fog", "severity": 3}})
    assert fog["common corruptions"] == "1, without noise, blur, digital"
    assert cells({"corruption": {"name": "fog", "severity": 1}})["common corruptions"] == "1, too weak"
    names = ("gaussian_noise", "motion_blur", "fog", "jpeg_compression")
    assert cells(*({"corruption": {"name": name, "severity": 3}} for name in names))["common corruptions"] == "4"
