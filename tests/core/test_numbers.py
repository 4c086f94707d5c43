"""Numbers as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauntlet.errors import GauntletError
from gauntlet.numbers import format_duration, format_number, parse_fraction, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [("8/255", 8 / 255), ("0.5/255", 0.5 / 255), (" 3 / 4 ", 0.75), ("1e-3", 1e-3), (2, 2.0), (0.1, 0.1)],
)
def test_numbers_are_understood(text: object, value: float) -> None:
    assert parse_number(text) == value  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["eight", "8/0", "", "1/2/3", True, float("nan"), float("inf"), "nan"])
def test_anything_else_is_one_sentence_that_names_the_option(text: object) -> None:
    with pytest.raises(GauntletError, match=r"^epsilon must be .*\.$"):
        parse_number(text, "epsilon")  # type: ignore[arg-type]


def test_bounds_are_said() -> None:
    assert parse_fraction("1", "ratio") == 1
    with pytest.raises(GauntletError, match=r"ratio must lie in \[0, 1\], not 1.5"):
        parse_fraction(1.5, "ratio")


@given(st.integers(0, 255))
def test_whole_grey_levels_survive_formatting(level: int) -> None:
    assert parse_number(format_number(level / 255)) == pytest.approx(level / 255, abs=1e-15)


def test_other_values_are_plain() -> None:
    assert format_number(8 / 255) == "8/255"
    assert format_number(0.01) == "0.01"
    assert format_number(0.5 / 255) == "0.5/255"
    assert format_number(0.2) == "0.2"
    assert format_number(3.0) == "3"
    assert format_number(0) == "0"


def test_durations_are_said_as_far_as_they_matter() -> None:
    assert [format_duration(seconds) for seconds in (7.4, 75, 7325)] == ["7 s", "1 min 15 s", "2 h 2 min"]
    assert format_duration(float("nan")) == "an unknown time"
