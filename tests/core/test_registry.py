"""Names: registering, aliases, suggestions, plug-ins."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from gauntlet import registry as registry_module
from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.registry import Registry


def test_names_and_aliases() -> None:
    things: Registry[int] = Registry("thing")
    things.add("one", 1, aliases=("uno",))
    things.add("two", 2)
    assert things["uno"] == things["one"] == 1
    assert things.canonical("uno") == "one"
    assert things.names() == ["one", "two"]
    assert "uno" in things
    assert "three" not in things


def test_a_near_miss_gets_a_suggestion_and_a_far_one_the_list() -> None:
    things: Registry[int] = Registry("attack")
    things.add("segpgd", 1)
    things.add("cospgd", 2)
    with pytest.raises(UnknownNameError, match="unknown attack 'segpdg'; did you mean 'segpgd'"):
        things["segpdg"]
    with pytest.raises(UnknownNameError, match="known: cospgd, segpgd"):
        things["xyz"]


def test_a_name_can_be_taken_once() -> None:
    things: Registry[int] = Registry("thing")
    things.add("one", 1, aliases=("uno",))
    with pytest.raises(GauntletError, match="the thing name 'uno' is taken"):
        things.add("uno", 2)


def test_other_packages_add_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("pi", "math:pi", "gauntlet.things")
    monkeypatch.setattr(registry_module, "entry_points", lambda group: [point] if group == "gauntlet.things" else [])
    things: Registry[float] = Registry("thing", "gauntlet.things")
    assert things.names() == ["pi"]
    assert things["pi"] == pytest.approx(3.14159, abs=1e-5)
