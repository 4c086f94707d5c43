"""Evaluations on a Ray cluster: workers compute units, the driver alone writes the store."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.evaluation.jobs import RunningJob, begin_job, finish_job
from gauntlet.evaluation.pipeline import Unit
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry, PlannedJob
from gauntlet.evaluation.progress import Progress
from gauntlet.evaluation.provenance import choose_device
from gauntlet.evaluation.runner import Failure, describe_error
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
        from gauntlet.evaluation.jobs import compute_groups, ready_model
        from gauntlet.evaluation.pipeline import load_unit
        from gauntlet.evaluation.plan import open_dataset
        from gauntlet.evaluation.task import build_task
        from gauntlet.models import resolve_model
        from gauntlet.threats import rebuild_threat

        began = time.perf_counter()
        if repr(order.dataset) not in self._datasets:
            self._datasets[repr(order.dataset)] = open_dataset(order.dataset)
        dataset = self._datasets[repr(order.dataset)]
        if self._model is None or self._model[0] != order.model:
            self._model = (order.model, resolve_model(order.model.address, **order.model.options).load())
        model = ready_model(self._model[1], dataset, choose_device(order.device))
        threat = rebuild_threat(order.threat)
        task = build_task(model.task, order.metric, precision=order.precision)
        groups = load_unit(dataset, order.unit, threat, model, order.seed, model.device)
        rows, views = compute_groups(model, threat, task, groups)
        return Delivery(rows, views, time.perf_counter() - began)


@dataclass
class _Task:
    """A unit on its way: whose it is, and how often it was tried."""

    job: int
    unit: Unit
    tries: int = 0
    error: str = ""


@dataclass
class _Hand:
    """A worker as the driver sees it."""

    actor: Any
    starting: Any  # the reference of its first answer; None once it has come: only then it is given work
    model: ModelEntry | None = None
    flying: list[tuple[Any, _Task]] = field(default_factory=list)


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
        make = ray.remote(**resources, max_restarts=0)(Worker).remote

        def hire() -> _Hand:
            actor = make(self.cpus_per_worker)
            return _Hand(actor, actor.ready.remote())

        run = _Run(jobs, store, progress, ray, [hire() for _ in range(count)], hire, self, on_gpus=gpus > 0)
        try:
            yield from run.loop()
        finally:
            for hand in run.hands:
                ray.kill(hand.actor)
            if self.address is None:
                ray.shutdown()


class _Run:
    """The driver's loop over one list of jobs."""

    def __init__(
        self,
        jobs: Sequence[PlannedJob],
        store: Store,
        progress: Progress,
        ray: Any,
        hands: list[_Hand],
        hire: Callable[[], _Hand],
        executor: RayExecutor,
        *,
        on_gpus: bool,
    ) -> None:
        self.jobs, self.store, self.progress, self.ray = jobs, store, progress, ray
        self.hands, self._hire = hands, hire
        self._device = torch.device("cuda" if on_gpus else "cpu")  # of the workers; the driver may have none
        self._deaths_at_start = 0
        self._running: list[RunningJob] = []
        self._left: list[int] = []
        self._failed: dict[int, str] = {}
        self._queues: dict[str, deque[_Task]] = {}
        for index, planned in enumerate(jobs):
            running = begin_job(
                store, planned.job, planned.dataset, planned.settings, self._device, threads=executor.cpus_per_worker
            )
            store.forget_failures(running.started)
            units = running.units_left()
            self._running.append(running)
            self._left.append(len(units))
            self._queue_of(planned).extend(_Task(index, unit) for unit in units)

    def loop(self) -> Iterator[Evaluation | Failure]:
        images = sum(running.images for running in self._running)
        done = sum(len(running.done) for running in self._running)
        self.progress.start(f"{len(self.jobs)} evaluations on {len(self.hands)} workers", images, done)
        for index, left in enumerate(self._left):
            if left == 0:  # every image was committed before, only the figures are missing
                yield finish_job(self._running[index])
        while any(hand.flying for hand in self.hands) or any(self._queues.values()):
            refs = [hand.starting for hand in self.hands if hand.starting is not None]
            refs += [ref for hand in self.hands for ref, _ in hand.flying]
            (first, *_), _ = self.ray.wait(refs, num_returns=1)
            started = next((hand for hand in self.hands if hand.starting is first), None)
            if started is not None:
                self._started(started)
            else:
                for ended in self._collect(first):
                    yield self._end(ended)
            self._fill()

    def _started(self, hand: _Hand) -> None:
        """A worker has found a place; one that died before it could answer is replaced."""
        try:
            self.ray.get(hand.starting)
            hand.starting = None
        except self.ray.exceptions.RayActorError:
            self._deaths_at_start += 1
            if self._deaths_at_start > MAX_TRIES * len(self.hands):
                raise GauntletError("Ray's workers die before they start; see Ray's own logs.") from None
            self.hands[self.hands.index(hand)] = self._hire()

    def _queue_of(self, planned: PlannedJob) -> deque[_Task]:
        return self._queues.setdefault(repr(planned.model_entry), deque())

    def _fill(self) -> None:
        """Gives every worker units, of the model it has loaded while there are any."""
        for hand in self.hands:
            while hand.starting is None and len(hand.flying) < IN_FLIGHT:
                queue = self._choose_queue(hand)
                if queue is None:
                    break
                task = queue.popleft()
                planned = self.jobs[task.job]
                hand.model = planned.model_entry
                hand.flying.append((hand.actor.compute.remote(self._order(planned, task.unit)), task))

    def _choose_queue(self, hand: _Hand) -> deque[_Task] | None:
        own = self._queues.get(repr(hand.model))
        if own:
            return own
        taken = {repr(other.model) for other in self.hands if other is not hand}
        waiting = [(name in taken, -len(queue), queue) for name, queue in self._queues.items() if queue]
        return min(waiting, key=lambda each: each[:2])[2] if waiting else None

    def _order(self, planned: PlannedJob, unit: Unit) -> Order:
        from gauntlet.evaluation.task import TASKS

        assert planned.model_entry is not None
        assert planned.dataset_entry is not None
        return Order(
            planned.model_entry,
            planned.dataset_entry,
            planned.threat.describe(),
            TASKS[planned.job.task].metric_options(planned.dataset),
            planned.settings.seed,
            planned.settings.precision,
            str(self._device),
            unit,
        )

    def _collect(self, ref: Any) -> Iterator[int]:
        """Takes in one finished call; yields the job that ended with it, if one did."""
        hand, task = next((hand, task) for hand in self.hands for each, task in hand.flying if each is ref)
        try:
            delivery = self.ray.get(ref)
        except self.ray.exceptions.RayActorError as error:
            yield from self._worker_died(hand, str(error).splitlines()[0])
            return
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            hand.flying = [pair for pair in hand.flying if pair[0] is not ref]
            yield from self._try_again(task, describe_error(cause))
            return
        hand.flying = [pair for pair in hand.flying if pair[0] is not ref]
        running = self._running[task.job]
        running.commit(task.unit, delivery.rows, delivery.views, delivery.seconds)
        self.progress.advance(len(delivery.rows), running.figure, running.running.name)
        yield from self._one_less(task.job)

    def _worker_died(self, hand: _Hand, reason: str) -> Iterator[int]:
        """The unit it computed is tried again, the one that waited goes back as it was; a new worker takes over."""
        self.progress.note_once(f"a worker died ({reason}); its work is done again by another.")
        (_, computed), *waited = hand.flying
        self.hands[self.hands.index(hand)] = self._hire()
        for _, task in waited:
            self._queue_of(self.jobs[task.job]).appendleft(task)
        yield from self._try_again(computed, f"the worker died: {reason}")

    def _try_again(self, task: _Task, error: str) -> Iterator[int]:
        task.tries, task.error = task.tries + 1, error
        if task.tries < MAX_TRIES:
            self._queue_of(self.jobs[task.job]).append(task)
            return
        self.store.set_aside(self._running[task.job].started, task.unit.start, task.unit.stop, error)
        self._failed[task.job] = f"images {task.unit.start} to {task.unit.stop - 1}, {MAX_TRIES} tries: {error}"
        yield from self._one_less(task.job)

    def _one_less(self, job: int) -> Iterator[int]:
        self._left[job] -= 1
        if self._left[job] == 0:
            yield job

    def _end(self, job: int) -> Evaluation | Failure:
        if job in self._failed:
            return Failure(self.jobs[job], self._failed[job])
        return finish_job(self._running[job])


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
