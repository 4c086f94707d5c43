"""Names: registering, aliases, suggestions, lazy targets, kinds, plug-ins."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from gauntlet import registry as registry_module
from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.registry import Registry, broken_plugins, callable_as, instance_of, subclass_of

GROUP = "gauntlet.things"
Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Install:
    """A function that declares entry points (name to target) and writes the modules they name (module=code)."""
    points: list[EntryPoint] = []

    def entry_points(group: str) -> list[EntryPoint]:
        return points if group == GROUP else []

    def make(targets: dict[str, str], **modules: str) -> None:
        points.extend(EntryPoint(name, target, GROUP) for name, target in targets.items())
        for module, code in modules.items():
            (tmp_path / f"{module}.py").write_text(code)
            monkeypatch.delitem(sys.modules, module, raising=False)

    monkeypatch.setattr(registry_module, "entry_points", entry_points)
    monkeypatch.syspath_prepend(str(tmp_path))
    return make


@pytest.fixture
def things(monkeypatch: pytest.MonkeyPatch) -> Registry[Any]:
    """A registry that the modules of a test import as `gauntlet.registry.things`."""
    made: Registry[Any] = Registry("thing", GROUP)
    monkeypatch.setattr(registry_module, "things", made, raising=False)
    return made


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
    things.add("later", "math:pi")
    with pytest.raises(GauntletError, match="the thing name 'later' is taken"):
        things.add("later", 2)


def test_other_packages_add_entries(install: Install) -> None:
    install({"pi": "math:pi"})
    things: Registry[float] = Registry("thing", GROUP)
    assert things.names() == ["pi"]
    assert things["pi"] == pytest.approx(3.14159, abs=1e-5)


def test_targets_are_imported_when_they_are_looked_up(install: Install, things: Registry[Any]) -> None:
    install(
        {"plugged": "lazy_plugin:Box.value"},
        lazy_plugin="class Box:\n    value = 5\n",
        lazy_module="value = 7\n",
    )
    things.add("ours", "lazy_module:value", aliases=("our",))
    assert things.names() == ["ours", "plugged"]
    assert "plugged" in things
    assert things.canonical("our") == "ours"
    assert not {"lazy_plugin", "lazy_module"} & set(sys.modules)
    assert things["our"] == 7
    assert "lazy_plugin" not in sys.modules
    assert things["plugged"] == 5
    assert dict(things.items()) == {"ours": 7, "plugged": 5}


def test_a_target_of_ours_that_is_not_there_is_our_error() -> None:
    things: Registry[float] = Registry("thing")
    things.add("gone", "math:gone")
    with pytest.raises(AttributeError, match="gone"):
        things["gone"]


@pytest.mark.parametrize("attribute", [":two", ""])
def test_a_plugin_may_register_itself_as_well(install: Install, things: Registry[Any], attribute: str) -> None:
    """Its module registers both names while the first is looked up; neither clashes, and the aliases work."""
    code = (
        "from gauntlet.registry import things\n"
        "things.add('two', 'math:e', aliases=('zwei',))\n"
        "things.add('three', 3)\n"
        "two = 'not this'\n"
    )
    install({"two": f"own_plugin{attribute}", "zwei": "own_plugin:two", "three": "own_plugin:two"}, own_plugin=code)
    things.add("one", 1)
    assert things["one"] == 1
    assert things["zwei"] == things["two"] == pytest.approx(2.71828, abs=1e-5)
    assert things["three"] == 3
    assert sorted(things.names()) == ["one", "three", "two"]
    assert things.broken_plugins() == []


def test_a_plugin_that_was_imported_first_is_no_clash(install: Install, things: Registry[Any]) -> None:
    install({"two": "early_plugin:two"}, early_plugin="from gauntlet.registry import things\nthings.add('two', 2)\n")
    __import__("early_plugin")
    assert things["two"] == 2
    assert things.broken_plugins() == []


@pytest.mark.parametrize(
    ("target", "code", "reason"),
    [
        ("sick:x", "import not_installed_anywhere", "ModuleNotFoundError: No module named 'not_installed_anywhere'"),
        ("sick:x", "raise RuntimeError('two\\nlines')", "RuntimeError: two"),
        ("sick:x", "raise SystemExit", "SystemExit: no message"),
        ("sick:x", "y = 1", "AttributeError: module 'sick' has no attribute 'x'"),
        ("sick:x", "x =", "SyntaxError: invalid syntax (sick.py, line 1)"),
        ("sick:x", "x = 'text'", "the thing 'bad' must be a number, but it is of the type str"),
        ("sick:x", "class x: pass", "the thing 'bad' must be a number, but it is the class x"),
        ("sick", "", "the thing 'bad' must be a number, but it is of the type module"),
    ],
)
def test_a_broken_plugin_is_named_and_takes_no_other_down(
    install: Install, target: str, code: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    install({"bad": target, "pi": "math:pi"}, sick=code)
    things: Registry[float] = Registry("thing", GROUP, check=instance_of(float, "a number"))
    things.add("one", 1.0)
    sentence = f"the thing 'bad' of the package 'sick' cannot be used: {reason}; update or uninstall that package."
    for _ in range(2):
        with pytest.raises(GauntletError) as caught:
            things["bad"]
        assert str(caught.value) == sentence
    assert things["one"] == 1
    with caplog.at_level(logging.WARNING):
        assert [name for name, _ in things.items()] == ["one", "pi"]
    assert caplog.messages == [sentence]
    assert things.names() == ["one", "bad", "pi"]
    assert [str(each) for each in things.broken_plugins()] == [sentence]
    assert things.broken_plugins()[0] in broken_plugins()


def test_a_plugin_under_a_name_that_is_taken_is_listed_and_does_not_win(install: Install) -> None:
    install({"one": "late_plugin:one", "uno": "late_plugin:one", "two": "math:pi"}, late_plugin="one = 7")
    things: Registry[float] = Registry("thing", GROUP)
    things.add("one", 1, aliases=("uno",))
    assert things["one"] == things["uno"] == 1
    assert [(each.name, each.package, each.reason) for each in things.broken_plugins()] == [
        ("one", "late_plugin", "its name is taken already"),
        ("uno", "late_plugin", "its name is taken already"),
    ]


def test_the_kind_is_checked_when_something_is_registered() -> None:
    classes: Registry[type[int]] = Registry("number", check=subclass_of(int))
    classes.add("bool", bool)
    with pytest.raises(GauntletError, match=r"'one' must be a class derived from int, but it is of the type int\."):
        classes.add("one", 1)
    functions: Registry[Callable[..., int]] = Registry("function", check=callable_as("a function of nothing"))
    with pytest.raises(GauntletError, match="the function 'one' must be a function of nothing"):
        functions.register("one")(1)
    assert functions.names() == []


def test_what_is_given_can_be_wrapped() -> None:
    things: Registry[list[Any]] = Registry(
        "thing", check=instance_of(list), wrap=lambda name, entry: [name, entry()] if callable(entry) else entry
    )

    @things.register("made")
    def made() -> int:
        return 3

    assert made() == 3
    assert things["made"] == ["made", 3]
    with pytest.raises(GauntletError, match="must be an object of the class list, but it is of the type int"):
        things.add("one", 1)


def test_threads_that_look_up_one_name_get_one_entry(install: Install) -> None:
    """A module that is slow to import, and registers itself, while eight threads ask for it."""
    code = "import time; time.sleep(0.1)\nfrom gauntlet.registry import things\nthings.add('other', 2)\n"
    install({"slow": "slow_plugin:make"}, slow_plugin=code + "def make(): pass\n")
    things: Registry[list[Any]] = Registry("thing", GROUP, wrap=lambda name, entry: [entry])
    registry_module.things = things  # type: ignore[attr-defined]
    seen: list[list[Any]] = []
    threads = [threading.Thread(target=lambda: seen.append(things["slow"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    del registry_module.things  # type: ignore[attr-defined]
    assert len(seen) == 8
    assert all(each is seen[0] for each in seen)
    assert things["other"] == [2]
