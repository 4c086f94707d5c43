"""A worker process; `processes.ProcessPool` starts it with its end of a socket."""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the driver decides what follows

import os  # noqa: E402
import queue  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from multiprocessing.connection import Connection  # noqa: E402

import torch  # noqa: E402

from gauntlet.errors import GauntletError  # noqa: E402
from gauntlet.evaluation.execution.failures import describe_error  # noqa: E402
from gauntlet.evaluation.execution.workers.orders import Delivery, Order, Refusal  # noqa: E402
from gauntlet.evaluation.execution.workers.proof import UnfitError  # noqa: E402
from gauntlet.evaluation.execution.workers.worker import Worker  # noqa: E402


def serve(connection: Connection, folder: str, device: str) -> None:
    """The life of a worker process: orders in, deliveries out, until the driver is gone."""
    orders: queue.SimpleQueue[Order | Exception] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(connection, orders, folder), daemon=True).start()
    if device.startswith("cuda"):
        torch.cuda.set_device(torch.device(device))
    worker = Worker(threads=1)
    connection.send(worker.ready())
    while True:
        connection.send(_answer(worker, orders.get()))


def _read(connection: Connection, orders: queue.SimpleQueue[Order | Exception], folder: str) -> None:
    """Takes in orders while the worker computes; ends the process at once when the driver is gone."""
    try:
        while True:
            data = connection.recv_bytes()
            try:
                orders.put(_loaded(data))
            except Exception as error:  # an order that cannot be read here is refused, not waited for
                orders.put(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # a driver that was killed could not do it
        os._exit(1)


def _loaded(data: bytes) -> Order:
    import pickle

    order: Order = pickle.loads(data)  # nosec B301 # from our own driver, by a pair of sockets
    return order


def _answer(worker: Worker, order: Order | Exception) -> Delivery | Refusal:
    if isinstance(order, Exception):
        return Refusal(describe_error(order), final=True)
    try:
        return worker.compute(order)
    except Exception as error:
        unfit = isinstance(error, UnfitError)
        return Refusal(describe_error(error), final=isinstance(error, GauntletError), unfit=unfit)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), sys.argv[2], sys.argv[3])
