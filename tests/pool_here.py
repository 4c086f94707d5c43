"""A pool of workers in the process of the test: what the driver does with events, without starting processes."""

from __future__ import annotations

import time
from collections import deque

from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.failures import describe_error
from gauntlet.evaluation.execution.workers.orders import Order
from gauntlet.evaluation.execution.workers.pool import Delivered, Died, Event, Failed, Ready
from gauntlet.evaluation.execution.workers.processes import ProcessPool
from gauntlet.evaluation.execution.workers.proof import UnfitError
from gauntlet.evaluation.execution.workers.worker import Worker


class PoolHere(ProcessPool):
    """Computes an order when the driver waits for it; models and datasets are shared as with processes.

    Attributes:
        deadly: first positions of units during which a worker dies.
    """

    deadly: tuple[int, ...] = ()

    def __init__(self, devices: list[str]) -> None:
        super().__init__(devices)
        self._events: deque[Event | tuple[Worker, Order]] = deque()

    def start(self) -> Worker:  # type: ignore[override]
        worker = Worker(threads=1)
        self._events.append(Ready(worker, worker.ready()))
        return worker

    def send(self, worker: Worker, order: Order) -> None:  # type: ignore[override]
        self._events.append((worker, order))

    def wait(self, seconds: float | None = None) -> Event | None:
        if seconds is not None and not self._events:
            time.sleep(seconds)
            return None
        event = self._events.popleft()
        if not isinstance(event, tuple):
            return event
        worker, order = event
        if order.unit.start in self.deadly:
            self._events = deque(each for each in self._events if not (isinstance(each, tuple) and each[0] is worker))
            return Died(worker, "killed by SIGKILL")
        try:
            return Delivered(worker, worker.compute(order))
        except Exception as error:
            return Failed(
                worker, describe_error(error), isinstance(error, GauntletError), isinstance(error, UnfitError)
            )

    def dismiss(self, worker: Worker) -> None:  # type: ignore[override]
        self._events = deque(each for each in self._events if not (isinstance(each, tuple) and each[0] is worker))
