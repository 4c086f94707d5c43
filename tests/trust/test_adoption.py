"""Results of 0.1.0 are found and marked; `gauntlet store adopt` runs a sample again and records data and code."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gauntlet
from gauntlet.cli import commands  # noqa: F401 - registers the commands
from gauntlet.cli.app import app
from gauntlet.datasets import load_dataset
from gauntlet.evaluation.adoption import adopt
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.plan import plan_jobs, read_plan
from gauntlet.results import open_store
from paths import TESTS

DATA = TESTS / "data"
PLAN = DATA / "plan-0.1.0.yaml"


class Noting(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note_once(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress((DATA / "store-0.1.0.db.gz").read_bytes()))
    return path


def test_old_results_are_found_and_marked(old_store: Path) -> None:
    with open_store(old_store) as store:
        progress = Noting()
        outcome = run_jobs(plan_jobs(read_plan(PLAN), "cpu"), store, progress=progress)
        assert outcome.computed == []
        assert any("data and code not recorded; 'gauntlet store adopt'" in note for note in progress.notes)
        assert set(store.frame()["contents"]) == {""}
        assert set(store.frame()["threat_version"]) == {0}


def test_old_results_are_marked_from_python_too(old_store: Path) -> None:
    progress = Noting()
    data = load_dataset("streets", split="val", limit=2)
    found = gauntlet.evaluate("streets/enet", data, store=old_store, device="cpu", progress=progress)
    assert found.from_store
    assert any("data and code not recorded" in note for note in progress.notes)


@pytest.mark.slow
def test_old_results_are_adopted_by_a_sample(old_store: Path) -> None:
    with open_store(old_store) as store:
        before = {key: store.load(key) for key in store.keys()}  # noqa: SIM118 - a store is no mapping
    outcome = CliRunner().invoke(app, ["store", "adopt", "--store", str(old_store), "--images", "2"])
    assert outcome.exit_code == 0, outcome.output
    with open_store(old_store) as store:
        jobs = plan_jobs(read_plan(PLAN), "cpu")
        known = [store.load(planned.job.key) for planned in jobs]
        for planned, found in zip(jobs, known, strict=True):
            old = before[planned.job.unrecorded.key]
            assert found is not None
            assert old is not None
            assert found.figures == old.figures
            assert found.contents == planned.job.dataset["contents"]
            assert found.provenance["adopted"]["images"] >= 2
        assert run_jobs(jobs, store).computed == []
        assert store.damage() == {}


@pytest.mark.slow
def test_counts_that_are_not_the_same_again_are_not_adopted(old_store: Path) -> None:
    """The counts of a stored clean evaluation are exchanged between two images: the sample finds it."""
    with sqlite3.connect(old_store) as connection:
        connection.execute(
            "UPDATE image_counts SET counts = (SELECT o.counts FROM image_counts AS o WHERE o.evaluation_id = "
            "image_counts.evaluation_id AND o.position = 1 - image_counts.position) WHERE position < 2"
        )
    with open_store(old_store) as store:
        known = store.count()
        found = list(adopt(store, Silent(), images=2))
        assert all(not each.adopted for each in found)
        assert all("has other counts now" in reason for each in found for reason in each.left.values())
        assert store.unrecorded() == known
