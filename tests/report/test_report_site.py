"""The leaderboard site and the entries it is made of."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from synthetic_store import HOSTILE, MODELS

from gauntlet.errors import GauntletError
from gauntlet.report.pages.entries import Entry, leaderboard_tables, published_entries, store_entries
from gauntlet.report.pages.leaderboard_site import write_site
from gauntlet.results import Store, open_store, published

pytest_plugins = ("report_fixtures",)


@pytest.fixture(scope="module")
def ade20k() -> list[Entry]:
    return published_entries(published.frame("segmentation", "ade20k"))


def test_published_entries_hold_the_published_figures(ade20k: list[Entry]) -> None:
    entry = next(each for each in ade20k if each.model == "segformer/mit-b0")
    rows = published.find("SegFormer", "MIT-B0", "ADE20K")
    clean = rows[rows["kind"].eq("clean") & rows["metric"].eq("mIoU")]["value"].iloc[0]
    assert entry.scores["mIoU"]["clean"] == clean == 0.3741
    corruptions = rows[rows["kind"].eq("corruption") & rows["metric"].eq("mIoU")]["value"]
    assert entry.scores["mIoU"]["GAM_3"] == corruptions.min()
    assert entry.facts["architecture"] == "segformer"
    assert len(entry.figures) == len(rows)


def test_a_leaderboard_is_sorted_and_ranked(ade20k: list[Entry]) -> None:
    (board,) = leaderboard_tables(ade20k)
    assert board.caption == "mIoU in per cent, ranked by GAM_3."
    column = [each.name for each in board.columns].index("GAM_3")
    values = [float(value) for row in board.rows if isinstance(value := row[column], (int, float))]
    assert len(values) == len(board.rows)
    assert values == sorted(values, reverse=True)
    assert [row[1] for row in board.rows[:3]] == [1, 2, 3]
    (by_clean,) = leaderboard_tables(ade20k, sort_by="clean")
    assert by_clean.rows[0][0] == "upernet/internimage-h"


def test_equal_scores_share_a_rank_and_nothing_has_none() -> None:
    entries = [
        Entry(name, "store", "segmentation", "d", name, scores={"mIoU": scores})
        for name, scores in (("a", {"clean": 0.5}), ("b", {"clean": 0.7}), ("c", {"clean": 0.5}), ("d", {"x": 0.1}))
    ]
    (board,) = leaderboard_tables(entries, sort_by="clean")
    assert [(row[0], row[1]) for row in board.rows] == [("b", 1), ("a", 2), ("c", 2), ("d", None)]
    last = board.rows[-1][2]
    assert isinstance(last, float)
    assert math.isnan(last)


def test_flagged_models_are_doubtful(ade20k: list[Entry]) -> None:
    flagged = {each.model for each in ade20k if each.doubtful}
    rows = published.frame("segmentation", "ade20k")
    sound = published.unflagged(rows)  # without figures that have a known fault or doubt
    touched = rows.groupby("model").size().ne(sound.groupby("model").size())
    assert flagged == set(touched.index[touched])
    assert 0 < len(flagged) < len(ade20k)


def test_store_entries_have_worst_cases(own: list[Entry], small_store: Store) -> None:
    assert [each.model for each in own] == sorted(MODELS)
    frame = small_store.frame()
    rows = frame[frame["model"].eq("zoo/plain") & frame["kind"].eq("corruption") & frame["class_name"].eq("")]
    for metric in ("mIoU", "aAcc"):
        assert own[1].scores[metric]["worst corruption"] == rows[rows["metric"].eq(metric)]["value"].min()


class Links(HTMLParser):
    """Every address that a page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.actual: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.actual += [str(value) for name, value in attrs if name in ("href", "src", "data-src") and value]


@pytest.fixture(scope="module")
def own(store_path: Path) -> list[Entry]:
    with open_store(store_path, read_only=True) as store:
        return store_entries(store.frame())


@pytest.fixture(scope="module")
def site(own: list[Entry], ade20k: list[Entry], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site([*own, *ade20k], tmp_path_factory.mktemp("site") / "public")


def test_every_link_of_the_site_is_relative_and_leads_somewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 3 + 3 + 26
    for page in pages:
        links = Links(page.read_text("utf-8"))
        assert "img" not in links.tags
        for address in links.actual:
            path = address.split("#")[0]
            assert not re.match(r"[a-z]+:|/", address) or address == "data:,", address
            assert not path or address == "data:," or (page.parent / path).resolve().is_file(), (page, address)
    assert (site / ".nojekyll").exists()


def test_data_is_valid_and_safe(site: Path) -> None:
    text = (site / "assets" / "data.js").read_text("utf-8")
    assert "<" not in text
    data = json.loads(text.removeprefix("window.GAUNTLET = ").rstrip(";\n"))
    assert HOSTILE in [entry["model"] for entry in data["entries"]]
    ids = [entry["id"] for entry in data["entries"]]
    assert len(set(ids)) == len(ids)
    scored = [values for entry in data["entries"] for values in entry["scores"].values()]
    assert set(data["default_scores"]) == {name for values in scored for name in values}
    assert data["default_scores"][0] == "GAM_3"
    assert all(re.fullmatch(r"[a-z0-9-]+", each) for each in ids)
    assert {path.stem for path in (site / "models").iterdir()} == set(ids)


def test_names_cannot_leave_the_folder(tmp_path: Path) -> None:
    from synthetic_store import CLEAN, fill_store

    store = fill_store(Store(), ["../../outside", "con/aux"], [CLEAN], images=2)
    write_site(store_entries(store.frame()), tmp_path / "inside")
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert len(list((tmp_path / "inside" / "models").iterdir())) == 2


def test_a_site_replaces_a_site_and_nothing_else(ade20k: list[Entry], tmp_path: Path) -> None:
    for count in (3, 1):
        site = write_site(ade20k[:count], tmp_path / "site")
        assert len(list((site / "models").iterdir())) == count
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(GauntletError, match="holds other files"):
        write_site(ade20k[:1], other)
    with pytest.raises(GauntletError, match="is a file"):
        write_site(ade20k[:1], other / "thesis.tex")
    with pytest.raises(GauntletError, match="needs at least one model"):
        write_site([], tmp_path / "empty")


def test_the_page_of_a_flagged_model_says_why(site: Path, ade20k: list[Entry]) -> None:
    entry = next(each for each in ade20k if each.doubtful)
    text = (site / "models" / f"{entry.id}.html").read_text("utf-8")
    assert "Known faults" in text
    assert entry.flags[0] in text
