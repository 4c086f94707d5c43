"""Workers as actors of a Ray cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.failures import describe_error
from gauntlet.evaluation.execution.workers.orders import Order
from gauntlet.evaluation.execution.workers.pool import Delivered, Died, Event, Failed, Ready
from gauntlet.evaluation.execution.workers.proof import UnfitError
from gauntlet.evaluation.execution.workers.worker import Worker
from gauntlet.extras import install_command


@dataclass(eq=False)
class RayWorker:
    """One actor.

    Attributes:
        actor: Ray's handle.
        answers: references of what it has not answered yet, oldest first; the first of all is that of its start.
        ready: whether it has started.
    """

    actor: Any
    answers: list[Any] = field(default_factory=list)
    ready: bool = False


class RayPool:
    """Actors on a cluster.

    Args:
        ray: the module, connected to the cluster.
        threads: torch threads of a worker.
        resources: what Ray is asked to reserve for one.
    """

    def __init__(self, ray: Any, threads: int, resources: dict[str, int]) -> None:
        self._ray, self._threads = ray, threads
        self._make_actor = ray.remote(**resources, max_restarts=0)(Worker).remote
        self._workers: list[RayWorker] = []

    def start(self) -> RayWorker:
        actor = self._make_actor(self._threads)
        worker = RayWorker(actor, [actor.ready.remote()])
        self._workers.append(worker)
        return worker

    def send(self, worker: RayWorker, order: Order) -> None:
        worker.answers.append(worker.actor.compute.remote(order))

    def wait(self, seconds: float | None = None) -> Event | None:
        owners = {worker.answers[0]: worker for worker in self._workers if worker.answers}
        if not owners:  # nobody has anything to do: another driver has it all
            time.sleep(seconds or 0)
            return None
        done, _ = self._ray.wait(list(owners), num_returns=1, timeout=seconds)
        if not done:
            return None
        first = done[0]
        worker = owners[first]
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(first)
        except errors.RayActorError as error:
            self._workers.remove(worker)
            return Died(worker, str(error).splitlines()[0])
        except errors.RayError as error:
            del worker.answers[0]
            cause = getattr(error, "cause", None) or error
            unfit = isinstance(cause, UnfitError)
            return Failed(worker, describe_error(cause), isinstance(cause, GauntletError), unfit)
        del worker.answers[0]
        if not worker.ready:
            worker.ready = True
            return Ready(worker, answer)
        return Delivered(worker, answer)

    def dismiss(self, worker: RayWorker) -> None:
        self._workers.remove(worker)
        self._ray.kill(worker.actor)

    def close(self) -> None:
        for worker in self._workers:
            self._ray.kill(worker.actor)


def start_ray(address: str | None) -> Any:
    """The module, connected: to a new cluster on this machine where no address is given."""
    try:
        import ray
    except ImportError:
        raise GauntletError(f"Ray is not installed; run: {install_command('cluster')}.") from None
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    except ConnectionError as error:
        raise GauntletError(f"no Ray cluster answers at '{address}': {error}.") from None
    return ray
