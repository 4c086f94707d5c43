"""The driver: hands out the units of some jobs to workers, and alone writes what they deliver to the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gauntlet.errors import GauntletError
from gauntlet.evaluation.counting import metric_options
from gauntlet.evaluation.execution.failures import Failure, describe_error
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.evaluation.execution.session import Session, awaited
from gauntlet.evaluation.execution.units import Unit
from gauntlet.evaluation.execution.workers.orders import Delivery, Order, PickledFile
from gauntlet.evaluation.execution.workers.pool import Delivered, Died, Failed, Pool, Ready, Refused, WorkerHandle
from gauntlet.evaluation.execution.workers.proof import Expected, Station, station_here
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.results.claims import LOOK
from gauntlet.results.record import Evaluation
from gauntlet.results.schema import COMPLETE
from gauntlet.results.store import Store

MAX_TRIES = 3
IN_FLIGHT = 2  # orders a worker has in hand: one it computes, one that waits, so that it never idles

ModelAddress = ModelEntry | PickledFile
DatasetAddress = DatasetEntry | PickledFile


@dataclass(frozen=True)
class Begun:
    """A job whose units can be handed out: where its counts go, and where a worker finds its model and its dataset."""

    session: Session
    model: ModelAddress
    dataset: DatasetAddress


Begin = Callable[[PlannedJob], Begun]
"""Begins a job; called when the first of its units is handed out, and not before."""


@dataclass
class _PendingUnit:
    """A unit that is not committed.

    Attributes:
        job, unit: whose it is, and which images.
        tries: how often it failed.
        chooses: whether the worker that has it measures how the model is prepared.
    """

    job: int
    unit: Unit
    tries: int = 0
    chooses: bool = False


@dataclass
class _Seat:
    """A worker and what it has to do.

    Attributes:
        worker: the pool's handle.
        ready: whether it has started.
        model: what it has loaded, or will have.
        units: what it was given and has not delivered, oldest first.
        station: where it runs; None before it has started.
    """

    worker: WorkerHandle
    ready: bool = False
    model: str = ""
    units: list[_PendingUnit] = field(default_factory=list)
    station: Station | None = None


@dataclass
class _Queue:
    """The work on one model: jobs that are not begun, and units of those that are."""

    jobs: deque[int] = field(default_factory=deque)
    units: deque[_PendingUnit] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self.jobs) + len(self.units)


class Driver:
    """Runs some jobs on the workers of a pool.

    A job is begun, and what `--again` replaces is deleted, when the first of its units is handed out. What goes wrong
    with one job ends that job; the others go on.

    Args:
        jobs: what is computed.
        begin: begins one of them.
        store: where they go; a job that another driver computes into it is begun when it is free.
        progress: told what is going on.
        done: how many images of the jobs are in the store already.
        pool: the workers.
        count: how many of them.
        device: of the workers.
    """

    def __init__(
        self,
        jobs: Sequence[PlannedJob],
        begin: Begin,
        store: Store,
        progress: Progress,
        done: int,
        pool: Pool,
        count: int,
        device: str,
    ) -> None:
        self._jobs, self._begin, self._store, self._progress, self._done = jobs, begin, store, progress, done
        self._pool, self._device = pool, device
        self._begun: dict[int, Begun] = {}
        self._units_left: dict[int, int] = {}
        self._errors: dict[int, str] = {}
        self._ended: list[Evaluation | Failure] = []
        self._claims = store.claims(progress.note_once)
        self._held: list[int] = []
        self._deaths_at_start = 0
        self._refused: set[str] = set()
        self._queues: dict[str, _Queue] = {}
        # By model, dataset and images of a pass: the preparation that a worker chose, None while it measures.
        self._preparations: dict[tuple[str, str, int], tuple[str, ...] | None] = {}
        for index, planned in enumerate(jobs):
            self._queues.setdefault(_model_name(planned), _Queue()).jobs.append(index)
        self._seats = [_Seat(pool.start()) for _ in range(count)]

    def run(self) -> Iterator[Evaluation | Failure]:
        """Yields every job as it ends; a job with a unit that failed for good ends as a Failure."""
        images = sum(len(planned.dataset) for planned in self._jobs)
        only = self._jobs[0].job
        what = f"{only.model} | {only.threat}" if len(self._jobs) == 1 else f"{len(self._jobs)} evaluations"
        self._progress.start(f"{what} on {len(self._seats)} workers", images, self._done)
        with self._claims:
            while any(seat.units for seat in self._seats) or any(self._queues.values()) or self._held:
                self._take_in_event()
                self._queue_held()
                self._hand_out()
                yield from self._ended
                self._ended.clear()

    def _take_in_event(self) -> None:
        """Waits for the next thing that happens to a worker, while other drivers have jobs of ours not for long."""
        event = self._pool.wait(LOOK if self._held else None)
        if event is None:
            return
        seat = next(seat for seat in self._seats if seat.worker is event.worker)
        if isinstance(event, Ready):
            seat.ready, seat.station = True, event.station
            if different := event.station.differences(station_here()):
                self._dismiss(seat, event.station.host, f"it has {different}")
        elif isinstance(event, Refused):
            self._dismiss(seat, event.host, event.why)
        elif isinstance(event, Died):
            self._replace(seat, event.reason)
        elif isinstance(event, Failed) and event.unfit:
            self._dismiss(seat, "?" if seat.station is None else seat.station.host, event.error)
        elif isinstance(event, Failed):
            self._give_back(seat.units.pop(0), event.error, final=event.final)
        elif isinstance(event, Delivered):
            pending = seat.units.pop(0)
            for note in event.delivery.notes:
                self._progress.note_once(note)
            if pending.job in self._begun:  # else its job has ended with an error meanwhile
                self._guarded(pending.job, lambda: self._commit(pending, event.delivery, seat.station))
            self._stop_choosing(pending)  # of a unit whose job has ended

    def _queue_held(self) -> None:
        """Lets jobs that other drivers had be asked for again."""
        for job in self._held:
            self._queues[_model_name(self._jobs[job])].jobs.append(job)
        self._held.clear()

    def _end(self, job: int, ended: Evaluation | Failure) -> None:
        self._claims.give_back(self._jobs[job].job.key)
        self._ended.append(ended)

    def _guarded(self, job: int, action: Callable[[], None]) -> None:
        """Does something for a job; an error ends the job, and only it."""
        try:
            action()
        except Exception as error:
            self._drop(job, describe_error(error))

    def _drop(self, job: int, error: str) -> None:
        """Ends a job with an error; its units are forgotten."""
        self._begun.pop(job, None)
        queue = self._queues[_model_name(self._jobs[job])]
        queue.units = deque(pending for pending in queue.units if pending.job != job)
        self._end(job, Failure(self._jobs[job], error))

    def _commit(self, pending: _PendingUnit, delivery: Delivery, station: Station | None) -> None:
        session = self._begun[pending.job].session
        chosen = session.keep_preparation(delivery.preparation)
        if pending.chooses:
            self._preparations[self._choice_key(pending.job)] = chosen
            pending.chooses = False
        if chosen != delivery.preparation:  # another driver began this evaluation with another choice: that one holds
            self._queues[_model_name(self._jobs[pending.job])].units.appendleft(pending)
            return
        if station is not None:
            session.note_host(station.host, station.facts)
        session.commit(pending.unit, delivery.rows, delivery.views, delivery.seconds)
        self._progress.advance(len(delivery.rows), session.figure, session.running_figure.name)
        self._one_less(pending.job)

    def _replace(self, seat: _Seat, reason: str) -> None:
        """Puts a new worker in the place of a dead one; the unit it computed counts a try, the one that waited none."""
        if not seat.ready:
            self._deaths_at_start += 1
            if self._deaths_at_start > MAX_TRIES * len(self._seats):
                raise GauntletError(f"workers die before they start ({reason}); see what they wrote to the terminal.")
        else:
            self._progress.note_once(f"a worker died ({reason}); its work is done again by another.")
        self._seats[self._seats.index(seat)] = _Seat(self._pool.start())
        for index, pending in enumerate(seat.units):
            self._give_back(pending, f"the worker died: {reason}", counts=index == 0)

    def _dismiss(self, seat: _Seat, host: str, why: str) -> None:
        """Sends a worker away that has something else than the run; the others do its work."""
        refused = f"a worker on the host '{host}' is refused: {why.rstrip('.')}"
        if host not in self._refused:
            self._progress.note_once(f"{refused}.")
        self._refused.add(host)
        self._pool.dismiss(seat.worker)
        self._seats.remove(seat)
        for pending in seat.units:
            self._give_back(pending, refused, counts=False)
        if not self._seats:
            raise GauntletError(f"no worker is left that has what the run has; {refused}.")

    def _give_back(self, pending: _PendingUnit, error: str, *, counts: bool = True, final: bool = False) -> None:
        """Puts a unit that was not computed back into its queue; after the last try it is set aside.

        Args:
            pending: the unit; nothing happens to one whose job has ended meanwhile.
            error: what went wrong.
            counts: whether this was a try; a unit that only waited in a worker that died was not tried.
            final: it would go wrong again, and with the other units too (bad input): the job ends.
        """
        self._stop_choosing(pending)
        if pending.job not in self._begun:
            return
        pending.tries += counts
        if not final and pending.tries < MAX_TRIES:
            self._queues[_model_name(self._jobs[pending.job])].units.append(pending)
        else:
            self._guarded(pending.job, lambda: self._set_aside(pending, error, final=final))

    def _stop_choosing(self, pending: _PendingUnit) -> None:
        """Lets the next unit choose how the model is prepared, if this one was to and has not."""
        if pending.chooses:
            self._preparations.pop(self._choice_key(pending.job), None)
            pending.chooses = False

    def _set_aside(self, pending: _PendingUnit, error: str, *, final: bool) -> None:
        session, unit = self._begun[pending.job].session, pending.unit
        session.store.set_aside(session.started, unit.start, unit.stop, error)
        if final:
            raise GauntletError(error)
        self._errors[pending.job] = f"images {unit.start} to {unit.stop - 1}, {MAX_TRIES} tries: {error}"
        self._one_less(pending.job)

    def _one_less(self, job: int) -> None:
        """Counts a unit of a job as ended, and ends the job with its last one."""
        self._units_left[job] -= 1
        if self._units_left[job] > 0:
            return
        begun = self._begun.pop(job)
        if job in self._errors:
            self._end(job, Failure(self._jobs[job], self._errors[job]))
        else:
            self._end(job, begun.session.finish())

    def _hand_out(self) -> None:
        """Gives every worker units, of the model it has loaded while there are any."""
        for seat in self._seats:
            while seat.ready and len(seat.units) < (IN_FLIGHT if self._plenty_left() else 1):
                pending = self._next_unit(seat)
                if pending is None:
                    break
                begun = self._begun[pending.job]
                seat.model = _model_name(self._jobs[pending.job])
                seat.units.append(pending)
                pending.chooses = begun.session.preparation is None
                if pending.chooses:
                    self._preparations[self._choice_key(pending.job)] = None
                self._pool.send(seat.worker, self._order(self._jobs[pending.job], begun, pending.unit))

    def _plenty_left(self) -> bool:
        """Whether every worker has enough to do for a while: the last units wait for whoever is free first."""
        queues = self._queues.values()
        most = IN_FLIGHT * len(self._seats)
        return any(queue.jobs for queue in queues) or sum(len(queue.units) for queue in queues) > most

    def _next_unit(self, seat: _Seat) -> _PendingUnit | None:
        taken = {other.model for other in self._seats if other is not seat}
        names = sorted(self._queues, key=lambda name: (name != seat.model, name in taken, -len(self._queues[name])))
        for name in names:
            queue = self._queues[name]
            pending = self._startable(queue)
            while pending is None and queue.jobs:
                job = queue.jobs.popleft()
                self._guarded(job, lambda job=job: self._begin_job(job))  # type: ignore[misc]
                pending = self._startable(queue)
            if pending is not None:
                return pending
        return None

    def _begin_job(self, job: int) -> None:
        """Begins a job and queues its units; one that another driver has is held, one it completed ends at once."""
        planned = self._jobs[job]
        if not self._claims.take(planned.job.key):
            self._held.append(job)
            return
        if (stored := awaited(self._claims, self._store, planned)) is not None:
            self._end(job, stored)
            return
        begun = self._begin(planned)
        session = begun.session
        if session.started.state == COMPLETE and (stored := session.store.load(planned.job.key)) is not None:
            self._end(job, stored)
            return
        session.store.forget_failures(session.started)
        units = session.units_left()
        if not units:  # every image was committed before, only the figures are missing
            self._end(job, session.finish())
            return
        self._begun[job], self._units_left[job] = begun, len(units)
        self._queues[_model_name(planned)].units.extend(_PendingUnit(job, unit) for unit in units)

    def _startable(self, queue: _Queue) -> _PendingUnit | None:
        """Takes the first unit whose preparation is settled, or that nobody is settling."""
        for position, pending in enumerate(queue.units):
            try:
                may_start = self._may_start(pending)
            except Exception as error:  # somebody removed the evaluation, or the store is gone
                self._drop(pending.job, describe_error(error))
                return self._startable(queue)
            if may_start:
                del queue.units[position]
                return pending
        return None

    def _may_start(self, pending: _PendingUnit) -> bool:
        session, key = self._begun[pending.job].session, self._choice_key(pending.job)
        if session.preparation is not None or key not in self._preparations:
            return True
        chosen = self._preparations[key]
        if chosen is None:
            return False
        session.keep_preparation(chosen)
        return True

    def _order(self, planned: PlannedJob, begun: Begun, unit: Unit) -> Order:
        return Order(
            begun.model,
            begun.dataset,
            planned.threat.written(),
            metric_options(planned.job.task, planned.dataset, planned.threat, objects=planned.settings.objects),
            planned.settings.seed,
            planned.settings.precision,
            self._device,
            begun.session.started.batch_size,
            planned.settings.prepare,
            begun.session.preparation,
            unit,
            _expected(planned, begun.session, unit),
            begun.session.kept,
        )

    def _choice_key(self, job: int) -> tuple[str, str, int]:
        planned = self._jobs[job]
        dataset = repr(planned.dataset_entry or id(planned.dataset))
        return _model_name(planned), dataset, planned.threat.images_per_pass(planned.settings.batch_size)


def _expected(planned: PlannedJob, session: Session, unit: Unit) -> Expected:
    """What a worker must have for a unit."""
    contents, model = planned.contents, (planned.job.model_digest, planned.job.code)
    probe = None if session.probe is None else session.probe.as_dict()
    used = planned.job.used
    if contents is None:
        return Expected(model, probe, used, planned.dataset.meaning(), ())
    images = () if contents.trusted else tuple(contents.images[position] for position in unit.positions)
    return Expected(model, probe, used, contents.meaning, images)


def _model_name(planned: PlannedJob) -> str:
    return repr(planned.model_entry or id(planned.model))
