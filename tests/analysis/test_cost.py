"""Strength over cost: the worst case after every attack of a battery, by hand and from a real run."""

from __future__ import annotations

import math

import pandas as pd
import pytest

import gauntlet
from gauntlet.analysis import strength_over_cost
from gauntlet.errors import GauntletError
from gauntlet.models import SegmentationModel
from tiny import TinyDataset


def rows(image: str, clean: float, first: float, second: float, forwards: tuple[int, int]) -> list[dict[str, object]]:
    cost = {"forwards first": forwards[0], "forwards second": forwards[1]}
    values = {"clean": clean, "first": first, "second": second}
    return [{"image_id": image, "view": view, "accuracy": value, **cost} for view, value in values.items()]


def test_the_worst_case_so_far_by_hand() -> None:
    frame = pd.DataFrame(
        [
            *rows("a", 0.9, 0.4, 0.6, (10, 20)),
            *rows("b", 0.7, 0.0, math.nan, (10, 0)),  # nothing was left to lose: skipped
            *rows("c", math.nan, math.nan, math.nan, (0, 0)),  # no pixel counts
        ]
    )
    table = strength_over_cost(frame)
    assert table["attack"].tolist() == ["clean", "first", "second"]
    assert table["passes"].tolist() == [1, 12, 22.5]
    assert table["value"].tolist() == pytest.approx([0.8, 0.2, 0.2])


def test_a_stored_battery_ends_at_its_worst_case(tiny_model: SegmentationModel) -> None:
    members = {"bim": {"name": "bim", "steps": 2}, "cospgd": {"name": "cospgd", "steps": 3}}
    result = gauntlet.evaluate(tiny_model, TinyDataset(3), {"battery": {"name": "own", "members": members}})
    table = strength_over_cost(result.per_image)
    assert table["attack"].tolist() == ["clean", "bim", "cospgd"]
    assert table["passes"].tolist() == [1, 4, 8]
    assert table["passes"].iloc[-1] == result.per_image["forwards"].iloc[0]
    assert table["value"].is_monotonic_decreasing
    assert table["value"].iloc[-1] == pytest.approx(result.per_image.groupby("image_id")["accuracy"].min().mean())


def test_an_evaluation_without_passes_by_attack_is_told_apart() -> None:
    frame = pd.DataFrame(rows("a", 0.9, 0.4, 0.6, (10, 20))).drop(columns="forwards second")
    with pytest.raises(GauntletError, match="whose passes are stored by attack"):
        strength_over_cost(frame)
