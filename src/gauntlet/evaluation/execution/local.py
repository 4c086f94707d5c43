"""Evaluations on this machine: in this process, or by one worker process per core.

Every worker computes with one torch thread, and so does this process while it evaluates on a CPU. Sums then round the
same way for any number of workers, and a busy machine costs its share instead of threads that wait for each other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.sample_cache import SampleCache
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.failures import Failure, describe_error
from gauntlet.evaluation.execution.loaded_once import LoadedOnce
from gauntlet.evaluation.execution.probing import probe_of
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.evaluation.execution.session import awaited, begin_session, images_done, model_facts
from gauntlet.evaluation.execution.units import UnitComputer
from gauntlet.evaluation.execution.workers.driver import Begun, DatasetAddress, Driver, ModelAddress
from gauntlet.evaluation.execution.workers.processes import ProcessPool
from gauntlet.evaluation.execution.workers.proof import station_here
from gauntlet.evaluation.jobs import (
    PlannedJob,
    check_threat,
    prepare_for,
    ready_model,
    steps_for,
    with_preparation,
)
from gauntlet.evaluation.normalisation_advice import advise_on_normalisation
from gauntlet.evaluation.provenance import choose_device
from gauntlet.models.contract import GauntletModel
from gauntlet.models.probe import Probe
from gauntlet.models.sources.contract import ModelSource
from gauntlet.numbers import parse_count
from gauntlet.results.model_facts import ModelFacts
from gauntlet.results.record import Evaluation
from gauntlet.results.schema import COMPLETE
from gauntlet.results.store import Store

SMALL = 600
"""Passes over an image (forward, or forward and backward) below which starting workers takes longer than they save."""


def run_job(planned: PlannedJob, store: Store, progress: Progress, *, again: bool = False) -> Evaluation:
    """Computes in this process what the store does not have of a job, and returns the evaluation.

    Args:
        planned: a job that is not complete in the store.
        store: where counts and figures go.
        progress: told what is going on.
        again: forget what the store has of the job and compute all of it.
    """
    dataset, settings = planned.dataset, planned.settings
    check_threat(planned.threat, dataset)
    device = choose_device(settings.device)
    with one_thread(device):
        model = ready_model(planned.model, dataset, device)
        advise_on_normalisation(model, dataset, settings.batch_size, progress)
        if again:
            store.delete(planned.job.key)  # not before the model is there: a fault must not cost the old result
        probe = probe_of(planned.model, device, progress, model)
        facts = model_facts(planned, model)
        session = begin_session(store, planned, device, facts=facts, reuse=not again, probe=probe)
        if session.started.state == COMPLETE and (stored := store.load(planned.job.key)) is not None:
            return stored  # another process finished it since the store was asked
        session.note_host(station_here().host, station_here().facts)
        progress.start(f"{planned.label} | {planned.job.threat}", session.images, len(session.done))
        if session.preparation is None:
            session.keep_preparation(steps_for(model, dataset, planned.threat, session.started.batch_size))
        model = _prepared(planned.model, model, dataset, session.preparation or ())
        threat = with_preparation(planned.threat, settings.prepare, dataset)
        computer = UnitComputer(dataset, model, threat, settings.seed, session.counter, device, progress, session.kept)
        began = time.perf_counter()
        for unit, groups in computer.load_ahead(session.units_left()):
            rows, views = computer.compute(groups)
            ended = time.perf_counter()
            session.commit(unit, rows, views, ended - began)
            began = ended
            progress.advance(len(rows), session.figure, session.running_figure.name)
        return session.finish()


def _prepared(
    source: GauntletModel | ModelSource, model: GauntletModel, dataset: Dataset, steps: tuple[str, ...]
) -> GauntletModel:
    """A model with some steps taken, once for all jobs of a source."""
    if isinstance(source, LoadedOnce):
        if source.prepared is None or source.prepared[0] != steps:
            source.prepared = (steps, prepare_for(model, dataset, steps))
        return source.prepared[1]
    return prepare_for(model, dataset, steps)


def run_one(
    planned: PlannedJob, store: Store, progress: Progress, *, workers: int = 1, again: bool = False
) -> Evaluation:
    """`run_job`, by as many workers as are asked for; what goes wrong is raised."""
    if workers == 1:
        with store.claims(progress.note_once) as claims:
            next(claims.in_turn([planned.job.key]))
            return awaited(claims, store, planned) or run_job(planned, store, progress, again=again)
    (ended,) = LocalExecutor(workers).run([planned], store, progress, again=again)
    if isinstance(ended, Failure):
        raise GauntletError(ended.error)
    return ended


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """One torch thread for what is computed on a CPU; the number there was before comes back afterwards."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class LocalExecutor:
    """Runs units on this machine.

    Attributes:
        workers: processes, each with one torch thread. By default one per core for what is computed on a CPU and one
            per device on GPUs; 1 computes in this process. Short runs, and runs on one GPU, stay in this process.
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            parse_count(self.workers, "workers")

    def run(
        self, jobs: Sequence[PlannedJob], store: Store, progress: Progress, *, again: bool = False
    ) -> Generator[Evaluation | Failure, None, None]:
        """Yields every job as it ends; a job that fails ends as a Failure."""
        devices = self.devices(jobs)
        if len(devices) > 1:
            yield from _run_on_workers(devices, jobs, store, progress, again)
        else:
            yield from _run_here(jobs, store, progress, again)

    def devices(self, jobs: Sequence[PlannedJob]) -> list[str]:
        """The device of every worker; one entry where this process does the work."""
        device = choose_device(jobs[0].settings.device)
        if os.name != "posix" or device.type == "mps" or any(planned.settings.importance for planned in jobs):
            return [str(device)]  # no sockets to hand over, no device to share, a function that only lives here
        if device.type == "cuda":
            every = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
            return every[: self.workers] if device.index is None else [str(device)]
        if self.workers is None and sum(_image_passes(planned) for planned in jobs) < SMALL:
            return ["cpu"]
        units = sum(-(-len(planned.dataset) // planned.settings.batch_size) for planned in jobs)
        return ["cpu"] * min(self.workers or cores(), units)


def _image_passes(planned: PlannedJob) -> int:
    passes = planned.threat.passes(planned.job.task)
    return len(planned.dataset) * (passes.forward + passes.backward)


def cores() -> int:
    """Cores that this process may use, whole ones; a container's share counts where it has one."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return allowed if quota == "max" else max(1, min(allowed, int(quota) // int(period)))
    except (OSError, ValueError):
        return allowed


def _run_here(
    jobs: Sequence[PlannedJob], store: Store, progress: Progress, again: bool
) -> Generator[Evaluation | Failure, None, None]:
    """One job after the other; a model is loaded once for all its jobs, images are loaded in the background."""
    loaded: LoadedOnce | None = None
    kept = with_kept_samples(jobs)
    with store.claims(progress.note_once) as claims:
        for index in claims.in_turn([planned.job.key for planned in jobs]):
            planned = jobs[index]
            if loaded is None or loaded.source is not planned.model:
                loaded = LoadedOnce(planned.model)  # the model before it is released
            numbered = _Numbered(progress, index, len(jobs))
            try:
                stored = awaited(claims, store, planned)
                yield stored or run_job(replace(kept[index], model=loaded), store, numbered, again=again)
            except Exception as error:  # one bad model or image must not cost the night
                yield Failure(planned, describe_error(error))


def with_kept_samples(jobs: Sequence[PlannedJob]) -> list[PlannedJob]:
    """The jobs; those on one dataset share the samples that were made, as far as these fit into memory."""
    datasets: dict[int, SampleCache] = {}
    return [
        replace(planned, dataset=datasets.setdefault(id(planned.dataset), SampleCache(planned.dataset)))
        for planned in jobs
    ]


def _run_on_workers(
    devices: list[str], jobs: Sequence[PlannedJob], store: Store, progress: Progress, again: bool
) -> Generator[Evaluation | Failure, None, None]:
    device = torch.device(devices[0].partition(":")[0])
    pool = ProcessPool(devices)
    shared = _Shared(pool, progress)

    def begin(planned: PlannedJob) -> Begun:
        model, dataset = shared.locate(planned)
        if again:
            store.delete(planned.job.key)
        facts, probe = shared.facts.get(id(planned.model)), shared.probes.get(id(planned.model))
        session = begin_session(store, planned, device, threads=1, facts=facts, reuse=not again, probe=probe)
        return Begun(session, model, dataset)

    try:
        done = 0 if again else images_done(store, jobs)
        yield from Driver(jobs, begin, store, progress, done, pool, len(devices), device.type).run()
    finally:
        pool.close()


_CANNOT_TRAVEL = "the {what} only lives in this process and cannot be sent to another; use workers=1."


class _Shared:
    """Models and datasets of jobs, as workers find them: files that all of them map, else their addresses."""

    def __init__(self, pool: ProcessPool, progress: Progress) -> None:
        self._pool, self._progress = pool, progress
        self.facts: dict[int, ModelFacts] = {}
        self.probes: dict[int, Probe] = {}
        self._models: dict[int, ModelAddress] = {}
        self._datasets: dict[int, DatasetAddress] = {}

    def locate(self, planned: PlannedJob) -> tuple[ModelAddress, DatasetAddress]:
        """Where a worker finds the model and the dataset of a job; an error where they do not fit each other."""
        check_threat(planned.threat, planned.dataset)
        if type(planned.threat).__module__ == "__main__":
            raise GauntletError(_CANNOT_TRAVEL.format(what="threat"))
        if id(planned.dataset) not in self._datasets:
            entry: DatasetAddress | None = planned.dataset_entry
            if entry is None:
                entry = self._pool.share_dataset(planned.dataset, f"data-{len(self._datasets)}")
            if entry is None:
                raise GauntletError(_CANNOT_TRAVEL.format(what="dataset"))
            self._datasets[id(planned.dataset)] = entry
        if id(planned.model) not in self._models:
            model = ready_model(planned.model, planned.dataset, torch.device("cpu"))
            advise_on_normalisation(model, planned.dataset, planned.settings.batch_size, self._progress)
            self.facts[id(planned.model)] = model_facts(planned, model)
            self.probes[id(planned.model)] = probe_of(planned.model, model.device, self._progress, model)
            file = self._pool.share_model(model, f"model-{len(self._models)}")
            address: ModelAddress | None = planned.model_entry if file is None else file
            if address is None:
                raise GauntletError(_CANNOT_TRAVEL.format(what="model"))
            self._models[id(planned.model)] = address
        return self._models[id(planned.model)], self._datasets[id(planned.dataset)]


class _Numbered:
    """Progress of one job among many: its label says which one it is."""

    def __init__(self, progress: Progress, index: int, jobs: int) -> None:
        self._progress, self._prefix = progress, f"[{index + 1}/{jobs}] " if jobs > 1 else ""
        self.advance, self.note_once = progress.advance, progress.note_once

    def start(self, label: str, total: int, done: int = 0, unit: str = "images") -> None:
        self._progress.start(self._prefix + label, total, done, unit)
