"""Real Ray on this machine: equal to local, killed workers, poison, a killed driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from test_runner import committed, content, counts

from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.runner import Executor, run_jobs
from gauntlet.evaluation.plan import open_dataset, parse_plan, plan_jobs
from gauntlet.results import Store, open_store
from gauntlet.samples import collate
from paths import TESTS
from subprocesses import environment

pytest.importorskip("ray", reason="the extra 'cluster' is not installed")
pytestmark = pytest.mark.slow

THREATS = ("clean", {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 4}}, "gaussian_noise")


@pytest.fixture
def ray_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Workers find the test networks, and a Ray that an earlier test started is gone."""
    import ray

    for name, value in environment(TESTS, RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0").items():
        monkeypatch.setenv(name, value)
    yield
    ray.shutdown()


def executor(workers: int = 2) -> Executor:
    from gauntlet.evaluation.execution.cluster import RayExecutor

    return RayExecutor(workers=workers)


def test_ray_gives_the_same_bytes_as_local(ray_path: None) -> None:
    plan = parse_plan(content(*THREATS))
    local, remote = Store(), Store()
    run_jobs(plan_jobs(plan), local)
    summary = run_jobs(plan_jobs(plan), remote, executor=executor(2))
    assert len(summary.computed) == 3
    assert counts(remote) == counts(local)
    same = ["key", "view", "metric", "class_name", "value", "low", "high"]
    order = ["key", "view", "metric", "class_name"]
    frames = [store.frame()[same].sort_values(order).reset_index(drop=True) for store in (local, remote)]
    assert frames[0].equals(frames[1])


def test_ray_evaluates_a_detector_like_local(ray_path: None) -> None:
    threats = ("clean", {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 1}})
    plan = parse_plan({**content(*threats, images=4), "models": ["streets/fcos"]})
    local, remote = Store(), Store()
    run_jobs(plan_jobs(plan), local)
    summary = run_jobs(plan_jobs(plan), remote, executor=executor(2))
    assert len(summary.computed) == 2
    assert counts(remote) == counts(local)
    assert set(remote.frame()["task"]) == {"detection"}


def test_a_killed_worker_costs_nothing(ray_path: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GAUNTLET_TEST_MARK", str(tmp_path / "mark"))
    (tmp_path / "mark").write_text("not yet: planning builds the model here too")
    jobs = plan_jobs(parse_plan(content("clean", network="killed_once")))
    (tmp_path / "mark").unlink()
    remote, local = Store(), Store()
    summary = run_jobs(jobs, remote, executor=executor(1))
    assert (tmp_path / "mark").read_text() == "killed"  # it really happened
    assert (len(summary.computed), summary.failures) == (1, [])
    run_jobs(jobs, local)
    assert counts(remote) == counts(local)


def test_a_unit_that_kills_every_worker_is_set_aside_and_the_rest_goes_on(
    ray_path: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = parse_plan(content("clean", "fog", network="killer"))
    poison = collate([open_dataset(plan.datasets[0])[5]]).images.mean()
    monkeypatch.setenv("GAUNTLET_TEST_POISON", repr(float(poison)))
    store = Store()
    summary = run_jobs(plan_jobs(plan), store, executor=executor(1))
    assert [evaluation.threat for evaluation in summary.computed] == ["fog 3"]
    (failure,) = summary.failures
    assert "images 4 to 5, 3 tries" in failure.error
    assert store.failures()[["threat", "start", "stop"]].values.tolist() == [["clean", 4, 6]]
    started = store.started(failure.planned.job.key)
    assert started is not None
    assert store.positions(started) == {0, 1, 2, 3, 6, 7, 8, 9}


def test_a_killed_driver_goes_on_where_it_was(tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.yaml", tmp_path / "results.db"
    slow = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 60}}
    plan.write_text(yaml.safe_dump(content(slow, images=40)))
    command = [sys.executable, "-m", "gauntlet", "run", str(plan), "--store", str(store), "--json"]
    command += ["--executor", "ray", "--workers", "2"]
    driver = subprocess.Popen(command, env=environment(TESTS), stdout=subprocess.DEVNULL, start_new_session=True)
    while driver.poll() is None and committed(store) < 4:
        time.sleep(0.02)  # leaves the core to the workers
    assert driver.poll() is None, "the driver ended before it could be killed"
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    before = committed(store)
    assert 4 <= before < 40
    subprocess.run(command, env=environment(TESTS), check=True, stdout=subprocess.DEVNULL)
    quiet = Store()
    run_jobs(plan_jobs(parse_plan(content(slow, images=40))), quiet)
    with open_store(store) as opened:
        assert counts(opened) == counts(quiet)


def test_objects_in_memory_cannot_travel(ray_path: None) -> None:
    from dataclasses import replace

    jobs = [replace(planned, model_entry=None) for planned in plan_jobs(parse_plan(content("clean")))]
    with pytest.raises(GauntletError, match="a cluster needs models and datasets that have an address"):
        run_jobs(jobs, Store(), executor=executor())


def test_more_workers_than_the_cluster_has_room_for(ray_path: None) -> None:
    """Workers that find no place get no work: the others finish it."""
    store = Store()
    summary = run_jobs(plan_jobs(parse_plan(content("clean"))), store, executor=executor(workers=20))
    assert len(summary.computed) == 1
    assert len(counts(store)) == 10


def test_a_model_is_checked_against_every_dataset(ray_path: None) -> None:
    plan = content("clean")
    plan["models"] = [{"address": "python:nets:street_network", "options": {"num_classes": 5}}]
    summary = run_jobs(plan_jobs(parse_plan(plan)), Store(), executor=executor(1))
    assert "has 5 classes, the dataset 'streets' 11" in summary.failures[0].error
