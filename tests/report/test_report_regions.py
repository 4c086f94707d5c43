"""Tables of regions in the report: means over corruptions, a reference model, positions."""

from __future__ import annotations

import pytest
from synthetic_store import CLEAN, MadeUpThreat, fill_store, localized

from gauntlet.errors import GauntletError
from gauntlet.metrics import REGION
from gauntlet.report.assembly import Options, build_report
from gauntlet.report.document import Document
from gauntlet.report.tables import Interval, Table, number_of
from gauntlet.results import Store

MODELS = ("one", "two")


def square(position: str, left: float) -> MadeUpThreat:
    region = {"square": {"size": 16, "position": position}}
    described = {"region_aware": {"attack": {"name": "bim"}, "rounds": 3, "region": region}}
    return MadeUpThreat(f"bim in {position}", described, left, left, REGION)


@pytest.fixture(scope="module")
def store() -> Store:
    threats = (CLEAN, localized("snow", 0.5), localized("fog", 0.5), square("centre", 0.3), square("bottom-left", 0.6))
    return fill_store(Store(), MODELS, threats, images=8)


def tables(document: Document) -> dict[str, Table]:
    return {block.title: block for part in document.parts for section in part.sections for block in section.blocks
            if isinstance(block, Table)}  # fmt: skip


def test_tables_of_regions(store: Store) -> None:
    made = tables(build_report(store, Options(reference="two")))
    means = made["Mean over the corruptions"]
    assert [column.name for column in means.columns][-2:] == ["RCE", "CE"]
    assert {row[1] for row in means.rows} == {"fog, snow"}
    assert all(number_of(row[-1]) == 0 for row in means.rows if row[3] == "two")
    positions = made["What the position changes"]
    assert {(row[1], row[3]) for row in positions.rows} == {("bottom-left", model) for model in MODELS}
    for row in positions.rows:
        assert number_of(row[-1]) == pytest.approx(number_of(row[-3]) - number_of(row[-2]))
    regions = made["Inside and outside the region"]
    assert all(isinstance(cell, Interval) and cell.low <= cell.value <= cell.high for cell in regions.rows[0][2:])


def test_an_unknown_reference_is_one_sentence(store: Store) -> None:
    with pytest.raises(GauntletError, match="unknown model of the store 'three'"):
        build_report(store, Options(reference="three"))
    assert "CE" not in [column.name for column in tables(build_report(store))["Mean over the corruptions"].columns]
