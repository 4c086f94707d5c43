"""The commands: report, leaderboard, compare, card, site."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic_store import CLEAN, HOSTILE, MODELS, attack, corruption, fill_store

from gauntlet.cli import commands  # noqa: F401 - registers the commands
from gauntlet.results import open_store
from program import Call

pytest_plugins = ("report_fixtures",)


@pytest.fixture(scope="module")
def few_threats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose report takes a third of the time of the larger one's: one threat of each kind."""
    path = tmp_path_factory.mktemp("few") / "results.db"
    with open_store(path) as store:
        fill_store(store, MODELS, (CLEAN, attack("pgd", 8, 20), corruption("fog", 3)), images=3)
    return path


def test_report_writes_and_says_where(
    call: Call, few_threats: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    code, out, _ = call("report", "--store", few_threats, "--open", "--title", "Ours & <theirs>")
    assert (code, out) == (0, f"written to {tmp_path / 'report.html'}\n")
    assert "<title>Ours &amp; &lt;theirs&gt;</title>" in (tmp_path / "report.html").read_text("utf-8")
    assert opened == [(tmp_path / "report.html").as_uri()]


def test_report_in_other_formats(call: Call, few_threats: Path, tmp_path: Path) -> None:
    code, out, _ = call("report", "--store", few_threats, "--format", "latex", "--json")
    written = json.loads(out)
    assert (code, written["written"], written["format"]) == (0, str(tmp_path / "report.tex"), "latex")
    assert written["bytes"] == (tmp_path / "report.tex").stat().st_size


def test_a_missing_store_is_one_sentence(call: Call) -> None:
    for command in (
        ["report"],
        ["leaderboard"],
        ["card", "m"],
        ["compare", "a", "b"],
        ["site", "x", "--store", "no.db"],
    ):
        code, _, error = call(*command)
        assert code == 2
        assert error.startswith("gauntlet: there is no store at ")
        assert error.count("\n") == 1


def test_leaderboard_of_a_store(call: Call, few_threats: Path) -> None:
    code, out, _ = call("leaderboard", "--store", few_threats)
    assert code == 0
    assert "worst corruption" in out
    assert "mean of" not in out
    code, out, _ = call("leaderboard", "--store", few_threats, "--metric", "aAcc", "--sort-by", "clean", "--json")
    (board,) = json.loads(out)
    values = [model["clean"] for model in board["models"]]
    assert values == sorted(values, reverse=True)
    assert [model["rank"] for model in board["models"]] == [1, 2, 3]
    assert HOSTILE in [model["model"] for model in board["models"]]


@pytest.mark.slow
def test_leaderboard_of_the_published_figures(call: Call) -> None:
    code, out, _ = call("leaderboard", "--published", "--dataset", "ade20k", "--top", "2")
    assert code == 0
    assert "semsegbench, ade20k" in out
    assert "internimage-h" in out
    assert call("leaderboard", "--published", "--dataset", "ade2k")[0] == 2
    code, _, error = call("leaderboard", "--published", "--dataset", "ade20k", "--sort-by", "GAM3")
    assert code == 2
    assert error.startswith("gauntlet: unknown score to sort by 'GAM3'; ")
    assert "GAM_3" in error
    assert "unknown metric" in call("leaderboard", "--published", "--dataset", "coco", "--metric", "mIuO")[2]


def test_compare_prints_and_writes_a_page(call: Call, store_path: Path, tmp_path: Path) -> None:
    code, out, _ = call("compare", "zoo/plain", HOSTILE, "--store", store_path, "--html", "pair.html")
    assert code == 0
    assert "Differences" in out
    assert f"written to {tmp_path / 'pair.html'}" in out
    assert HOSTILE not in (tmp_path / "pair.html").read_text("utf-8")
    code, out, _ = call("compare", "zoo/plain", "zoo/steady", "--store", store_path, "--json")
    (record,) = json.loads(out)
    assert len(record["differences"]) == 16
    # Sixteen threats on eight images: no test can find a difference, so no interval is given.
    assert {each["verdict"] for each in record["differences"]} == {"cannot be told apart"}
    assert {each["change"]["low"] for each in record["differences"]} == {None}
    assert record["order"].startswith("By mIoU under the worst corruption: ")


def test_records_of_a_comparison_say_which_images_they_are_of(call: Call, tmp_path: Path) -> None:
    with open_store(tmp_path / "two.db") as store:
        for images in (2, 3):
            fill_store(store, MODELS[:2], [CLEAN], images=images)
        digests = set(store.frame()["dataset_digest"])
    _, out, _ = call("compare", *MODELS[:2], "--store", "two.db", "--json")
    assert {record["dataset_digest"] for record in json.loads(out)} == digests
    assert len(digests) == 2


def test_card_and_site(call: Call, few_threats: Path, tmp_path: Path) -> None:
    code, out, _ = call("card", "zoo/steady", "--store", few_threats)
    assert (code, out) == (0, f"written to {tmp_path / 'robustness-card.md'} and {tmp_path / 'robustness-card.json'}\n")
    code, out, _ = call("site", "public", "--store", few_threats)
    assert (code, out) == (0, f"3 models written to {tmp_path / 'public' / 'index.html'}\n")
    code, _, error = call("site", "elsewhere")
    assert (code, error) == (
        2,
        "gauntlet: a site needs at least one model; give a store with evaluations, or --published.\n",
    )
