"""The section "What was not tested": derived from the store and the list of kinds."""

from __future__ import annotations

import json

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
    store = fill_store(Store(), ("one", "two"), (CLEAN, corruption("fog", 3), attack("pgd", 8, 20)), images=2)
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
