"""The numbers behind verdicts: a partial correlation, and the halves of claims that rest on tables of Arnab et al."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gauntlet.results import published
from gauntlet.studies.correlation_rules import judge_positive
from gauntlet.studies.findings import arnab
from gauntlet.studies.findings.evidence import partial_correlation, partial_rows


def residuals(values: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """What a straight line over the ranks of a third list leaves of the ranks of a list."""
    one, other = (pd.Series(each).rank().to_numpy() for each in (values, fixed))
    return np.asarray(one - np.polyval(np.polyfit(other, one, 1), other))


def test_a_partial_correlation_is_that_of_the_residuals_of_ranks() -> None:
    values = np.random.default_rng(3).normal(size=(20, 3))
    values[:, :2] += values[:, 2:]
    left = np.stack([residuals(values[:, each], values[:, 2]) for each in range(2)])
    expected = np.corrcoef(left)[0, 1]
    found = partial_correlation(values, 200)
    assert found["value"] == pytest.approx(expected, abs=1e-12)
    assert found["low"] < found["value"] < found["high"]


def test_what_only_the_third_figure_explains_is_not_confirmed() -> None:
    """X and y follow z and their own noise: strongly correlated, but nothing is left at equal z."""
    z, x, y = np.random.default_rng(0).normal(size=(3, 60))
    table = pd.DataFrame({"dataset": "d", "x": 3 * z + x, "y": 3 * z + y, "z": z})
    assert np.corrcoef(table["x"], table["y"])[0, 1] > 0.8
    row = partial_rows({"all cells": table}, [("d", "x", "y")], "z", judge_positive).iloc[0]
    assert (row["models"], row["verdict"]) == ("60", "not confirmed")


def test_transfers_of_table_1_are_counted_without_the_own_network() -> None:
    found = arnab._transfers_worse(published.frame(source="arnab"))
    assert found["made on one scale"] == [True] * 18
    # 20.0, 20.4 and 16.8 against 60.3, 50.8 and 37.2 on the scales that it holds; 80.9, 78.5, 74.1 on other networks
    assert found["made on several scales"] == [False] * 3 + [True] * 3


def test_poolings_and_transformations_are_those_of_the_tables() -> None:
    rows = published.frame(source="arnab")
    pooled = arnab._poolings(rows).set_index("case")
    assert list(pooled.loc["iterative fgsm", ["max", "average", "verdict"]]) == ["29.2 %", "37.7 %", "not confirmed"]
    assert list(pooled.loc["clean IoU", ["max", "average"]]) == ["73.9 %", "73.4 %"]
    assert arnab._transformations(rows) == {"unaware": [True] * 4, "aware": [True] * 4}
    # Without its own attack JPEG leaves 47.7; were that 15.0, below the 15.5 of no defence, it would not help.
    weak = rows["transform"].eq("JPEG recompression") & rows["source_transform"].eq("None")
    assert sum(arnab._transformations(rows.assign(value=rows["value"].mask(weak, 0.15)))["unaware"]) == 3
