"""Workers as processes of this machine, one torch thread each.

A worker is a fresh interpreter at the other end of a socket. It is not forked and does not import the caller's main
module, so a notebook or a script without a main guard can start workers, and no thread or connection is inherited.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.evaluation.execution.workers.orders import Delivery, Order, PickledFile, Refusal
from gauntlet.evaluation.execution.workers.pool import Delivered, Died, Event, Failed, Ready
from gauntlet.models import GauntletModel

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_PATHS = "GAUNTLET_WORKER_PATHS"
# What the driver can import, the worker can too, and the same copy of this package; but the driver's folders come last:
# a file queue.py in the working folder must not be taken for Python's.
_START = f"""
import os, sys
sys.path = [each for each in sys.path if each]
sys.path += [each for each in os.environ[{_PATHS!r}].split(os.pathsep) if each not in sys.path]
sys.path.insert(0, {str(Path(__file__).resolve().parents[4])!r})
import gauntlet
del sys.path[0]
import runpy
runpy.run_module({__package__!r}, run_name="__main__")
"""
_PATIENCE = 5.0  # seconds that a worker without a connection has to exit by itself


@dataclass(eq=False)
class ProcessWorker:
    """One worker process and the driver's end of its socket."""

    process: subprocess.Popen[bytes]
    connection: Connection


class ProcessPool:
    """Worker processes on this machine.

    Args:
        devices: the devices that workers are started on, in turn; one worker per device at a time.
    """

    def __init__(self, devices: list[str]) -> None:
        self._devices = devices
        self._workers: dict[str, ProcessWorker] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="gauntlet-workers-"))

    def start(self) -> ProcessWorker:
        place = next(name for name in self._places() if name not in self._workers)
        ours, theirs = socket.socketpair()
        environment = {**os.environ, **dict.fromkeys(_THREADS, "1"), _PATHS: os.pathsep.join(map(_absolute, sys.path))}
        command = [sys.executable, "-c", _START, str(theirs.fileno()), str(self._folder), place.partition(" ")[2]]
        process = subprocess.Popen(  # nosec B603 # our own module
            command,
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=2,  # what a library prints must not end up in the driver's own output
        )
        theirs.close()
        worker = ProcessWorker(process, Connection(ours.detach()))
        self._workers[place] = worker
        return worker

    def _places(self) -> list[str]:
        """A name for the place of every worker, such as "3 cpu"."""
        return [f"{index} {device}" for index, device in enumerate(self._devices)]

    def send(self, worker: ProcessWorker, order: Order) -> None:
        with contextlib.suppress(OSError):  # a worker that is gone is reported by `wait`
            worker.connection.send(order)

    def wait(self, seconds: float | None = None) -> Event | None:
        connections = {worker.connection: worker for worker in self._workers.values()}
        first = next(iter(wait(list(connections), seconds)), None)
        if first is None:
            return None
        worker = connections[first]  # type: ignore[index] # only connections were given
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            return Died(worker, self._bury(worker))
        if isinstance(answer, Delivery):
            return Delivered(worker, answer)
        if isinstance(answer, Refusal):
            return Failed(worker, answer.error, answer.final, answer.unfit)
        return Ready(worker, answer)

    def _bury(self, worker: ProcessWorker) -> str:
        """Removes a worker that is gone; gives the reason."""
        self._workers = {place: each for place, each in self._workers.items() if each is not worker}
        worker.connection.close()
        try:
            code = worker.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            code = worker.process.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"it exited with {code}"

    def dismiss(self, worker: ProcessWorker) -> None:
        worker.process.kill()
        self._bury(worker)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.process.wait()
            worker.connection.close()
        self._workers.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def share_model(self, model: GauntletModel, name: str) -> PickledFile | None:
        """A model as a file that every worker maps into its memory; None for one that cannot be pickled."""
        path = self._folder / f"{name}.pt"
        if any(_only_lives_here(type(module)) for module in model.modules()):
            return None
        try:
            torch.save(model, path)
        except Exception:  # pickling runs foreign code
            path.unlink(missing_ok=True)
            return None
        return PickledFile(str(path))

    def share_dataset(self, dataset: Dataset, name: str) -> PickledFile | None:
        """A dataset as a file; None for one that cannot be pickled."""
        if _only_lives_here(type(dataset)):
            return None
        try:
            data = pickle.dumps(dataset)
        except Exception:  # pickling runs foreign code
            return None
        path = self._folder / f"{name}.pkl"
        path.write_bytes(data)
        return PickledFile(str(path))


def _only_lives_here(kind: type) -> bool:
    """Whether a class is of the main script or notebook, which workers do not import."""
    return kind.__module__ == "__main__"


def _absolute(path: str) -> str:
    return path or os.getcwd()
