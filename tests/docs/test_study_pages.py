"""Pages of studies name the command that makes them, as it can be copied, and claim what the studies claim today."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gauntlet.studies import Study, studies
from paths import ROOT

PAGES = sorted((ROOT / "docs" / "studies").rglob("*.md"), key=lambda path: path.as_posix())
CLAIMING = [page for page in PAGES if "**Claims**" in page.read_text(encoding="utf-8")]


def name_of(page: Path) -> str:
    return f"{page.parent.name}-{page.stem}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_the_command_of_its_study_as_code(page: Path) -> None:
    (line,) = re.findall(r"^    gauntlet (study run .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert "\\" not in line
    name, *rest = shlex.split(line)[2:]
    assert name in studies
    assert rest[rest.index("--output") + 1] == page.parent.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", CLAIMING, ids=name_of)
def test_a_page_claims_what_its_study_claims_and_gives_its_rules(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\", "")
    study = studies[re.findall(r"^    gauntlet study run (\S+)", text, re.MULTILINE)[0]]
    assert isinstance(study, Study)
    rows = re.search(r"\*\*Claims\*\*\n\n.*\n.*\n((?:\|.*\n)+)", text)
    assert rows is not None
    claimed = {row[2:].partition(" | ")[0] for row in rows[1].splitlines()}
    known = {claim.text: claim for claim in study.claims}
    assert claimed <= known.keys()
    for each in claimed:
        assert [needed.rule for needed in known[each].conditions if needed.rule not in text] == []
