"""Pages of the documentation are what the stores in evidence/ say."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import evidence
import lean_battery
from gauntlet.results import open_store
from paths import ROOT, SHARED
from program import Call

README = (ROOT / "evidence" / "README.md").read_text(encoding="utf-8")
PAGES = [
    (store, page)
    for store, pages in re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", README, re.MULTILINE)
    for page in re.findall(r"`(docs/[a-z0-9/-]+\.md)`", pages)
]
GIVEN = {word: SHARED / "realdata" / word.lower() for word in ("CAMVID", "CHECKPOINTS")}
"""What pages name in place of a user's own folders."""
DRAWN = ("camvid/public-networks",)
"""Pages with pictures, which take minutes of attacking."""
SCRIPTED = "docs/lean-battery.md"
"""Written by a script and from several stores."""


def figures_of(page: str) -> str:
    """A page without its command and its date."""
    return re.sub(r"^ *(gauntlet study run|Made with Gauntlet) .*", "", page, flags=re.MULTILINE)


def count(store: Path) -> int:
    with closing(sqlite3.connect(store)) as opened:
        return int(opened.execute("SELECT count(*) FROM evaluations").fetchone()[0])


def test_every_store_is_behind_a_page() -> None:
    assert {store for store, _ in PAGES} == {each.name.removesuffix(evidence.ENDING) for each in evidence.stores()}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "page"), [(store, page) for store, page in PAGES if page != SCRIPTED])
def test_a_page_is_what_its_store_says_and_nothing_is_computed(
    name: str, page: str, tmp_path: Path, call: Call
) -> None:
    (store,) = evidence.unpack(tmp_path, name)
    before = count(store)
    written = (ROOT / page).read_text(encoding="utf-8")
    command = re.search(r"^    gauntlet (study run .*)$", written, re.MULTILINE)
    assert command is not None
    named = shlex.split(command[1])
    if not all(GIVEN[word].exists() for word in named if word in GIVEN):
        pytest.skip("the photographs are not here")
    words = [str(GIVEN.get(word, word)) for word in named]
    words[words.index("--output") + 1] = str(tmp_path / "pages")
    code, out, err = call(*words, "--store", str(store), "--dry-run")
    planned = re.search(r"(\d+) evaluations, (\d+|all) of them stored", " ".join(out.split()))
    assert planned is not None, out + err
    assert planned[2] in (planned[1], "all"), "a key has changed, and the page would be computed anew"
    if words[2] in DRAWN:
        return
    code, _, err = call(*words, "--store", str(store))
    assert code == 0, err
    assert count(store) == before
    assert figures_of((tmp_path / "pages" / Path(page).name).read_text(encoding="utf-8")) == figures_of(written)


@pytest.mark.slow
def test_the_page_of_the_lean_battery_is_what_its_stores_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = (ROOT / SCRIPTED).read_text(encoding="utf-8")
    (command,) = re.findall(r"^    python (scripts/lean_battery.py .*)$", written, re.MULTILINE)
    words = shlex.split(command.replace("stores/", f"{tmp_path}/"))
    unpacked = {str(store) for name, page in PAGES if page == SCRIPTED for store in evidence.unpack(tmp_path, name)}
    assert {word for word in words if word.endswith(".db")} == unpacked
    monkeypatch.setattr("sys.argv", [*words, "--output", str(tmp_path)])
    lean_battery.main()
    assert (tmp_path / Path(SCRIPTED).name).read_text(encoding="utf-8") == written


def test_a_store_comes_back_as_it_was_and_is_never_overwritten(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "own.db") as made:
        made.execute("CREATE TABLE evaluations (id INTEGER)")
        made.executemany("INSERT INTO evaluations VALUES (?)", [(1,), (7,)])
        made.execute("CREATE TABLE runs (host TEXT)")
        made.execute("CREATE TABLE claims (owner TEXT)")
        made.execute("INSERT INTO runs VALUES ('mine')")
    packed = tmp_path / "packed"
    packed.mkdir()
    assert evidence.pack(tmp_path / "own.db", "kept", packed) == packed / "kept.db.xz"
    (store,) = evidence.unpack(tmp_path / "out", source=packed)
    assert count(store) == 2
    with closing(sqlite3.connect(store)) as opened:
        assert opened.execute("SELECT * FROM runs").fetchall() == []
    shutil.copy(packed / "kept.db.xz", packed / "another.db.xz")
    with pytest.raises(SystemExit, match=r"kept\.db exists"):
        evidence.unpack(tmp_path / "out", source=packed)
    assert not (tmp_path / "out" / "another.db").exists()


@pytest.mark.slow
def test_an_adopted_store_knows_its_data_and_code(tmp_path: Path, call: Call) -> None:
    """What a sample proved is found by keys with contents and code; the page still computes nothing."""
    (store,) = evidence.unpack(tmp_path, "halmosi")
    assert evidence.record(store) == 6
    with open_store(store, read_only=True) as opened:
        assert opened.unrecorded() == 0
        assert opened.damage() == {}
        assert "" not in set(opened.frame()["contents"])
    words = ["--model", "streets/enet-at", "--dataset", "streets", "--split", "val", "--limit", "16"]
    study = ["study", "run", "halmosi/figure-1", *words, "--output", str(tmp_path)]
    _, out, _ = call(*study, "--store", str(store), "--dry-run")
    planned = re.search(r"(\d+) evaluations, (\d+|all) of them stored", " ".join(out.split()))
    assert planned is not None
    assert planned[2] in (planned[1], "all")


def test_an_empty_store_is_not_kept(tmp_path: Path) -> None:
    open_store(tmp_path / "a#1.db").close()
    with pytest.raises(SystemExit, match=r"a#1\.db has no evaluations"):
        evidence.pack(tmp_path / "a#1.db", "empty", tmp_path)
