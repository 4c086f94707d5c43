"""Workers as actors of a Ray cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.failures import describe_error
from gauntlet.evaluation.execution.workers.orders import Delivery, Order
from gauntlet.evaluation.execution.workers.pool import Delivered, Died, Event, Failed, Ready, Refused
from gauntlet.evaluation.execution.workers.proof import Station, UnfitError
from gauntlet.extras import install_command

_RAY_NAMES = {"num_cpus": "CPU", "num_gpus": "GPU"}


@dataclass(eq=False)
class RayWorker:
    """One actor.

    Attributes:
        actor: Ray's handle.
        answers: references of what it has not answered yet, oldest first; the first of all is that of its start.
        node: Ray's id of the machine; "" before it has started.
    """

    actor: Any
    answers: list[Any] = field(default_factory=list)
    node: str = ""


class RayPool:
    """Actors on a cluster.

    Args:
        ray: the module, connected to the cluster.
        threads: torch threads of a worker.
        resources: what Ray is asked to reserve for one.
    """

    def __init__(self, ray: Any, threads: int, resources: dict[str, int]) -> None:
        self._ray, self._threads = ray, threads
        self._actors = ray.remote(**resources, max_restarts=0)(_actor_class())
        self._workers: list[RayWorker] = []
        self._needed = {_RAY_NAMES[name]: number for name, number in resources.items()}
        self._refused: set[str] = set()

    def start(self) -> RayWorker:
        actor = self._actors.options(label_selector=self._allowed_nodes()).remote()
        worker = RayWorker(actor, [actor.start.remote(self._threads)])
        self._workers.append(worker)
        return worker

    def _allowed_nodes(self) -> dict[str, str] | None:
        """Labels of the nodes that were not refused; an error where none of them is alive, which Ray would wait for."""
        if not self._refused:
            return None
        large = [node for node in self._ray.nodes() if node["Alive"] and self._has_room(node["Resources"])]
        if all(node["NodeID"] in self._refused for node in large):
            raise GauntletError("no host is left that has what the run has; the others are gone or were refused.")
        return {"ray.io/node-id": f"!in({','.join(sorted(self._refused))})"}

    def _has_room(self, resources: dict[str, float]) -> bool:
        """Whether a node is large enough for a worker, however busy it is."""
        return all(resources.get(name, 0) >= number for name, number in self._needed.items())

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
        if not worker.node:
            worker.node, host, versions, why = answer
            if versions is None:
                return Refused(worker, host, f"this version of Gauntlet does not start there ({why})")
            return Ready(worker, Station(host, versions))
        return Delivered(worker, answer)

    def dismiss(self, worker: RayWorker) -> None:
        self._refused.add(worker.node)
        self._workers.remove(worker)
        self._ray.kill(worker.actor)

    def close(self) -> None:
        for worker in self._workers:
            self._ray.kill(worker.actor)


def _actor_class() -> type:
    """The class of the actors.

    It is made in a function so that Ray sends its code, not its name: it runs on hosts that have another version of
    this package, or a broken one, and says where it is.
    """

    class Actor:
        """A worker, loaded when it starts."""

        def start(self, threads: int) -> tuple[str, str, dict[str, str] | None, str]:
            """Ray's id of the machine, the host, its versions, and why it cannot work, if so."""
            import socket

            import ray

            node, host = ray.get_runtime_context().get_node_id(), socket.gethostname()
            try:
                from gauntlet.evaluation.execution.workers.proof import station_here
                from gauntlet.evaluation.execution.workers.worker import Worker

                self._worker = Worker(threads)
                return node, host, dict(station_here().versions), ""
            except Exception as error:
                return node, host, None, f"{type(error).__name__}: {error}"

        def compute(self, order: Order) -> Delivery:
            """The rows of one unit."""
            return self._worker.compute(order)

    return Actor


def start_ray(address: str | None) -> Any:
    """The module, connected: to a new cluster on this machine where no address is given."""
    try:
        import ray
    except ImportError:
        raise GauntletError(f"Ray is not installed; run: {install_command('cluster')}.") from None
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    except (ConnectionError, ray.exceptions.RayError) as error:
        raise GauntletError(
            f"no Ray cluster answers at '{address}': {describe_error(error)}; a cluster with a token needs "
            "RAY_AUTH_MODE=token and the same token on every machine, this one too."
        ) from None
    return ray
