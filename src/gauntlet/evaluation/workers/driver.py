"""The driver: hands out the units of some jobs to workers, and alone writes what they deliver to the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gauntlet.errors import GauntletError
from gauntlet.evaluation.counting import COUNTERS
from gauntlet.evaluation.failures import Failure
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.evaluation.progress import Progress
from gauntlet.evaluation.session import Session
from gauntlet.evaluation.units import Unit
from gauntlet.evaluation.workers.orders import Delivery, Order, PickledFile
from gauntlet.evaluation.workers.pool import Delivered, Died, Failed, Pool, Ready, WorkerHandle
from gauntlet.results.record import Evaluation

MAX_TRIES = 3
IN_FLIGHT = 2  # orders a worker has in hand: one it computes, one that waits, so that it never idles

ModelAddress = ModelEntry | PickledFile
DatasetAddress = DatasetEntry | PickledFile
Locate = Callable[[PlannedJob], tuple[ModelAddress, DatasetAddress]]
"""Says where a worker finds the model and the dataset of a job."""


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
    """

    worker: WorkerHandle
    ready: bool = False
    model: str = ""
    units: list[_PendingUnit] = field(default_factory=list)


class Driver:
    """Runs some jobs on the workers of a pool.

    Args:
        jobs, sessions: what is computed, and where it goes; one session per job.
        progress: told what is going on.
        pool: the workers.
        count: how many of them.
        device: of the workers.
        locate: where a worker finds the model and the dataset of a job.
    """

    def __init__(
        self,
        jobs: Sequence[PlannedJob],
        sessions: Sequence[Session],
        progress: Progress,
        pool: Pool,
        count: int,
        device: str,
        locate: Locate,
    ) -> None:
        self._jobs, self._sessions, self._progress, self._pool, self._device = jobs, sessions, progress, pool, device
        self._locate = locate
        self._deaths_at_start = 0
        self._units_left: list[int] = []
        self._failed: dict[int, str] = {}
        self._queues: dict[str, deque[_PendingUnit]] = {}
        # By model and dataset: the preparation that a worker chose, None while it measures.
        self._preparations: dict[tuple[str, str], tuple[str, ...] | None] = {}
        for index, (planned, session) in enumerate(zip(jobs, sessions, strict=True)):
            session.store.forget_failures(session.started)
            units = session.units_left()
            self._units_left.append(len(units))
            self._queue_of(planned).extend(_PendingUnit(index, unit) for unit in units)
        self._seats = [_Seat(pool.start()) for _ in range(count)]

    def run(self) -> Iterator[Evaluation | Failure]:
        """Yields every job as it ends; a job with a unit that failed for good ends as a Failure."""
        images = sum(session.images for session in self._sessions)
        done = sum(len(session.done) for session in self._sessions)
        only = self._jobs[0].job
        what = f"{only.model} | {only.threat}" if len(self._jobs) == 1 else f"{len(self._jobs)} evaluations"
        self._progress.start(f"{what} on {len(self._seats)} workers", images, done)
        for index, left in enumerate(self._units_left):
            if left == 0:  # every image was committed before, only the figures are missing
                yield self._sessions[index].finish()
        while any(seat.units for seat in self._seats) or any(self._queues.values()):
            for job in self._take_in_event():
                yield self._end(job)
            self._hand_out()

    def _take_in_event(self) -> Iterator[int]:
        """Waits for the next thing that happens to a worker; yields the job that ended with it, if one did."""
        event = self._pool.wait()
        seat = next(seat for seat in self._seats if seat.worker is event.worker)
        if isinstance(event, Ready):
            seat.ready = True
        elif isinstance(event, Died):
            yield from self._replace(seat, event.reason)
        elif isinstance(event, Failed):
            yield from self._try_again(seat.units.pop(0), event.error)
        elif isinstance(event, Delivered):
            yield from self._commit(seat.units.pop(0), event.delivery)

    def _commit(self, pending: _PendingUnit, delivery: Delivery) -> Iterator[int]:
        session = self._sessions[pending.job]
        chosen = session.keep_preparation(delivery.preparation)
        if pending.chooses:
            self._preparations[self._pair(self._jobs[pending.job])] = chosen
            pending.chooses = False
        if chosen != delivery.preparation:  # another driver began this evaluation with another choice: that one holds
            self._queue_of(self._jobs[pending.job]).appendleft(pending)
            return
        session.commit(pending.unit, delivery.rows, delivery.views, delivery.seconds)
        self._progress.advance(len(delivery.rows), session.figure, session.running_figure.name)
        yield from self._one_less(pending.job)

    def _replace(self, seat: _Seat, reason: str) -> Iterator[int]:
        """Puts a new worker in the place of a dead one; the unit it computed counts a try, the one that waited none."""
        if not seat.ready:
            self._deaths_at_start += 1
            if self._deaths_at_start > MAX_TRIES * len(self._seats):
                raise GauntletError(f"workers die before they start ({reason}); see what they wrote to the terminal.")
        else:
            self._progress.note_once(f"a worker died ({reason}); its work is done again by another.")
        self._seats[self._seats.index(seat)] = _Seat(self._pool.start())
        for pending in seat.units[1:]:
            self._release(pending)
            self._queue_of(self._jobs[pending.job]).appendleft(pending)
        for pending in seat.units[:1]:
            yield from self._try_again(pending, f"the worker died: {reason}")

    def _try_again(self, pending: _PendingUnit, error: str) -> Iterator[int]:
        """Puts a unit back into its queue; after the last try it is set aside. Yields its job if that ended it."""
        self._release(pending)
        pending.tries += 1
        if pending.tries < MAX_TRIES:
            self._queue_of(self._jobs[pending.job]).append(pending)
            return
        session, unit = self._sessions[pending.job], pending.unit
        session.store.set_aside(session.started, unit.start, unit.stop, error)
        self._failed[pending.job] = f"images {unit.start} to {unit.stop - 1}, {MAX_TRIES} tries: {error}"
        yield from self._one_less(pending.job)

    def _release(self, pending: _PendingUnit) -> None:
        """Leaves the choice of a preparation, which this unit was to make, to the next one."""
        if pending.chooses:
            del self._preparations[self._pair(self._jobs[pending.job])]
            pending.chooses = False

    def _one_less(self, job: int) -> Iterator[int]:
        """Counts a unit of a job as ended; yields the job when it was the last one."""
        self._units_left[job] -= 1
        if self._units_left[job] == 0:
            yield job

    def _end(self, job: int) -> Evaluation | Failure:
        if job in self._failed:
            return Failure(self._jobs[job], self._failed[job])
        return self._sessions[job].finish()

    def _hand_out(self) -> None:
        """Gives every worker units, of the model it has loaded while there are any."""
        for seat in self._seats:
            while seat.ready and len(seat.units) < IN_FLIGHT:
                pending = self._next_unit(seat)
                if pending is None:
                    break
                planned = self._jobs[pending.job]
                seat.model = _model_name(planned)
                seat.units.append(pending)
                session = self._sessions[pending.job]
                pending.chooses = session.preparation is None
                if pending.chooses:
                    self._preparations[self._pair(planned)] = None
                self._pool.send(seat.worker, self._order(planned, session, pending.unit))

    def _next_unit(self, seat: _Seat) -> _PendingUnit | None:
        taken = {other.model for other in self._seats if other is not seat}
        names = sorted(self._queues, key=lambda name: (name != seat.model, name in taken, -len(self._queues[name])))
        for name in names:
            queue = self._queues[name]
            for position, pending in enumerate(queue):
                if self._may_start(pending):
                    del queue[position]
                    return pending
        return None

    def _may_start(self, pending: _PendingUnit) -> bool:
        """Whether the preparation of a unit's model is settled, or nobody is settling it yet."""
        session = self._sessions[pending.job]
        if session.preparation is not None:
            return True
        pair = self._pair(self._jobs[pending.job])
        if pair not in self._preparations:
            return True
        chosen = self._preparations[pair]
        if chosen is None:
            return False
        session.keep_preparation(chosen)
        return True

    def _order(self, planned: PlannedJob, session: Session, unit: Unit) -> Order:
        model, dataset = self._locate(planned)
        return Order(
            model,
            dataset,
            planned.threat.describe(),
            COUNTERS[planned.job.task].metric_options(planned.dataset),
            planned.settings.seed,
            planned.settings.precision,
            self._device,
            session.started.batch_size,
            session.preparation,
            unit,
        )

    def _queue_of(self, planned: PlannedJob) -> deque[_PendingUnit]:
        return self._queues.setdefault(_model_name(planned), deque())

    def _pair(self, planned: PlannedJob) -> tuple[str, str]:
        return _model_name(planned), repr(planned.dataset_entry or id(planned.dataset))


def _model_name(planned: PlannedJob) -> str:
    return repr(planned.model_entry or id(planned.model))
