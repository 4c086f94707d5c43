"""A store notices damage: no edit and no flipped byte changes a figure in silence, and none ends in a traceback."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import gauntlet
from gauntlet.cli import commands  # noqa: F401 - registers the commands
from gauntlet.cli.app import app
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.execution.session import begin_session
from gauntlet.evaluation.execution.units import Unit
from gauntlet.evaluation.jobs import PlannedJob, Settings, plan_job
from gauntlet.metrics import WHOLE
from gauntlet.models import wrap_model
from gauntlet.results import open_store
from gauntlet.results.checking import check_store
from gauntlet.threats import build_threat
from tiny import TinyDataset, tiny_network

THREATS: list[Any] = ["clean", {"attack": {"name": "fgsm", "epsilon": "8/255"}}]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two evaluations of four images."""
    path = tmp_path_factory.mktemp("store") / "results.db"
    model = wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="tiny-net")
    with open_store(path) as store:
        for threat in THREATS:
            gauntlet.evaluate(model, TinyDataset(4), threat, store=store)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
    return path


@pytest.fixture
def store_file(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written, tmp_path / "results.db"))


def figures(path: Path) -> dict[str, object]:
    """What is read of every evaluation: its record, its figures and its counts; a text where there is an error."""
    seen: dict[str, object] = {}
    with open_store(path, read_only=True) as store:
        for key in store.keys():  # noqa: SIM118 - a store is no mapping
            try:
                found = store.load(key)
                if found is None:  # an index of the database is damaged
                    raise GauntletError("it is gone.")
                rows = [(row.image_id, row.counts, row.details, row.digest) for row in store.counts_of(key)]
                seen[key] = (repr({**found.as_dict(), "from_store": True}), rows)
            except GauntletError as error:  # noqa: PERF203 - one damaged evaluation hides no other
                seen[key] = error
    return seen


EDITS = {
    "every mIoU is 0.99": "UPDATE figures SET value = 0.99 WHERE metric = 'mIoU'",
    "an interval is narrower": "UPDATE figures SET low = value, high = value WHERE low IS NOT NULL OR metric = 'mIoU'",
    "counts are gone": "DELETE FROM image_counts WHERE position = 1",
    "a figure is gone": "DELETE FROM figures WHERE metric = 'mAcc'",
    "counts of two images are swapped": "UPDATE image_counts SET counts = (SELECT o.counts FROM image_counts AS o"
    " WHERE o.evaluation_id = image_counts.evaluation_id AND o.position = 3 - image_counts.position)",
    "an image has another name": "UPDATE image_counts SET image_id = 'other' WHERE position = 2",
    "the threat has another version": "UPDATE evaluations SET threat_version = 99",
    "it is of other data": "UPDATE evaluations SET dataset_identity = replace(dataset_identity, 'val', 'test')",
    "its checksum is gone": "UPDATE evaluations SET checksum = NULL",
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_is_found_by_check(store_file: Path, edit: str) -> None:
    before = figures(store_file)
    with sqlite3.connect(store_file) as connection:
        connection.execute(edit)
    with open_store(store_file, read_only=True) as store:
        problems = [each for each in check_store(store) if each is not None]
    assert {each.key for each in problems} == set(before)
    outcome = CliRunner().invoke(app, ["store", "check", "--store", str(store_file)])
    assert outcome.exit_code == 1
    assert "2 damaged" in outcome.output


def test_figures_that_were_edited_are_in_no_table(store_file: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(store_file, read_only=True) as store:
        whole = store.frame()
    key = whole.loc[whole["threat"].eq("clean"), "key"].iloc[0]
    with sqlite3.connect(store_file) as connection:
        connection.execute(
            "UPDATE figures SET value = 0.99 WHERE metric = 'mIoU' AND evaluation_id = "
            "(SELECT id FROM evaluations WHERE key = ?)",
            (key,),
        )
    with open_store(store_file, read_only=True) as store:
        rest = store.frame()
        with pytest.raises(GauntletError, match=f"the evaluation {key} .* is damaged"):
            store.load(key)
    assert set(rest["key"]) == set(whole["key"]) - {key}
    assert f"the evaluation {key}" in caplog.text


def test_damaged_counts_name_the_image(store_file: Path) -> None:
    with sqlite3.connect(store_file) as connection:
        connection.execute("UPDATE image_counts SET counts = substr(counts, 2) || x'00' WHERE position = 2")
    with open_store(store_file, read_only=True) as store:
        key = store.keys()[0]
        with pytest.raises(GauntletError, match="the counts of the image 'tiny/2' do not fit their checksum"):
            store.recompute(key)


def test_a_damaged_result_is_computed_anew_with_again(store_file: Path) -> None:
    model = wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="tiny-net")
    with open_store(store_file) as store:
        before = gauntlet.evaluate(model, TinyDataset(4), store=store)
    with sqlite3.connect(store_file) as connection:
        connection.execute("UPDATE figures SET value = 0.99 WHERE metric = 'mIoU'")
    with open_store(store_file) as store:
        with pytest.raises(GauntletError, match="is damaged"):
            gauntlet.evaluate(model, TinyDataset(4), store=store)
        again = gauntlet.evaluate(model, TinyDataset(4), store=store, retrieve_existing=False)
        assert again.figures == before.figures
        stored = store.load(again.key)
    assert stored is not None
    assert stored.figures == before.figures


def test_recompute_finds_figures_that_are_not_those_of_the_counts(store_file: Path) -> None:
    """Whoever writes figures and their checksum is found by the counts."""
    from gauntlet.results import schema
    from gauntlet.results.checksums import seal

    with open_store(store_file) as store:
        with store._database.write() as connection:
            connection.execute(schema.figures.update().where(schema.figures.c.metric == "mIoU").values(value=0.99))
            for number in (1, 2):
                seal(connection, number)
        assert not any(check_store(store))
        problems = [each.what for each in check_store(store, recompute=True) if each is not None]
    assert problems == ["its figures are not those of its counts."] * 2


COLUMNS = {
    "evaluations": (
        *("key", "task", "model", "model_digest", "dataset", "split", "dataset_identity", "threat", "kind"),
        *("description", "seed", "images", "batch_size", "views", "metric", "created", "duration", "provenance"),
        *("threat_version", "metric_version", "code", "family", "rows_checksum", "checksum"),
    ),
    "figures": ("evaluation_id", "view", "metric", "class_name", "position", "value", "low", "high"),
    "image_counts": ("evaluation_id", "position", "image_id", "counts", "details", "digest", "checksum"),
}
"""What a figure rests on. `state` is left out: an evaluation that is not complete is not shown."""


def edit_at_random(draws: random.Random, connection: sqlite3.Connection) -> bool:
    """One cell of a store changed: a flipped byte, another value of the column, a number, or nothing at all.

    False where the cell is what it was.
    """
    table = draws.choice(list(COLUMNS))
    column = draws.choice(COLUMNS[table])
    rows = connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
    row, value = draws.choice(rows)
    kind = draws.choice(["flip", "flip", "other", "number", "null", "delete"])
    if kind == "delete" and table != "evaluations":
        connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
        return True
    new: object = None
    if kind == "flip" and isinstance(value, (str, bytes)) and value:
        whole = bytearray(value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape"))
        whole[draws.randrange(len(whole))] ^= 1 << draws.randrange(8)
        new = bytes(whole) if isinstance(value, bytes) else bytes(whole).decode("utf-8", "surrogateescape")
        if isinstance(new, str) and not new.isprintable():
            return False
    elif kind == "other":
        new = draws.choice(rows)[1]
    elif kind == "number":
        new = draws.choice([0, 1, -1, 0.5, 2**40])
    if new == value and type(new) is type(value):
        return False
    try:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, row))
    except (sqlite3.IntegrityError, UnicodeEncodeError):
        return False
    return True


def silent_changes(path: Path, folder: Path, edits: int, seed: int) -> Iterator[str]:
    """Random edits, one at a time, after which something other than the truth is read without an error."""
    before, draws, made = figures(path), random.Random(seed), 0
    whole = path.read_bytes()
    copy = folder / "edited.db"
    while made < edits:
        copy.write_bytes(whole)
        connection = sqlite3.connect(copy)
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        changed = edit_at_random(draws, connection)
        connection.commit()
        connection.close()
        if not changed:
            continue
        made += 1
        after = figures(copy)
        for key, seen in after.items():
            if not isinstance(seen, GauntletError) and seen != before.get(key):
                yield f"edit {made} of seed {seed}: {key}"


def test_random_edits_change_nothing_in_silence(store_file: Path, tmp_path: Path) -> None:
    assert list(silent_changes(store_file, tmp_path, 100, seed=1)) == []


@pytest.mark.slow
def test_ten_thousand_random_edits_change_nothing_in_silence(store_file: Path, tmp_path: Path) -> None:
    assert list(silent_changes(store_file, tmp_path, 10_000, seed=2)) == []


def flipped(path: Path, draws: random.Random) -> None:
    whole = bytearray(path.read_bytes())
    whole[draws.randrange(len(whole))] ^= 1 << draws.randrange(8)
    path.write_bytes(bytes(whole))


@pytest.mark.parametrize("read", [figures, lambda path: open_store(path, read_only=True).frame()])
def test_a_flipped_byte_of_the_file_is_one_sentence(
    store_file: Path, tmp_path: Path, read: Callable[[Path], object]
) -> None:
    """Flips anywhere in the file, also in SQLite's own pages: the truth, or an error of ours; never another figure."""
    before, draws = figures(store_file), random.Random(3)
    for _ in range(150):
        copy = Path(shutil.copy(store_file, tmp_path / "flipped.db"))
        flipped(copy, draws)
        try:
            after = read(copy)
        except GauntletError:
            continue
        if isinstance(after, dict):
            assert all(isinstance(seen, GauntletError) or seen == before.get(key) for key, seen in after.items())


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM image_counts WHERE evaluation_id = 1 AND position = 1",
        "UPDATE image_counts SET counts = substr(counts, 2) || x'00' WHERE evaluation_id = 1",
    ],
)
@pytest.mark.parametrize(
    "command", [["leaderboard"], ["report", "--output", "report.html"]], ids=["leaderboard", "report"]
)
def test_tables_are_made_without_damaged_counts(
    store_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: str, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect(store_file) as connection:
        connection.execute(edit)
    outcome = CliRunner().invoke(app, [*command, "--store", str(store_file)])
    assert outcome.exit_code == 0, outcome.output


def planned(threats: list[Any], images: int = 4) -> list[PlannedJob]:
    model = wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="tiny-net")
    return [plan_job(model, TinyDataset(images), build_threat(threat), Settings()) for threat in threats]


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE evaluations SET provenance = '{\"probe\": ' WHERE id = 1",
        "UPDATE evaluations SET metric = 'no JSON' WHERE id = 1",
        "UPDATE evaluations SET description = '{}' WHERE id = 1",
        "UPDATE evaluations SET views = '[' WHERE id = 1",
        "UPDATE figures SET value = 0.99 WHERE evaluation_id = 1",
        "UPDATE evaluations SET model = 'another' WHERE id = 1",
    ],
)
def test_a_damaged_evaluation_stops_no_other(store_file: Path, edit: str) -> None:
    with sqlite3.connect(store_file) as connection:
        connection.execute(edit)
    jobs = planned([*THREATS, {"attack": {"name": "fgsm", "epsilon": "4/255"}}])
    with open_store(store_file) as store:
        outcome = run_jobs(jobs, store)
        assert [each.key for each in outcome.computed] == [jobs[2].job.key]
        assert outcome.stored == [jobs[1].job.key]
        assert [each.planned.job.key for each in outcome.failures] == [jobs[0].job.key]
        assert "damaged" in outcome.failures[0].error


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE image_counts SET counts = substr(counts, 2) || x'00' WHERE position = 2",
        "UPDATE image_counts SET checksum = NULL, counts = substr(counts, 2) || x'00' WHERE position = 2",
        'UPDATE evaluations SET views = \'["b", "a"]\'',
        "UPDATE evaluations SET batch_size = 3",
    ],
)
def test_counts_of_a_damaged_evaluation_are_not_taken_over(store_file: Path, edit: str) -> None:
    true = gauntlet.evaluate(planned(["clean"])[0].model, TinyDataset(3))
    with sqlite3.connect(store_file) as connection:
        connection.execute(edit)
    with open_store(store_file) as store:
        (found,) = run_jobs(planned(["clean"], images=3), store).computed
    assert "counts_from" not in found.provenance
    assert found.figures == true.figures


def test_a_driver_that_comes_late_damages_nothing(tmp_path: Path) -> None:
    """One that lost its claim while its machine slept still delivers, after another has finished the evaluation."""
    (job,) = planned(["clean"])
    with open_store(tmp_path / "results.db") as store:
        late = begin_session(store, job, torch.device("cpu"))
        run_jobs([job], store)
        before = store.load(job.job.key)
        rows = list(store.counts_of(job.job.key))
        late.note_host("a sleeper", {"torch": "1"})
        late.keep_preparation(())
        late.commit(Unit(0, 4), rows, WHOLE, 60.0)
        assert store.damage() == {}
        late.finish()
        assert store.damage() == {}
        assert store.load(job.job.key) == before
