"""The page about the rooms: every path that it names exists, and so does every room."""

from __future__ import annotations

import re

from paths import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_every_path_exists() -> None:
    paths = re.findall(r"`(src/gauntlet/[^`]+)`", PAGE)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []
    pictures = re.findall(r"\]\((images/[^)]+)\)", PAGE)
    assert pictures
    assert [picture for picture in pictures if not (ROOT / "docs" / picture).exists()] == []


def test_the_way_to_the_stored_figure_has_twelve_files() -> None:
    assert re.findall(r"^(\d+)\. `src/gauntlet/", PAGE, re.MULTILINE) == [str(place) for place in range(1, 13)]


def test_every_package_is_named() -> None:
    source = ROOT / "src"
    packages = {str(path.parent.relative_to(source)) for path in source.glob("gauntlet/*/**/__init__.py")}
    assert {"gauntlet/report", "gauntlet/threats/compat/detecbench"} <= packages
    assert [package for package in sorted(packages) if f"`src/{package}" not in PAGE] == []


def test_the_entrances_lead_there() -> None:
    for page, link in (("docs/index.md", "(architecture.md)"), ("README.md", "(docs/architecture.md)")):
        assert link in (ROOT / page).read_text()
    assert "(docs/architecture.md)" in (ROOT / "CONTRIBUTING.md").read_text()
