"""What is installed is what constraints.txt says: the part of an audit of dependencies that needs no network.

Whether a version has a known weakness is a question to a list on the network (pip-audit); here it is only made sure
that the answer for constraints.txt is the answer for the environment in which everything is tested.
"""

from __future__ import annotations

import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from paths import ROOT

tomllib = pytest.importorskip("tomllib")  # Python 3.11 and later
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MADE_BY_US = any((Path(sys.prefix) / name).exists() for name in (".installed", ".installed-dev"))


def pins() -> dict[str, Requirement]:
    """The pinned packages of this version of Python, by their canonical names."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    every = [Requirement(line) for line in lines if line]
    return {canonicalize_name(each.name): each for each in every if each.marker is None or each.marker.evaluate()}


def direct() -> list[Requirement]:
    """What an installation asks for, without its extras."""
    return [Requirement(each) for each in PROJECT["dependencies"]]


@pytest.mark.skipif(not MADE_BY_US, reason="this environment was not made by make")
def test_what_is_installed_is_what_is_pinned() -> None:
    installed: dict[str, str] = {canonicalize_name(each.metadata["Name"]): each.version for each in distributions()}
    pinned = {name: pin for name, pin in pins().items() if name in installed}
    assert len(pinned) > 15
    assert [str(pin) for name, pin in pinned.items() if not pin.specifier.contains(installed[name])] == []


def test_every_direct_dependency_is_pinned_to_a_version_that_is_allowed() -> None:
    extras = [Requirement(each) for extra in PROJECT["optional-dependencies"].values() for each in extra]
    known = pins()
    assert {canonicalize_name(each.name) for each in direct()} <= set(known)
    for asked in [*direct(), *extras]:
        pin = known.get(canonicalize_name(asked.name))
        if pin is not None:
            (only,) = pin.specifier
            assert only.operator == "=="
            assert asked.specifier.contains(only.version), asked
