"""A worker process; `processes.ProcessPool` starts it with its end of a socket."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

import torch

from gauntlet.evaluation.failures import describe_error
from gauntlet.evaluation.workers.orders import READY, Order
from gauntlet.evaluation.workers.worker import Worker


def serve(connection: Connection, folder: str, device: str) -> None:
    """The life of a worker process: orders in, deliveries out, until the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the driver decides what follows
    orders: queue.SimpleQueue[Order] = queue.SimpleQueue()

    def read() -> None:
        """Takes in orders while the worker computes; ends the process at once when the driver is gone."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                orders.put(connection.recv())
        shutil.rmtree(folder, ignore_errors=True)  # a driver that was killed could not do it
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    if device.startswith("cuda"):
        torch.cuda.set_device(torch.device(device))
    worker = Worker(threads=1)
    connection.send(READY)
    while True:
        order = orders.get()
        answer: Any
        try:
            answer = worker.compute(order)
        except Exception as error:
            answer = describe_error(error)
        connection.send(answer)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), sys.argv[2], sys.argv[3])
