"""One rule ranks: analysis.leaderboard, `gauntlet leaderboard` and the report give one order."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from synthetic_store import put

from gauntlet.analysis import leaderboard
from gauntlet.analysis.scoring.benchmark_sets import COMMON_CORRUPTIONS
from gauntlet.analysis.scoring.ranking import rank
from gauntlet.report.pages import entries
from gauntlet.report.scope import scopes
from gauntlet.report.scope_ranking import Ranking
from gauntlet.results import Store

Ranks = list[tuple[str, int | None]]


def of_analysis(store: Store) -> Ranks:
    pairs = leaderboard(store.frame())[["model", "rank"]].itertuples(index=False)
    return [(str(model), None if pd.isna(place) else int(place)) for model, place in pairs]


def of_command(store: Store) -> tuple[str, Ranks]:
    (board,) = entries.leaderboard_tables(entries.store_entries(store.frame()))
    return board.caption.split("ranked by ")[1].rstrip("."), [(str(row[0]), row[1]) for row in board.rows]  # type: ignore[misc]


def of_report(store: Store) -> tuple[str, Ranks]:
    (scope,) = scopes(store.frame())
    ranking = Ranking(scope)
    return ranking.criterion, list(ranking.ranks.items())


def add_corruptions(store: Store, model: str, worst: float, without: str = "", undefined: str = "") -> None:
    for name in COMMON_CORRUPTIONS:
        if name != without:
            value = math.nan if name == undefined else worst if name == "fog" else 0.6
            put(store, model, f"{name}-3", {"corruption": {"name": name, "severity": 3}}, mIoU=value)


def test_models_with_ties_and_without_the_score_have_one_order() -> None:
    store = Store()
    for model, clean in (
        ("late", 0.9),
        ("tie", 0.8),
        ("a tie", 0.7),
        ("best", 0.6),
        ("nan", 0.95),
        ("clean only", 0.99),
    ):
        put(store, model, "clean", {"clean": {}}, mIoU=clean)
    add_corruptions(store, "late", 0.1)
    add_corruptions(store, "tie", 0.3)
    add_corruptions(store, "a tie", 0.3)
    add_corruptions(store, "best", 0.5)
    add_corruptions(store, "nan", 0.5, undefined="snow")
    add_corruptions(store, "incomplete", 0.5, without="frost")
    expected = [
        *(("best", 1), ("a tie", 2), ("tie", 2), ("late", 4)),
        *(("clean only", None), ("incomplete", None), ("nan", None)),
    ]
    assert of_analysis(store) == expected
    assert of_command(store) == ("GAM_3", expected)
    assert of_report(store) == ("GAM_3", expected)


def test_without_a_whole_gam_the_worst_shared_corruption_decides() -> None:
    store = Store()
    for model, clean, fog in (("a", 0.9, 0.2), ("b", 0.8, 0.4), ("c", 0.7, math.nan)):
        put(store, model, "clean", {"clean": {}}, mIoU=clean)
        put(store, model, "fog-3", {"corruption": {"name": "fog", "severity": 3}}, mIoU=fog)
    expected = [("b", 1), ("a", 2), ("c", None)]
    assert of_analysis(store) == expected
    assert of_command(store) == ("worst corruption", expected)
    assert of_report(store) == ("worst corruption", expected)


def test_clean_figures_decide_where_nothing_else_is_known() -> None:
    store = Store()
    for model, clean in (("a", 0.5), ("b", 0.7), ("c", math.nan)):
        put(store, model, "clean", {"clean": {}}, mIoU=clean)
    expected = [("b", 1), ("a", 2), ("c", None)]
    assert of_analysis(store) == expected
    assert of_command(store) == ("clean", [pair for pair in expected if pair[0] != "c"])  # no score, no row
    assert of_report(store) == ("clean", expected)


@pytest.mark.parametrize("scores", [{}, {"a": {}}, {"a": {"clean": math.nan}}])
def test_models_without_any_score_are_not_ranked(scores: dict[str, dict[str, float]]) -> None:
    assert rank(scores) == ("clean", dict.fromkeys(scores))
