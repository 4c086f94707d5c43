"""Worker processes on this machine: the same bytes for any number of them, killed workers, killed drivers."""

from __future__ import annotations

import glob
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from test_runner import committed, content, counts
from torch import nn

from gauntlet.datasets import load_dataset
from gauntlet.datasets.sample_cache import SampleCache
from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate
from gauntlet.evaluation.execution import local
from gauntlet.evaluation.execution.failures import Failure
from gauntlet.evaluation.execution.local import LocalExecutor, one_thread
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.execution.units import Group, UnitComputer
from gauntlet.evaluation.execution.workers.driver import Driver
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.plan import Plan, open_dataset, parse_plan, plan_jobs
from gauntlet.metrics import Figure, Views
from gauntlet.models import wrap_model
from gauntlet.results import Evaluation, Store, open_store
from gauntlet.results.record import ImageRow
from gauntlet.results.store import Started
from gauntlet.samples import Sample, collate
from gauntlet.threats import Threat, rebuild_threat
from nets import street_network
from paths import TESTS
from pool_here import PoolHere
from subprocesses import environment
from tiny import TinyDataset

PGD = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 4}}
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices of preparations, which runs of one test share and nobody else."""
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def workers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers in this process, for what the driver does."""
    monkeypatch.setattr(local, "ProcessPool", PoolHere)


@pytest.fixture(params=["here", pytest.param("processes", marks=pytest.mark.slow)])
def pool(request: pytest.FixtureRequest) -> None:
    """The same, and real processes, which take seconds to import torch: for what travels between them."""
    if request.param == "here":
        request.getfixturevalue("workers_here")


def planned(*threats: object, **options: object) -> list[PlannedJob]:
    return plan_jobs(parse_plan({**content(*threats), **options}))


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_gives_the_same_bytes(workers: int, pool: None) -> None:
    stores = [Store(), Store()]
    for number, store in zip((1, workers), stores, strict=True):
        outcome = run_jobs(planned("clean", PGD, "gaussian_noise"), store, executor=LocalExecutor(number))
        assert (len(outcome.computed), outcome.failures) == (3, [])
    assert counts(stores[0]) == counts(stores[1])
    order = ["key", "view", "metric", "class_name"]
    figures = [store.frame()[[*order, "value", "low", "high"]].sort_values(order) for store in stores]
    assert all(frame.reset_index(drop=True).equals(figures[0].reset_index(drop=True)) for frame in figures)


@pytest.mark.slow
def test_shipped_models_of_both_tasks_give_the_same_bytes_prepared_or_not() -> None:
    small = {"name": "streets", "options": {"size": [64, 128], "length": 4}}
    models = {"models": ["streets/enet", "streets/fcos"], "datasets": [small], "batch_size": 2}
    for prepare in ("off", "fold,channels-last"):
        stores = [Store(), Store()]
        for workers, store in enumerate(stores, start=1):
            jobs = plan_jobs(parse_plan({**models, "threats": [PGD], "prepare": prepare}))
            run_jobs(jobs, store, executor=LocalExecutor(workers))
            provenance = store.load(jobs[0].job.key)
            assert provenance is not None
            assert provenance.provenance["preparation"] == ([] if prepare == "off" else ["fold", "channels-last"])
            assert provenance.provenance["threads"] == 1
        assert len(counts(stores[0])) == 8
        assert counts(stores[0]) == counts(stores[1])


def test_torch_threads_do_not_change_a_figure_and_come_back() -> None:
    stores, before = [Store(), Store()], torch.get_num_threads()
    try:
        for threads, store in zip((1, 2), stores, strict=True):
            torch.set_num_threads(threads)
            run_jobs(planned(PGD), store, executor=LocalExecutor(1))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert counts(stores[0]) == counts(stores[1])


def test_gpus_keep_their_threads() -> None:
    before = torch.get_num_threads()
    with one_thread(torch.device("cuda")):
        assert torch.get_num_threads() == before


def set_poison(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """Makes the sixth image of a plan the one at which deadly networks die."""
    poison = collate([open_dataset(plan.datasets[0])[5]]).images.mean()
    monkeypatch.setenv("GAUNTLET_TEST_POISON", repr(float(poison)))


@pytest.mark.slow
def test_a_killed_worker_costs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plan = parse_plan(content("clean", network="killed_once"))
    set_poison(monkeypatch, plan)
    monkeypatch.setenv("GAUNTLET_TEST_MARK", str(tmp_path / "mark"))
    jobs = plan_jobs(plan)
    store, quiet = Store(), Store()
    outcome = run_jobs(jobs, store, executor=LocalExecutor(2))
    assert (tmp_path / "mark").read_text() == "killed"  # it really happened
    assert (len(outcome.computed), outcome.failures) == (1, [])
    run_jobs(jobs, quiet, executor=LocalExecutor(1))
    assert counts(store) == counts(quiet)


@pytest.mark.slow
def test_a_unit_that_kills_every_worker_is_set_aside_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = parse_plan(content("clean", "fog", network="killer"))
    set_poison(monkeypatch, plan)
    store = Store()
    outcome = run_jobs(plan_jobs(plan), store, executor=LocalExecutor(2))
    assert [evaluation.threat for evaluation in outcome.computed] == ["fog 3"]
    (failure,) = outcome.failures
    assert "images 4 to 5, 3 tries" in failure.error
    assert store.failures()[["threat", "start", "stop"]].values.tolist() == [["clean", 4, 6]]


@pytest.mark.usefixtures("workers_here")
def test_a_unit_during_which_workers_die_is_tried_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as above, with deaths that are only told to the driver."""
    monkeypatch.setattr(PoolHere, "deadly", (4,))
    store, (job,) = Store(), planned("clean")
    (failure,) = run_jobs([job], store, executor=LocalExecutor(2)).failures
    assert "images 4 to 5, 3 tries: the worker died: killed by SIGKILL" in failure.error
    started = store.started(job.job.key)
    assert started is not None
    assert store.positions(started) == {0, 1, 2, 3, 6, 7, 8, 9}
    assert store.failures()[["threat", "start", "stop"]].values.tolist() == [["clean", 4, 6]]


def test_an_image_that_raises_is_told_with_its_error(monkeypatch: pytest.MonkeyPatch, pool: None) -> None:
    plan = parse_plan(content("clean", network="raiser"))
    poison = collate([open_dataset(plan.datasets[0])[5]]).images.mean()
    monkeypatch.setenv("GAUNTLET_TEST_POISON", repr(float(poison)))
    (failure,) = run_jobs(plan_jobs(plan), Store(), executor=LocalExecutor(2)).failures
    assert "this image is poison" in failure.error


def workers_of(process: int) -> list[int]:
    """Processes whose parent is the given one."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


@pytest.mark.slow
def test_a_killed_driver_leaves_no_process_and_no_file_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, store, mark = tmp_path / "plan.yaml", tmp_path / "results.db", tmp_path / "go on"
    monkeypatch.setenv("GAUNTLET_TEST_MARK", str(mark))
    begun = {**content(PGD, images=40, network="waiting"), "prepare": "off"}
    plan.write_text(yaml.safe_dump(begun))
    command = [sys.executable, "-m", "gauntlet", "run", str(plan), "--store", str(store), "--json", "--workers", "2"]
    apart = environment(TESTS, TMPDIR=str(tmp_path))
    driver = subprocess.Popen(command, env=apart, stdout=subprocess.DEVNULL, start_new_session=True)
    while driver.poll() is None and committed(store) < 4:
        time.sleep(0.02)  # leaves the core to the workers
    assert driver.poll() is None, "the driver ended before it could be killed"
    children = workers_of(driver.pid)
    assert len(children) == 2
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    while any(os.path.exists(f"/proc/{child}") for child in children):
        time.sleep(0.02)  # a worker that stays alive ends the test by the runner's own limit
    assert glob.glob(str(tmp_path / "gauntlet-workers-*")) == []
    assert 4 <= committed(store) < 40
    mark.touch()
    subprocess.run(command, env=apart, check=True, stdout=subprocess.DEVNULL)
    quiet = Store()
    run_jobs(plan_jobs(parse_plan(begun)), quiet, executor=LocalExecutor(1))
    with open_store(store) as opened:
        assert counts(opened) == counts(quiet)


@pytest.mark.slow
def test_ctrl_c_ends_every_worker(tmp_path: Path) -> None:
    plan, store = tmp_path / "plan.yaml", tmp_path / "results.db"
    plan.write_text(yaml.safe_dump({**content(PGD, images=40, network="waiting"), "prepare": "off"}))
    command = [sys.executable, "-m", "gauntlet", "run", str(plan), "--store", str(store), "--workers", "2"]
    driver = subprocess.Popen(
        command,
        env=environment(TESTS, GAUNTLET_TEST_MARK=str(tmp_path / "never")),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a suite in the background ignores it
    )
    while driver.poll() is None and committed(store) < 2:
        time.sleep(0.02)
    children = workers_of(driver.pid)
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does: to the driver and to its workers
    _, said = driver.communicate()
    assert driver.returncode == 130
    assert "what was finished is kept" in said
    assert "Traceback" not in said
    assert not any(os.path.exists(f"/proc/{child}") for child in children)


def test_models_and_datasets_in_memory_travel_as_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: None
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = wrap_model(street_network(), num_classes=11, ignore_index=11, name="memory")
    data = load_dataset("streets", size=(32, 64), length=6)
    alone = evaluate(model, data, PGD, batch_size=2, workers=1)
    together = evaluate(model, data, PGD, batch_size=2, workers=2)
    assert together.figures == alone.figures
    assert glob.glob(str(tmp_path / "gauntlet-workers-*")) == []


class Unpicklable(TinyDataset):
    """A dataset that cannot leave its process."""

    def __init__(self) -> None:
        super().__init__()
        self.open = lambda: None


@pytest.mark.usefixtures("workers_here")
def test_what_cannot_travel_is_told() -> None:
    model = wrap_model(nn.Conv2d(3, 3, 1), num_classes=3)
    with pytest.raises(GauntletError, match="the dataset only lives in this process and cannot be sent to another"):
        evaluate(model, Unpicklable(), "clean", batch_size=2, workers=2)


def test_short_runs_stay_in_this_process_unless_workers_are_asked_for() -> None:
    assert LocalExecutor().devices(planned("clean")) == ["cpu"]
    long = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 1000}}
    assert LocalExecutor().devices(planned(long)) == ["cpu"] * min(5, len(os.sched_getaffinity(0)))
    assert LocalExecutor(3).devices(planned("clean")) == ["cpu"] * 3
    assert LocalExecutor(9).devices(planned("clean")) == ["cpu"] * 5  # five units are five workers' work


def test_the_first_choice_of_a_preparation_holds_for_everybody() -> None:
    store, (job,) = Store(), planned(PGD, prepare="fold")
    run_jobs([job], store, executor=LocalExecutor(1))
    started = store.started(job.job.key)
    assert started is not None
    assert started.preparation == ("fold",)
    assert store.keep_preparation(started, ("channels-last",)) == ("fold",)


def test_an_interrupted_evaluation_goes_on_as_it_was_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it was prepared with fold: a resume that would choose otherwise must not."""
    plain, (job,) = Store(), planned(PGD, prepare="fold")
    run_jobs([job], plain, executor=LocalExecutor(1))
    half = Store()
    from gauntlet.evaluation.execution.session import begin_session

    session = begin_session(half, job, torch.device("cpu"))
    started = plain.started(job.job.key)
    assert started is not None
    assert started.views is not None
    rows = list(plain.image_rows(started))[:4]
    half.add_images(session.started, rows, started.views)
    again = replace(job, settings=replace(job.settings, prepare="off"))
    run_jobs([again], half, executor=LocalExecutor(1))
    finished = half.load(job.job.key)
    assert finished is not None
    assert finished.provenance["preparation"] == ["fold"]
    assert counts(half) == counts(plain)


def test_an_evaluation_begun_before_preparations_existed_goes_on_unprepared() -> None:
    from gauntlet.evaluation.execution.session import begin_session

    plain, (job,) = Store(), planned(PGD, prepare="off")
    run_jobs([job], plain, executor=LocalExecutor(1))
    started = plain.started(job.job.key)
    assert started is not None
    assert started.views is not None
    old = Store()
    (unchosen,) = planned(PGD)  # "auto": nothing is recorded before the first unit
    session = begin_session(old, unchosen, torch.device("cpu"))
    assert session.preparation is None
    old.add_images(session.started, list(plain.image_rows(started))[:4], started.views)
    run_jobs([unchosen], old, executor=LocalExecutor(1))
    assert counts(old) == counts(plain)


def test_threats_without_gradients_are_never_prepared() -> None:
    store, jobs = Store(), planned("clean", "fog", prepare="fold")
    run_jobs(jobs, store, executor=LocalExecutor(1))
    for job in jobs:
        finished = store.load(job.job.key)
        assert finished is not None
        assert finished.provenance["preparation"] == []


class Counting(TinyDataset):
    """Counts how often a sample is made."""

    def __init__(self) -> None:
        super().__init__(length=6)
        self.made: list[int] = []

    def __getitem__(self, index: int) -> Sample:
        self.made.append(index)
        return super().__getitem__(index)


def test_samples_are_made_once_and_the_cache_is_bounded() -> None:
    data = Counting()
    cache = SampleCache(data)
    assert [cache[index].id for index in (0, 1, 0, 1, 5)] == ["tiny/0", "tiny/1", "tiny/0", "tiny/1", "tiny/5"]
    assert data.made == [0, 1, 5]
    assert cache.identity == data.identity
    size = 16 * 24 * 4  # an image and its labels
    small = SampleCache(data, limit=2 * size)
    data.made.clear()
    for index in (0, 1, 0, 2, 0, 1):  # 1 was asked for longest ago when 2 comes
        small[index]
    assert data.made == [0, 1, 2, 1]


def test_threats_of_one_call_share_the_samples() -> None:
    data, model = Counting(), wrap_model(nn.Conv2d(3, 3, 1), num_classes=3, mean=(0.5,) * 3, std=(0.5,) * 3)
    threats: list[Any] = ["clean", "fgsm"]
    together = evaluate(model, data, threats, prepare="off")
    assert sorted(data.made) == list(range(6))
    for threat, evaluation in zip(threats, together, strict=True):
        assert evaluation.figures == evaluate(model, Counting(), threat, prepare="off").figures


class Impatient:
    """A user who presses Ctrl-C after the first unit."""

    def start(self, label: str, total: int, done: int = 0, unit: str = "images") -> None: ...

    def advance(self, count: int, figure: float = 0, name: str = "", text: str = "") -> None:
        raise KeyboardInterrupt

    def note_once(self, text: str) -> None: ...


@pytest.mark.usefixtures("workers_here")
def test_again_replaces_a_result_only_when_its_turn_comes() -> None:
    store, jobs = Store(), planned("clean", "fog", "snow")
    run_jobs(jobs, store, executor=LocalExecutor(1))
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, store, executor=LocalExecutor(2), progress=Impatient(), again=True)
    assert sum(state == "complete" for state in store.states([job.job.key for job in jobs]).values()) >= 1


@pytest.mark.usefixtures("workers_here")
def test_a_fault_of_one_job_ends_that_job_only(monkeypatch: pytest.MonkeyPatch) -> None:
    store, jobs = Store(), planned("clean", "fog", "snow")
    finish = Store.finish

    def broken(self: Store, started: Started, figures: Iterable[Figure]) -> Evaluation:
        if started.key == jobs[1].job.key:
            raise ValueError("the disk is full")
        return finish(self, started, figures)

    monkeypatch.setattr(Store, "finish", broken)
    outcome = run_jobs(jobs, store, executor=LocalExecutor(2))
    assert sorted(each.threat for each in outcome.computed) == ["clean", "snow 3"]
    assert [failure.planned.job.threat for failure in outcome.failures] == ["fog 3"]
    assert "the disk is full" in outcome.failures[0].error


@pytest.mark.usefixtures("workers_here")
def test_an_evaluation_that_somebody_removes_ends_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store, jobs = Store(), planned("clean", "fog", "snow")
    add = Store.add_images

    def removing(self: Store, started: Started, *rest: Any) -> None:
        if started.key == jobs[0].job.key:
            self.delete(started.key)
        add(self, started, *rest)

    monkeypatch.setattr(Store, "add_images", removing)
    outcome = run_jobs(jobs, store, executor=LocalExecutor(2))
    assert sorted(each.threat for each in outcome.computed) == ["fog 3", "snow 3"]
    assert [failure.planned.job.threat for failure in outcome.failures] == ["clean"]


@pytest.mark.usefixtures("workers_here")
def test_a_choice_that_cannot_be_stored_ends_its_job_and_the_next_one_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    store, jobs = Store(), planned(PGD, {"attack": {"name": "pgd", "epsilon": "4/255", "steps": 2}})
    keep, times = Store.keep_preparation, iter(range(9))

    def failing(self: Store, started: Started, steps: Sequence[str]) -> tuple[str, ...]:
        if next(times, 9) == 0:
            raise GauntletError("the disk is full")
        return keep(self, started, steps)

    monkeypatch.setattr(Store, "keep_preparation", failing)
    outcome = run_jobs(jobs, store, executor=LocalExecutor(2))
    assert (len(outcome.computed), [each.error for each in outcome.failures]) == (1, ["the disk is full"])


@pytest.mark.usefixtures("workers_here")
def test_a_worker_builds_a_threat_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have a model of its own, which is prepared with it."""
    built: list[object] = []

    def counting(written: dict[str, Any]) -> Threat:
        built.append(written)
        return rebuild_threat(written)

    monkeypatch.setattr("gauntlet.evaluation.execution.workers.worker.rebuild_threat", counting)
    run_jobs(planned(PGD, "fog"), Store(), executor=LocalExecutor(1))
    assert built == []  # that is done in this process
    run_jobs(planned(PGD), Store(), executor=LocalExecutor(2))
    assert len(built) <= 2


@pytest.mark.usefixtures("workers_here")
def test_what_a_worker_has_to_say_is_said_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, None] = {}

    class Talking(Silent):
        def note_once(self, text: str) -> None:
            said[text] = None

    compute = UnitComputer.compute

    def noisy(self: UnitComputer, groups: Sequence[Group]) -> tuple[list[ImageRow], Views]:
        assert self.progress is not None
        self.progress.note_once("out of memory")
        return compute(self, groups)

    monkeypatch.setattr(UnitComputer, "compute", noisy)
    run_jobs(planned("clean"), Store(), executor=LocalExecutor(2), progress=Talking())
    assert list(said) == ["out of memory"]


@pytest.mark.usefixtures("workers_here")
@pytest.mark.parametrize(("images", "most"), [(4, 1), (12, 2)])
def test_the_last_units_wait_for_whoever_is_free_first(images: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that held two of the last units would keep the other one idle; before that it has one in reserve."""
    held: list[int] = []
    hand_out = Driver._hand_out

    def watched(self: Driver) -> None:
        hand_out(self)
        held.append(max(len(seat.units) for seat in self._seats))

    monkeypatch.setattr(Driver, "_hand_out", watched)
    data = [{"name": "streets", "options": {"size": [32, 64], "length": images}}]
    run_jobs(planned("clean", datasets=data, batch_size=1), Store(), executor=LocalExecutor(2))
    assert max(held) == most


def test_bad_input_is_tried_once_and_ends_its_job(pool: None) -> None:
    """The second model does not fit the dataset; the first is computed all the same."""
    good = content("clean")
    misfit = {"address": "python:nets:street_network", "options": {"num_classes": 5}}
    plan = parse_plan({**good, "models": [*good["models"], misfit]})  # type: ignore[misc]
    outcome = run_jobs(plan_jobs(plan), Store(), executor=LocalExecutor(2))
    assert len(outcome.computed) == 1
    assert "has 5 classes, the dataset 'streets' 11" in outcome.failures[0].error


@pytest.mark.usefixtures("workers_here")
def test_another_process_that_was_faster_is_believed() -> None:
    store, (job,) = Store(), planned("clean")
    run_jobs([job], store, executor=LocalExecutor(1))
    (ended,) = LocalExecutor(2).run([job], store, Impatient())  # nothing is computed: nobody presses Ctrl-C
    assert not isinstance(ended, Failure)
    assert ended.key == job.job.key


SCRIPT = """
import torch
from torch import nn
import gauntlet

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 11, 1)
    def forward(self, images):
        return self.layer(images)

model = gauntlet.wrap_model(Net(), num_classes=11, ignore_index=11)
data = gauntlet.load_dataset("streets", size=(32, 64), length=4)
try:
    gauntlet.evaluate(model, data, batch_size=2, workers=2)
except gauntlet.GauntletError as error:
    print(error)
"""


@pytest.mark.usefixtures("workers_here")
def test_a_class_of_a_notebook_cannot_travel() -> None:
    network = type("Net", (nn.Conv2d,), {"__module__": "__main__"})(3, 3, 1)
    model = wrap_model(network, num_classes=3)
    with pytest.raises(GauntletError, match="the model only lives in this process and cannot be sent to another"):
        evaluate(model, TinyDataset(), "clean", batch_size=2, workers=2)


@pytest.mark.slow
def test_a_class_of_the_main_script_cannot_travel_and_a_file_beside_it_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment(TESTS), capture_output=True, text=True
    )
    assert "the model only lives in this process and cannot be sent to another; use workers=1." in ran.stdout
    plan = tmp_path / "plan.yaml"
    plan.write_text(yaml.safe_dump(content("clean", images=4)))
    (tmp_path / "queue.py").write_text("raise RuntimeError('not the queue you are looking for')")
    code = "import sys; sys.path.remove(''); from gauntlet.cli import main; main()"
    command = [sys.executable, "-c", code, "run", "plan.yaml", "--workers", "2", "--store", "r.db"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment(TESTS), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    with open_store(tmp_path / "r.db") as store:
        assert store.count() == 1
