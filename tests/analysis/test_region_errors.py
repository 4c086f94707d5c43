"""Relative errors of regions by hand: means over corruptions, a reference model, two positions."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from store_rows import figure

from gauntlet.analysis import mean_over_corruptions, position_differences, region_errors
from gauntlet.errors import GauntletError


def noise(name: str, severity: int = 3) -> dict[str, Any]:
    return {"localized": {"corruption": {"name": name, "severity": severity}, "ratio": 0.5, "patch": 32}}


def square(position: str) -> dict[str, Any]:
    region = {"square": {"size": 16, "position": position}}
    return {"region_aware": {"attack": {"name": "bim"}, "rounds": 3, "region": region}}


def rows_of(model: str, threat: dict[str, Any], accuracy: float, clean: float, part: str = "Mbar") -> list[Any]:
    return [
        figure(model, threat, accuracy, metric=f"A_{part}"),
        figure(model, threat, clean, metric=f"A_{part}_clean"),
    ]


def two_models() -> pd.DataFrame:
    rows = [figure("a", {"clean": {}}, 0.9), figure("b", {"clean": {}}, 0.9)]
    for model, snow, fog in (("a", 0.6, 0.2), ("b", 0.4, 0.4)):
        rows += rows_of(model, noise("snow"), snow, 0.8, "M") + rows_of(model, noise("fog"), fog, 0.8, "M")
    return pd.DataFrame(rows)


def test_errors_against_the_own_clean_and_a_reference() -> None:
    table = region_errors(two_models(), reference="b").set_index(["model", "threat"])
    assert set(table["region"]) == {"inside"}
    snow = next(threat for _, threat in table.index if "snow" in threat)
    assert table.loc[("a", snow), "RCE"] == pytest.approx(0.25)
    assert table.loc[("a", snow), "CE"] == pytest.approx((0.4 - 0.6) / 0.4)
    assert table.loc[("b", snow), "CE"] == 0
    with pytest.raises(GauntletError, match="unknown model 'c'"):
        region_errors(two_models(), reference="c")


def test_the_mean_over_corruptions_comes_before_the_quotient() -> None:
    table = mean_over_corruptions(two_models(), reference="b").set_index("model")
    assert table.loc["a", "corruptions"] == "fog, snow"
    assert table.loc["a", "setting"] == "severity 3 ratio 0.5 patch 32"
    assert table["accuracy"].tolist() == pytest.approx([0.4, 0.4])
    assert table["RCE"].tolist() == pytest.approx([0.5, 0.5])
    assert table["CE"].tolist() == pytest.approx([0, 0])


def test_models_under_different_sets_are_not_compared() -> None:
    frame = two_models()
    frame = frame[~(frame["model"].eq("b") & frame["description"].str.contains("fog"))]
    table = mean_over_corruptions(frame, reference="b").set_index("model")
    assert table["corruptions"].tolist() == ["fog, snow", "snow"]
    assert table["CE"].isna().tolist() == [True, False]


def test_the_centre_minus_a_corner() -> None:
    rows = rows_of("a", square("centre"), 0.4, 0.8) + rows_of("a", square("bottom-left"), 0.6, 0.8)
    table = position_differences(pd.DataFrame([*rows, *rows_of("a", noise("fog"), 0.5, 0.8)]))
    assert table[["position", "region"]].to_numpy().tolist() == [["bottom-left", "outside"]]
    assert table["difference"].tolist() == pytest.approx([0.25])


def test_a_frame_without_regions_has_no_errors() -> None:
    clean = pd.DataFrame([figure("a", {"clean": {}}, 0.9), figure("a", {"clean": {}}, 0.8, metric="A_P")])
    assert region_errors(clean).empty
    assert mean_over_corruptions(clean).empty
    assert position_differences(clean).empty
