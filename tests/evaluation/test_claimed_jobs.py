"""A run whose jobs another driver computes too: with workers, in this process, and with --again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_runner import content

from gauntlet.evaluation.execution import local
from gauntlet.evaluation.execution.local import LocalExecutor
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.execution.workers.ray_pool import RayPool
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.results import Store, open_store
from gauntlet.results.schema import claims as table
from pool_here import PoolHere


class OtherDriver(Silent):
    """Another driver, on another machine: it has a job, and completes it when this one has computed four images."""

    def __init__(self, store: Store, planned: PlannedJob, *, ends: str) -> None:
        self._store, self._planned, self._ends, self._left = store, planned, ends, 4
        self.said: list[str] = []
        with store._database.write() as connection:
            claim: dict[str, Any] = {"key": planned.job.key, "owner": "another-host 17 1 abcd", "beat": 0}
            connection.execute(table.insert().values(**claim))

    def advance(self, count: int, figure: float = 0.0, name: str = "", text: str = "") -> None:
        self._left -= count
        if self._left == 0:
            if self._ends == "complete":
                local.run_job(self._planned, self._store, Silent(), again=True)
            with self._store._database.write() as connection:
                connection.execute(table.delete().where(table.c.key == self._planned.job.key))

    def note_once(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("ends", ["complete", "interrupted"])
@pytest.mark.parametrize("workers", [1, 2])
def test_others_first_then_what_the_other_driver_had(
    workers: int, ends: str, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "ProcessPool", PoolHere)
    jobs = plan_jobs(parse_plan({**content("clean", "fog", images=4), "prepare": "off"}))
    with open_store(tmp_path / "results.db") as store:
        other = OtherDriver(store, jobs[0], ends=ends)
        outcome = run_jobs(jobs, store, executor=LocalExecutor(workers), progress=other, again=again)
        assert store.count() == 2
    computed = [evaluation.threat for evaluation in outcome.computed]
    assert computed == (["fog 3"] if ends == "complete" else ["fog 3", "clean"])
    assert outcome.stored == ([jobs[0].job.key] if ends == "complete" else [])
    assert any("waiting for process 17 on another-host" in each for each in other.said)
    assert outcome.log is not None
    events = [json.loads(line)["event"] for line in outcome.log.read_text().splitlines()]
    assert events.count("job_read") == len(outcome.stored)


def test_a_driver_on_ray_does_not_wait_for_workers_for_ever_while_others_compute() -> None:
    actor = SimpleNamespace(start=SimpleNamespace(remote=lambda threads: "the answer that never comes"))
    actors = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: actor))
    ray = SimpleNamespace(
        remote=lambda **_: lambda _: actors,
        wait=lambda answers, num_returns, timeout: ([], answers) if timeout else None,
    )
    pool = RayPool(ray, 1, {"num_cpus": 1})
    assert pool.wait(0.001) is None  # nobody was given anything
    pool.start()
    assert pool.wait(0.001) is None


def test_a_log_grows_with_evaluations_and_not_with_images(tmp_path: Path) -> None:
    lines = []
    for images in (1, 9):
        with open_store(tmp_path / str(images) / "results.db") as store:
            outcome = run_jobs(plan_jobs(parse_plan(content("clean", images=images))), store, progress=Silent())
        assert outcome.log is not None
        lines.append(len(outcome.log.read_text().splitlines()))
    assert lines == [3, 3]
