"""Two versions of a threat, two metrics, two data sets, two programs of one name: never in one row or one mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gauntlet.analysis import leaderboard
from gauntlet.errors import GauntletError
from gauntlet.metrics import Figure, SegmentationMetric
from gauntlet.report.assembly import Options, build_part
from gauntlet.report.document import Bullets, of_type
from gauntlet.report.pages import model_card
from gauntlet.report.pages.comparison import compare_models
from gauntlet.report.pages.entries import leaderboard_tables, store_entries
from gauntlet.report.pages.leaderboard_site import write_site
from gauntlet.report.scope import Scope, scopes
from gauntlet.results import Job, Store
from gauntlet.results.families import combine

CLEAN: dict[str, Any] = {"clean": {}}
FOG: dict[str, Any] = {"corruption": {"name": "fog", "severity": 3}}
OPTIONS: dict[str, Any] = {"class_names": ["road", "car"], "ignore_index": 255, "background_index": None}
DATA: dict[str, Any] = {"name": "streets", "split": "val", "length": 8, "ids": "x", "protocol": {"name": "native"}}


def put(
    store: Store,
    model: str,
    description: dict[str, Any],
    value: float,
    version: int = 1,
    *,
    data: dict[str, Any] = DATA,
    code: str = "",
    seconds: int = 0,
) -> None:
    """An evaluation with one figure and no counts."""
    kind = next(iter(description))
    name = "fog-3" if kind == "corruption" else kind
    job = Job("segmentation", model, "0" * 16, data, name, kind, description, version, 0, code=code)
    provenance = {"started": f"2026-01-01T00:00:{seconds:02d}+00:00"}
    started = store.begin(job, images=0, batch_size=4, metric=OPTIONS, provenance=provenance)
    store.finish(started, [Figure("mIoU", value)])


@pytest.fixture(params=["old first", "new first"])
def versions(request: pytest.FixtureRequest) -> Store:
    """Fog in version 1 of two models, in version 99 of one of them."""
    store = Store()
    for model in ("a", "b"):
        put(store, model, CLEAN, 0.8)
    runs = [("a", 0.5, 1), ("b", 0.4, 1), ("a", 0.1, 99)]
    for second, (model, value, version) in enumerate(runs if request.param == "old first" else runs[::-1]):
        put(store, model, FOG, value, version, seconds=second)
    return store


def only_scope(store: Store) -> Scope:
    (scope,) = scopes(store.frame())
    return scope


SENTENCE = "Left out: fog-3 of a, b in version 1 of the threat; its figures here are of version 99."


def test_the_frame_tells_versions_apart(versions: Store) -> None:
    frame = versions.frame()
    fog = frame[frame["kind"].eq("corruption")]
    assert dict(zip(fog["value"], fog["threat_version"], strict=True)) == {0.5: 1, 0.4: 1, 0.1: 99}
    assert set(frame["metric_version"]) == {SegmentationMetric.version}
    assert set(frame["protocol"]) == {'{"name": "native"}'}


def test_leaderboards_have_the_newest_version_alone(versions: Store, tmp_path: Path) -> None:
    board = leaderboard(versions.frame()).set_index("model")
    assert board.loc["a", "worst corruption"] == 0.1
    assert board["worst corruption"].isna()["b"]
    entries = store_entries(versions.frame())
    by_model = {entry.model: entry.scores["mIoU"] for entry in entries}
    assert by_model["a"]["worst corruption"] == 0.1
    assert "worst corruption" not in by_model["b"]
    (table,) = leaderboard_tables(entries)
    assert table.caption.endswith(SENTENCE)
    site = write_site(entries, tmp_path / "site")
    assert all(SENTENCE in page.read_text("utf-8") for page in (site / "models").glob("*.html"))


def test_reports_and_cards_say_what_they_leave_out(versions: Store) -> None:
    scope = only_scope(versions)
    assert scope.left_out == (SENTENCE,)
    assert scope.figure("a", "fog-3").value == 0.1
    assert "b" not in scope.matrix["fog-3"].dropna().index
    (bullets,) = of_type(build_part(versions, scope, Options()).sections[0], Bullets)
    assert SENTENCE in bullets.items
    text = model_card.card_text(versions, "a", model_card.card_data(versions, "a"))
    assert SENTENCE in text
    told = {each["threat"]: each["threat_version"] for each in model_card.card_data(versions, "a")["results"]}
    assert told == {"clean": 1, "fog-3": 99}


def test_two_versions_are_not_compared(versions: Store) -> None:
    (comparison,) = compare_models(versions, "a", "b")
    assert [each.threat for each in comparison.differences] == ["clean"]


def test_a_store_of_one_version_leaves_nothing_out() -> None:
    store = Store()
    for model, value in (("a", 0.5), ("b", 0.4)):
        put(store, model, FOG, value, 99)
    assert only_scope(store).left_out == ()
    assert sorted(leaderboard(store.frame())["worst corruption"]) == [0.4, 0.5]


def test_two_versions_of_the_metric_share_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    put(store, "a", CLEAN, 0.8)
    put(store, "b", CLEAN, 0.7)
    newer = SegmentationMetric.version + 1
    monkeypatch.setattr(SegmentationMetric, "version", newer)
    put(store, "c", CLEAN, 0.6)
    # The metric of certificates has versions of its own.
    put(store, "a", {"certify": {"sigma": 0.25}}, 0.5)
    scope = only_scope(store)
    assert scope.models == ["c", "a"]
    assert list(scope.matrix["clean"].dropna().index) == ["c"]
    assert scope.left_out == (
        f"Left out: 2 evaluations of a, b with figures of version {newer - 1} of the metric; the figures here are of "
        f"version {newer}.",
    )
    assert leaderboard(store.frame()).set_index("model")["clean"].dropna().to_dict() == {"c": 0.6}


def test_a_family_has_no_mean_of_two_metrics() -> None:
    store = Store()
    put(store, "a", FOG, 0.6)
    stored = store.load(store.keys()[0])
    assert stored is not None
    other = replace(stored, metric_version=stored.metric_version + 1)
    with pytest.raises(GauntletError, match="'2D' has figures of versions 1, 2 of the metric"):
        combine("2D", {"fog": replace(stored, metric_version=1), "snow": replace(other, metric_version=2)})


@pytest.mark.parametrize("field", ["contents", "ids", "protocol"])
def test_two_data_sets_of_one_name_share_no_row(field: str) -> None:
    """The same name, split and number of images, other pixels, ids or protocol."""
    store = Store()
    for value, digest in ((0.8, "one"), (0.2, "two")):
        data = {**DATA, field: {"name": digest} if field == "protocol" else digest}
        put(store, "a", CLEAN, value, data=data)
        put(store, "a", FOG, value / 2, data=data)
    board = leaderboard(store.frame())
    assert sorted(zip(board["clean"], board["worst corruption"], strict=True)) == [(0.2, 0.1), (0.8, 0.4)]
    cut = scopes(store.frame())
    assert sorted(scope.clean("a").value for scope in cut) == [0.2, 0.8]
    assert len({scope.title for scope in cut}) == 2
    assert len(leaderboard_tables(store_entries(store.frame()))) == 2


def test_two_programs_of_one_name_and_weights_are_two_models() -> None:
    store = Store()
    for code, value in (("1" * 16, 0.8), ("2" * 16, 0.2)):
        put(store, "a", CLEAN, value, code=code)
    assert only_scope(store).models == ["a (code 11111111)", "a (code 22222222)"]
    assert sorted(leaderboard(store.frame())["clean"]) == [0.2, 0.8]
