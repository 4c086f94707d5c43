"""Evaluations on a Ray cluster: workers compute units, the driver alone writes the store."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.evaluation.counting import COUNTERS
from gauntlet.evaluation.failures import Failure, describe_error
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.evaluation.progress import Progress
from gauntlet.evaluation.provenance import choose_device
from gauntlet.evaluation.session import Session, begin_session
from gauntlet.evaluation.units import Unit
from gauntlet.metrics import Views
from gauntlet.results.record import Evaluation, ImageRow
from gauntlet.results.store import Store

MAX_TRIES = 3
IN_FLIGHT = 2  # units a worker has in hand: one it computes, one that waits, so that it never idles


@dataclass(frozen=True)
class Order:
    """A unit of work, as it travels to a worker: small, and enough to build everything there."""

    model: ModelEntry
    dataset: DatasetEntry
    threat: dict[str, Any]
    metric: dict[str, Any]
    seed: int
    precision: str
    device: str
    unit: Unit


@dataclass(frozen=True)
class Delivery:
    """What a worker sends back: counts, a few hundred bytes an image."""

    rows: list[ImageRow]
    views: Views
    seconds: float


class Worker:
    """Keeps one model loaded and computes units with it; lives in a process of its own."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self._model: tuple[ModelEntry, Any] | None = None
        self._datasets: dict[str, Any] = {}

    def ready(self) -> bool:
        """Answers as soon as the worker has a place to run."""
        return True

    def compute(self, order: Order) -> Delivery:
        """The rows of one unit."""
        from gauntlet.evaluation.counting import build_counter
        from gauntlet.evaluation.jobs import ready_model
        from gauntlet.evaluation.plan import open_dataset
        from gauntlet.evaluation.units import UnitComputer
        from gauntlet.models import resolve_model
        from gauntlet.threats import rebuild_threat

        began = time.perf_counter()
        if repr(order.dataset) not in self._datasets:
            self._datasets[repr(order.dataset)] = open_dataset(order.dataset)
        dataset = self._datasets[repr(order.dataset)]
        if self._model is None or self._model[0] != order.model:
            self._model = (order.model, resolve_model(order.model.address, **order.model.options).load())
        model = ready_model(self._model[1], dataset, choose_device(order.device))
        counter = build_counter(model.task, order.metric, precision=order.precision)
        threat = rebuild_threat(order.threat)
        computer = UnitComputer(dataset, model, threat, order.seed, counter, model.device)
        rows, views = computer.compute(computer.load(order.unit))
        return Delivery(rows, views, time.perf_counter() - began)


@dataclass
class _PendingUnit:
    """A unit that is not committed: whose it is, and how often it was tried."""

    job: int
    unit: Unit
    tries: int = 0


@dataclass
class _WorkerHandle:
    """A worker as the driver sees it.

    Attributes:
        actor: Ray's handle.
        starting: the reference of its first answer; None once it has come, and only then it is given work.
        model: what it has loaded, or will have.
        calls: units it was given and has not delivered, with the references of their answers, oldest first.
    """

    actor: Any
    starting: Any
    model: ModelEntry | None = None
    calls: list[tuple[Any, _PendingUnit]] = field(default_factory=list)


@dataclass
class RayExecutor:
    """Runs units on Ray actors.

    Attributes:
        address: of the cluster; None starts one on this machine, "auto" joins the one that is running.
        cpus_per_worker: cores, and torch threads, of a worker on machines without a GPU.
        workers: how many; as many as the cluster has room for by default.
    """

    address: str | None = None
    cpus_per_worker: int = 1
    workers: int | None = None

    def run(
        self, jobs: Sequence[PlannedJob], store: Store, progress: Progress, *, again: bool = False
    ) -> Iterator[Evaluation | Failure]:
        """Yields every job as it ends; a job with a unit that failed for good ends as a Failure."""
        for planned in jobs:
            if planned.model_entry is None or planned.dataset_entry is None:
                raise GauntletError("a cluster needs models and datasets that have an address, not objects in memory.")
        ray = _start_ray(self.address)
        if again:
            for planned in jobs:
                store.delete(planned.job.key)
        gpus = int(ray.cluster_resources().get("GPU", 0))
        count = self.workers or gpus or max(1, int(ray.cluster_resources().get("CPU", 1)) // self.cpus_per_worker)
        resources = {"num_gpus": 1} if gpus else {"num_cpus": self.cpus_per_worker}
        make_actor = ray.remote(**resources, max_restarts=0)(Worker).remote

        def start_worker() -> _WorkerHandle:
            actor = make_actor(self.cpus_per_worker)
            return _WorkerHandle(actor, actor.ready.remote())

        device = torch.device("cuda" if gpus else "cpu")  # of the workers; the driver may have none
        sessions = [begin_session(store, planned, device, threads=self.cpus_per_worker) for planned in jobs]
        driver = _Driver(jobs, sessions, progress, ray, start_worker, count, str(device))
        try:
            yield from driver.run()
        finally:
            for worker in driver.workers:
                ray.kill(worker.actor)
            if self.address is None:
                ray.shutdown()


class _Driver:
    """Hands out the units of some jobs to workers, and commits what they deliver.

    Args:
        jobs, sessions: what is computed, and where it goes; one session per job.
        progress: told what is going on.
        ray: the module.
        start_worker: makes a new worker.
        count: how many workers there are.
        device: of the workers.
    """

    def __init__(
        self,
        jobs: Sequence[PlannedJob],
        sessions: Sequence[Session],
        progress: Progress,
        ray: Any,
        start_worker: Callable[[], _WorkerHandle],
        count: int,
        device: str,
    ) -> None:
        self._jobs, self._sessions, self._progress, self._ray, self._device = jobs, sessions, progress, ray, device
        self._start_worker = start_worker
        self._deaths_at_start = 0
        self._units_left: list[int] = []
        self._failed: dict[int, str] = {}
        self._queues: dict[str, deque[_PendingUnit]] = {}
        for index, (planned, session) in enumerate(zip(jobs, sessions, strict=True)):
            session.store.forget_failures(session.started)
            units = session.units_left()
            self._units_left.append(len(units))
            self._queue_of(planned).extend(_PendingUnit(index, unit) for unit in units)
        self.workers = [start_worker() for _ in range(count)]

    def run(self) -> Iterator[Evaluation | Failure]:
        """Yields every job as it ends."""
        images = sum(session.images for session in self._sessions)
        done = sum(len(session.done) for session in self._sessions)
        self._progress.start(f"{len(self._jobs)} evaluations on {len(self.workers)} workers", images, done)
        for index, left in enumerate(self._units_left):
            if left == 0:  # every image was committed before, only the figures are missing
                yield self._sessions[index].finish()
        while any(worker.calls for worker in self.workers) or any(self._queues.values()):
            answers = [worker.starting for worker in self.workers if worker.starting is not None]
            answers += [answer for worker in self.workers for answer, _ in worker.calls]
            (first, *_), _ = self._ray.wait(answers, num_returns=1)
            started = next((worker for worker in self.workers if worker.starting is first), None)
            if started is not None:
                self._check_start(started)
            else:
                for index in self._collect(first):
                    yield self._end(index)
            self._hand_out()

    def _check_start(self, worker: _WorkerHandle) -> None:
        """Marks a worker as started; one that died before it could answer is replaced."""
        try:
            self._ray.get(worker.starting)
            worker.starting = None
        except self._ray.exceptions.RayActorError:
            self._deaths_at_start += 1
            if self._deaths_at_start > MAX_TRIES * len(self.workers):
                raise GauntletError("Ray's workers die before they start; see Ray's own logs.") from None
            self._replace(worker)

    def _replace(self, worker: _WorkerHandle) -> None:
        self.workers[self.workers.index(worker)] = self._start_worker()

    def _queue_of(self, planned: PlannedJob) -> deque[_PendingUnit]:
        return self._queues.setdefault(repr(planned.model_entry), deque())

    def _hand_out(self) -> None:
        """Gives every worker units, of the model it has loaded while there are any."""
        for worker in self.workers:
            while worker.starting is None and len(worker.calls) < IN_FLIGHT:
                queue = self._choose_queue(worker)
                if queue is None:
                    break
                pending = queue.popleft()
                planned = self._jobs[pending.job]
                worker.model = planned.model_entry
                worker.calls.append((worker.actor.compute.remote(self._order(planned, pending.unit)), pending))

    def _choose_queue(self, worker: _WorkerHandle) -> deque[_PendingUnit] | None:
        own = self._queues.get(repr(worker.model))
        if own:
            return own
        taken = {repr(other.model) for other in self.workers if other is not worker}
        waiting = [(name in taken, -len(queue), queue) for name, queue in self._queues.items() if queue]
        return min(waiting, key=lambda each: each[:2])[2] if waiting else None

    def _order(self, planned: PlannedJob, unit: Unit) -> Order:
        assert planned.model_entry is not None
        assert planned.dataset_entry is not None
        return Order(
            planned.model_entry,
            planned.dataset_entry,
            planned.threat.describe(),
            COUNTERS[planned.job.task].metric_options(planned.dataset),
            planned.settings.seed,
            planned.settings.precision,
            self._device,
            unit,
        )

    def _collect(self, answer: Any) -> Iterator[int]:
        """Takes in one finished call; yields the job that ended with it, if one did."""
        worker, pending = next(
            (worker, pending) for worker in self.workers for each, pending in worker.calls if each is answer
        )
        try:
            delivery = self._ray.get(answer)
        except self._ray.exceptions.RayActorError as error:
            yield from self._after_death(worker, str(error).splitlines()[0])
            return
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            worker.calls = [call for call in worker.calls if call[0] is not answer]
            yield from self._try_again(pending, describe_error(cause))
            return
        worker.calls = [call for call in worker.calls if call[0] is not answer]
        session = self._sessions[pending.job]
        session.commit(pending.unit, delivery.rows, delivery.views, delivery.seconds)
        self._progress.advance(len(delivery.rows), session.figure, session.running_figure.name)
        yield from self._one_less(pending.job)

    def _after_death(self, worker: _WorkerHandle, reason: str) -> Iterator[int]:
        """The unit it computed is tried again, the one that waited goes back as it was; a new worker takes over."""
        self._progress.note_once(f"a worker died ({reason}); its work is done again by another.")
        (_, computed), *waited = worker.calls
        self._replace(worker)
        for _, pending in waited:
            self._queue_of(self._jobs[pending.job]).appendleft(pending)
        yield from self._try_again(computed, f"the worker died: {reason}")

    def _try_again(self, pending: _PendingUnit, error: str) -> Iterator[int]:
        """Puts a unit back into its queue; after the last try it is set aside. Yields its job if that ended it."""
        pending.tries += 1
        if pending.tries < MAX_TRIES:
            self._queue_of(self._jobs[pending.job]).append(pending)
            return
        session, unit = self._sessions[pending.job], pending.unit
        session.store.set_aside(session.started, unit.start, unit.stop, error)
        self._failed[pending.job] = f"images {unit.start} to {unit.stop - 1}, {MAX_TRIES} tries: {error}"
        yield from self._one_less(pending.job)

    def _one_less(self, job: int) -> Iterator[int]:
        """Counts a unit of a job as ended; yields the job when it was the last one."""
        self._units_left[job] -= 1
        if self._units_left[job] == 0:
            yield job

    def _end(self, job: int) -> Evaluation | Failure:
        if job in self._failed:
            return Failure(self._jobs[job], self._failed[job])
        return self._sessions[job].finish()


def _start_ray(address: str | None) -> Any:
    try:
        import ray
    except ImportError:
        raise GauntletError("Ray is not installed; run: pip install 'vision-gauntlet[cluster]'.") from None
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    except ConnectionError as error:
        raise GauntletError(f"no Ray cluster answers at '{address}': {error}.") from None
    return ray
