"""Many evaluations: skipping, failing, being killed, going on."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gauntlet.errors import GauntletError
from gauntlet.evaluation import jobs as evaluation_jobs
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.plan import Plan, open_dataset, parse_plan, plan_jobs, plan_schema, read_plan
from gauntlet.results import Store, open_store
from gauntlet.results.claims import is_alive
from gauntlet.samples import collate
from paths import TESTS
from subprocesses import environment

SMALL = {"name": "streets", "options": {"size": [32, 64], "length": 10}}


def content(*threats: object, network: str = "street_network", images: int = 10) -> dict[str, object]:
    model = {"address": f"python:nets:{network}", "options": {"num_classes": 11, "ignore_index": 11}}
    data = {"name": "streets", "options": {"size": [32, 64], "length": images}}
    return {"models": [model], "datasets": [data], "threats": list(threats), "batch_size": 2}


PGD = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 4}}


def counts(store: Store) -> dict[tuple[str, int], bytes]:
    """The stored bytes of every image of every evaluation."""
    actual = {}
    for key in list(store.keys()):
        started = store.started(key)
        assert started is not None
        actual.update({(key, row.position): row.counts for row in store.image_rows(started)})
    return actual


def test_a_plan_is_every_combination_once() -> None:
    plan = parse_plan(content("clean", {"corruption": {"name": ["fog", "snow"], "severity": "1..3"}}, "clean"))
    jobs = plan_jobs(plan)
    assert [planned.job.threat for planned in jobs] == [
        "clean",
        "fog 1",
        "fog 2",
        "fog 3",
        "snow 1",
        "snow 2",
        "snow 3",
    ]
    assert len({planned.job.key for planned in jobs}) == 7


def test_what_is_stored_is_not_computed_again() -> None:
    plan, store = parse_plan(content("clean", PGD)), Store()
    first = run_jobs(plan_jobs(plan), store)
    second = run_jobs(plan_jobs(plan), store)
    assert (len(first.computed), len(first.stored)) == (2, 0)
    assert (len(second.computed), len(second.stored)) == (0, 2)
    more = run_jobs(plan_jobs(parse_plan(content("clean", PGD, "fog"))), store)
    assert (len(more.computed), len(more.stored)) == (1, 2)
    again = run_jobs(plan_jobs(plan), store, again=True)
    assert (len(again.computed), len(again.stored)) == (2, 0)


def test_a_job_is_made_once_and_the_store_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, store = parse_plan(content("clean", "fog", images=4)), Store()
    run_jobs(plan_jobs(parse_plan(content("clean", images=4))), store)
    jobs = plan_jobs(plan)
    asked: list[str] = []
    for name in ("states", "load", "started"):
        usual = getattr(Store, name)

        def ask(*given: Any, name: str = name, usual: Callable[..., Any] = usual) -> Any:
            asked.append(name)
            return usual(*given)

        monkeypatch.setattr(Store, name, ask)
    monkeypatch.setattr(evaluation_jobs, "make_job", lambda *_: pytest.fail("the job was made in the plan"))
    outcome = run_jobs(jobs, store)
    assert (len(outcome.computed), len(outcome.stored)) == (1, 1)
    assert asked == ["states", "started"]  # what is stored of all jobs, and what was begun of the one that is not


def test_without_a_display_failures_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan = parse_plan(content("clean", network="raiser"))
    poison = collate([open_dataset(plan.datasets[0])[5]]).images.mean()
    monkeypatch.setenv("GAUNTLET_TEST_POISON", repr(float(poison)))
    run_jobs(plan_jobs(plan), Store())
    (warning,) = [message for message in caplog.messages if message.startswith("failed")]
    assert "| clean: ValueError: this image is poison" in warning
    caplog.clear()
    run_jobs(plan_jobs(plan), Store(), progress=Silent())
    assert not caplog.messages


def test_the_order_of_jobs_changes_nothing() -> None:
    jobs = plan_jobs(
        parse_plan(
            content("clean", PGD, "gaussian_noise", {"localized": {"corruption": {"name": "snow"}, "patch": 16}})
        )
    )
    forward, backward = Store(), Store()
    run_jobs(jobs, forward)
    run_jobs(jobs[::-1], backward)
    assert counts(forward) == counts(backward)
    assert len(counts(forward)) == 40


def test_a_failing_evaluation_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = parse_plan(content("clean", "fog", network="raiser"))
    poison = collate([open_dataset(plan.datasets[0])[5]]).images.mean()
    monkeypatch.setenv("GAUNTLET_TEST_POISON", repr(float(poison)))
    with open_store(tmp_path / "results.db") as store:
        summary = run_jobs(plan_jobs(plan), store)
        assert [failure.planned.job.threat for failure in summary.failures] == ["clean"]
        assert "ValueError: this image is poison" in summary.failures[0].error
        assert [evaluation.threat for evaluation in summary.computed] == ["fog 3"]
        run = store.runs().iloc[0]
        assert (run["state"], run["jobs"], run["done"], run["failed"]) == ("failed", 2, 1, 1)
    assert summary.log is not None
    events = [json.loads(line)["event"] for line in summary.log.read_text().splitlines()]
    assert events == ["run_started", "job_failed", "job_finished", "run_finished"]


class Interrupting(Silent):
    """Presses Ctrl-C after some images."""

    def __init__(self, after: int) -> None:
        self.left = after

    def advance(self, count: int, figure: float = 0.0, name: str = "mIoU", text: str = "") -> None:
        self.left -= count
        if self.left <= 0:
            raise KeyboardInterrupt


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    jobs = plan_jobs(parse_plan(content(PGD)))
    with open_store(tmp_path / "results.db") as store:
        with pytest.raises(KeyboardInterrupt):
            run_jobs(jobs, store, progress=Interrupting(4))
        assert store.runs().iloc[0]["state"] == "interrupted"
        started = store.started(jobs[0].job.key)
        assert started is not None
        assert store.positions(started) == {0, 1, 2, 3}


def command(plan: Path, store: Path) -> list[str]:
    return [sys.executable, "-m", "gauntlet", "run", str(plan), "--store", str(store), "--json", "--device", "cpu"]


@pytest.mark.slow
def test_kill_at_random_moments_loses_nothing_and_changes_nothing(tmp_path: Path) -> None:
    """Kill -9, several times, while it computes; then the figures equal those of an undisturbed run, byte by byte."""
    plan = tmp_path / "plan.yaml"
    slow = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 20}}
    plan.write_text(
        yaml.safe_dump(content(slow, "gaussian_noise", {"attack": {"name": "segpgd", "steps": 20}}, images=20))
    )
    disturbed, quiet = tmp_path / "disturbed.db", tmp_path / "quiet.db"
    chance, kills = random.Random(3), 0
    while kills < 2:
        process = subprocess.Popen(
            command(plan, disturbed), env=environment(TESTS), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        before = committed(disturbed)
        wanted = before + chance.randint(1, 6)
        while process.poll() is None and committed(disturbed) < wanted:
            time.sleep(0.02)  # leaves the core to the process that is to be killed
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        if committed(disturbed) >= 60:
            break
    assert kills >= 1
    for store in (disturbed, quiet):
        subprocess.run(command(plan, store), env=environment(TESTS), check=True, stdout=subprocess.DEVNULL)
    with open_store(disturbed) as first, open_store(quiet) as second:
        assert len(counts(first)) == 60
        assert counts(first) == counts(second)
        same = ["key", "view", "metric", "class_name", "value", "low", "high"]
        assert first.frame()[same].equals(second.frame()[same])
        assert (first.runs()["state"] == "running").sum() == kills  # the killed ones could not say goodbye


def committed(path: Path) -> int:
    """Images whose counts are in a store that another process writes."""
    import sqlite3

    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM image_counts").fetchone()[0])
    except sqlite3.OperationalError:  # not created yet
        return 0


@pytest.mark.slow
def test_two_runs_into_one_store_at_once(tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.yaml", tmp_path / "results.db"
    plan.write_text(yaml.safe_dump(content(PGD, "clean")))
    other = subprocess.Popen(
        command(plan, store), env=environment(TESTS), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    while other.poll() is None and committed(store) < 2:
        time.sleep(0.02)  # leaves the core to the other run
    with open_store(store) as opened:
        run_jobs(plan_jobs(read_plan(plan)), opened)
    _, errors = other.communicate()
    assert other.returncode == 0, errors
    with open_store(store) as opened:
        assert opened.count() == 2
        assert len(counts(opened)) == 20
    alone = Store()
    run_jobs(plan_jobs(read_plan(plan)), alone)
    with open_store(store) as opened:
        assert counts(opened) == counts(alone)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": ["x"]}, "unknown key 'model'; did you mean 'models'"),
        ({"models": []}, "'models' is"),
        ({"models": [{"address": "x", "option": {}}]}, "unknown key 'option'; did you mean 'options'"),
        ({"models": [{"options": {}}]}, "the key 'models.0.address' is missing"),
        ({"datasets": [{"name": "streets", "limits": 3}]}, "unknown key 'limits'; did you mean 'limit'"),
        ({"batch_size": 0}, "'batch_size' is 0"),
    ],
)
def test_bad_plans_are_one_sentence(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(GauntletError, match=sentence):
        parse_plan({**content("clean"), **change})


def test_bad_threats_of_a_plan_are_one_sentence() -> None:
    with pytest.raises(GauntletError, match="names no threat"):
        plan_jobs(parse_plan(content()))
    with pytest.raises(GauntletError, match="unknown suite 'quik'; did you mean 'quick'"):
        plan_jobs(Plan.model_validate({**content(), "suites": ["quik"]}))
    with pytest.raises(GauntletError, match="unknown option of the corruption 'fog' 'sevrity'"):
        plan_jobs(parse_plan(content({"corruption": {"name": "fog", "sevrity": 2}})))


def test_files_that_are_no_plans(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="cannot be read: No such file"):
        read_plan(tmp_path / "missing.yaml")
    (tmp_path / "broken.yaml").write_text("models: [")
    with pytest.raises(GauntletError, match="is not valid YAML"):
        read_plan(tmp_path / "broken.yaml")
    (tmp_path / "list.yaml").write_text("- a\n")
    with pytest.raises(GauntletError, match="must hold a mapping"):
        read_plan(tmp_path / "list.yaml")


def test_the_schema_names_every_key() -> None:
    assert set(plan_schema()["properties"]) == set(Plan.model_fields)


def test_a_dead_process_is_noticed() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    host = socket.gethostname()
    assert not is_alive(host, process.pid)
    assert is_alive(host, os.getpid())
    assert is_alive("another-host", process.pid)


def test_a_tracker_that_fails_does_not_cost_the_run() -> None:
    class Broken:
        closed = False

        def finished(self, evaluation: object) -> None:
            raise ConnectionError("no network")

        def close(self) -> None:
            self.closed = True

    tracker = Broken()
    summary = run_jobs(plan_jobs(parse_plan(content("clean", "fog"))), Store(), listeners=[tracker])
    assert len(summary.computed) == 2
    assert tracker.closed
