"""Pages of studies name the command that makes them, as it can be copied."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gauntlet.studies import studies
from paths import ROOT

PAGES = sorted((ROOT / "docs" / "studies").rglob("*.md"), key=lambda path: path.as_posix())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_page_has_the_command_of_its_study_as_code(page: Path) -> None:
    (line,) = re.findall(r"^    gauntlet (study run .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert "\\" not in line
    name, *rest = shlex.split(line)[2:]
    assert name in studies
    assert rest[rest.index("--output") + 1] == page.parent.relative_to(ROOT).as_posix()
