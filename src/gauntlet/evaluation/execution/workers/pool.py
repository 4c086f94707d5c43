"""Workers as the driver sees them, wherever they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from gauntlet.evaluation.execution.workers.orders import Delivery, Order
from gauntlet.evaluation.execution.workers.proof import Station

WorkerHandle = Any
"""How a pool names one of its workers; the driver only compares handles by identity."""


@dataclass(frozen=True)
class Ready:
    """A worker has started and takes orders.

    Attributes:
        worker: which one.
        station: where it runs, and with which versions.
    """

    worker: WorkerHandle
    station: Station


@dataclass(frozen=True)
class Refused:
    """A worker has a place, but cannot work there.

    Attributes:
        worker: which one.
        host: name of the machine.
        why: the reason, in one line.
    """

    worker: WorkerHandle
    host: str
    why: str


@dataclass(frozen=True)
class Delivered:
    """A worker has computed the oldest of its orders."""

    worker: WorkerHandle
    delivery: Delivery


@dataclass(frozen=True)
class Failed:
    """A worker could not compute the oldest of its orders, and goes on with the next.

    Attributes:
        worker: which one.
        error: why, in one line.
        final: whether it is bad input, which fails again however often it is tried.
        unfit: whether the worker has other data, another model or other code than the run.
    """

    worker: WorkerHandle
    error: str
    final: bool = False
    unfit: bool = False


@dataclass(frozen=True)
class Died:
    """A worker is gone, and its orders with it."""

    worker: WorkerHandle
    reason: str


Event = Ready | Refused | Delivered | Failed | Died


class Pool(Protocol):
    """Starts workers, gives them orders, and reports what becomes of them."""

    def start(self) -> WorkerHandle:
        """A new worker; `wait` says when it is ready."""

    def send(self, worker: WorkerHandle, order: Order) -> None:
        """Gives a worker an order; it computes its orders one after the other."""

    def wait(self, seconds: float | None = None) -> Event | None:
        """The next thing that happens to any worker; None when nothing does for some seconds."""

    def dismiss(self, worker: WorkerHandle) -> None:
        """Ends a worker that is refused; nothing more is heard of it, and on a cluster none is started on its host."""

    def close(self) -> None:
        """Ends every worker."""
