"""Pages of the documentation are what the stores in evidence/ say."""

from __future__ import annotations

import re
import shlex
import sqlite3
from pathlib import Path

import pytest

import evidence
from paths import ROOT
from program import Call

PAGES = re.findall(
    r"`(?:docs/studies/)?([a-z0-9-]+)\.md`", (ROOT / "evidence" / "README.md").read_text(encoding="utf-8")
)


def figures_of(page: str) -> str:
    """A page without its command and its date."""
    return re.sub(r"^(gauntlet study run|Made with Gauntlet) .*", "", page, flags=re.MULTILINE)


def count(store: Path) -> int:
    return int(sqlite3.connect(store).execute("SELECT count(*) FROM evaluations").fetchone()[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", [each for each in PAGES if (ROOT / "docs" / "studies" / f"{each}.md").is_file()])
def test_a_page_is_what_its_store_says_and_nothing_is_computed(name: str, tmp_path: Path, call: Call) -> None:
    (store,) = evidence.unpack(tmp_path, "studies")
    before = count(store)
    page = (ROOT / "docs" / "studies" / f"{name}.md").read_text(encoding="utf-8")
    command = re.search(r"^gauntlet (study run .*)", page, re.MULTILINE)
    assert command is not None
    words = shlex.split(command[1])
    words[words.index("--output") + 1] = str(tmp_path / "pages")
    code, _, err = call(*words, "--store", str(store))
    assert code == 0, err
    assert count(store) == before
    assert figures_of((tmp_path / "pages" / f"{name}.md").read_text(encoding="utf-8")) == figures_of(page)


def test_a_store_comes_back_as_it_was_and_is_never_overwritten(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "own.db") as made:
        made.execute("CREATE TABLE evaluations (id INTEGER)")
        made.executemany("INSERT INTO evaluations VALUES (?)", [(1,), (7,)])
    packed = tmp_path / "packed"
    packed.mkdir()
    assert evidence.pack(tmp_path / "own.db", "kept", packed) == packed / "kept.db.xz"
    (store,) = evidence.unpack(tmp_path / "out", source=packed)
    assert [row[0] for row in sqlite3.connect(store).execute("SELECT id FROM evaluations")] == [1, 7]
    with pytest.raises(SystemExit, match=r"kept\.db exists"):
        evidence.unpack(tmp_path / "out", source=packed)
