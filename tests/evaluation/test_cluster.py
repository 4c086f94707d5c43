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
from gauntlet.evaluation.execution.cluster import gpus_for
from gauntlet.evaluation.execution.runner import Executor, run_jobs
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.plan import open_dataset, parse_plan, plan_jobs
from gauntlet.results import Store, open_store
from gauntlet.samples import collate
from paths import TESTS
from subprocesses import environment

pytest.importorskip("ray", reason="the extra 'cluster' is not installed")
pytestmark = pytest.mark.slow

THREATS = ("clean", {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 4}}, "gaussian_noise")


@pytest.fixture(scope="module")
def mark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that networks of these tests look for."""
    return tmp_path_factory.mktemp("cluster") / "mark"


@pytest.fixture(scope="module")
def cluster(mark: Path) -> Iterator[str]:
    """The address of a Ray whose workers find the test networks, and what these read from their environment."""
    import ray

    plan = parse_plan(content("clean"))
    poison = repr(float(collate([open_dataset(plan.datasets[0])[5]]).images.mean()))
    variables = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "GAUNTLET_TEST_MARK": str(mark)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(TESTS, GAUNTLET_TEST_POISON=poison, **variables).items():
            patch.setenv(name, value)
        ray.init(include_dashboard=False, log_to_driver=False)
        yield ray.get_runtime_context().gcs_address
        ray.shutdown()


def executor(cluster: str, workers: int = 2) -> Executor:
    from gauntlet.evaluation.execution.cluster import RayExecutor

    return RayExecutor(address=cluster, workers=workers)


def test_ray_gives_the_same_bytes_as_local(cluster: str) -> None:
    plan = parse_plan(content(*THREATS))
    local, remote = Store(), Store()
    run_jobs(plan_jobs(plan), local)
    summary = run_jobs(plan_jobs(plan), remote, executor=executor(cluster, 2))
    assert len(summary.computed) == 3
    assert counts(remote) == counts(local)
    same = ["key", "view", "metric", "class_name", "value", "low", "high"]
    order = ["key", "view", "metric", "class_name"]
    frames = [store.frame()[same].sort_values(order).reset_index(drop=True) for store in (local, remote)]
    assert frames[0].equals(frames[1])


def test_ray_evaluates_a_detector_like_local(cluster: str) -> None:
    threats = ("clean", {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 1}})
    plan = parse_plan({**content(*threats, images=4), "models": ["streets/fcos"]})
    local, remote = Store(), Store()
    run_jobs(plan_jobs(plan), local)
    summary = run_jobs(plan_jobs(plan), remote, executor=executor(cluster, 2))
    assert len(summary.computed) == 2
    assert counts(remote) == counts(local)
    assert set(remote.frame()["task"]) == {"detection"}


def test_a_killed_worker_costs_nothing(cluster: str, mark: Path) -> None:
    jobs = plan_jobs(parse_plan(content("clean", network="killed_once")))
    remote, local = Store(), Store()
    summary = run_jobs(jobs, remote, executor=executor(cluster, 1))
    assert mark.read_text() == "killed"  # it really happened
    assert (len(summary.computed), summary.failures) == (1, [])
    run_jobs(jobs, local)
    assert counts(remote) == counts(local)


def test_a_unit_that_kills_every_worker_is_set_aside_and_the_rest_goes_on(cluster: str) -> None:
    plan = parse_plan(content("clean", "fog", network="killer"))
    store = Store()
    summary = run_jobs(plan_jobs(plan), store, executor=executor(cluster, 1))
    assert [evaluation.threat for evaluation in summary.computed] == ["fog 3"]
    (failure,) = summary.failures
    assert "images 4 to 5, 3 tries" in failure.error
    assert store.failures()[["threat", "start", "stop"]].values.tolist() == [["clean", 4, 6]]
    started = store.started(failure.planned.job.key)
    assert started is not None
    assert store.positions(started) == {0, 1, 2, 3, 6, 7, 8, 9}


def test_a_killed_driver_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, store, mark = tmp_path / "plan.yaml", tmp_path / "results.db", tmp_path / "go on"
    monkeypatch.setenv("GAUNTLET_TEST_MARK", str(mark))
    begun = {**content(THREATS[1], images=40, network="waiting"), "prepare": "off"}
    plan.write_text(yaml.safe_dump(begun))
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
    mark.touch()
    subprocess.run(command, env=environment(TESTS), check=True, stdout=subprocess.DEVNULL)
    quiet = Store()
    run_jobs(plan_jobs(parse_plan(begun)), quiet)
    with open_store(store) as opened:
        assert counts(opened) == counts(quiet)


def test_objects_in_memory_cannot_travel(cluster: str) -> None:
    from dataclasses import replace

    jobs = [replace(planned, model_entry=None) for planned in plan_jobs(parse_plan(content("clean")))]
    with pytest.raises(GauntletError, match="a cluster needs models and datasets that have an address"):
        run_jobs(jobs, Store(), executor=executor(cluster))


def test_more_workers_than_the_cluster_has_room_for(cluster: str) -> None:
    """Workers that find no place get no work: the others finish it."""
    store = Store()
    summary = run_jobs(plan_jobs(parse_plan(content("clean"))), store, executor=executor(cluster, 20))
    assert len(summary.computed) == 1
    assert len(counts(store)) == 10


def test_a_model_is_checked_against_every_dataset(cluster: str) -> None:
    plan = content("clean")
    plan["models"] = [{"address": "python:nets:street_network", "options": {"num_classes": 5}}]
    summary = run_jobs(plan_jobs(parse_plan(plan)), Store(), executor=executor(cluster, 1))
    assert "has 5 classes, the dataset 'streets' 11" in summary.failures[0].error


def test_a_device_that_is_asked_for_is_used() -> None:
    def asked(device: str | None) -> list[PlannedJob]:
        return plan_jobs(parse_plan(content("clean")), device)

    assert [gpus_for(asked(device), 2) for device in (None, "cuda", "cpu")] == [2, 2, 0]
    assert gpus_for(asked("cpu"), 0) == gpus_for(asked(None), 0) == 0
    with pytest.raises(GauntletError, match="the cluster has no GPU"):
        gpus_for(asked("cuda"), 0)
