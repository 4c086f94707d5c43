"""The lowest versions that are declared are those that constraints-min.txt installs and tests."""

from __future__ import annotations

import re

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from paths import ROOT

UNTRIED = {"torch"}
"""Of these no build of the declared minimum can be had without gigabytes; constraints-min.txt says so."""


def declared() -> dict[str, Requirement]:
    """The dependencies of an installation without extras."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    every = [Requirement(line) for line in re.findall(r'^  "([^"]+)"', found[1], re.MULTILINE)]
    return {canonicalize_name(each.name): each for each in every}


def minimums() -> dict[str, Version]:
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints-min.txt").read_text().splitlines()]
    return {canonicalize_name(line.split("==")[0]): Version(line.split("==")[1]) for line in lines if line}


def test_every_minimum_is_tested() -> None:
    tested = minimums()
    assert len(declared()) > 10
    for name, asked in declared().items():
        (lowest,) = [Version(each.version) for each in asked.specifier if each.operator == ">="]
        assert asked.specifier.contains(tested[name])
        if name not in UNTRIED:
            assert tested[name].release[: len(lowest.release)] == lowest.release, name


def test_what_computes_figures_is_bounded_above() -> None:
    bounded = {name for name, asked in declared().items() if any(each.operator == "<" for each in asked.specifier)}
    assert bounded == {"torch", "numpy", "scipy", "opencv-python-headless"}
