"""What the runner costs beside the model: share of time inside it, memory, planning, big stores, workers, Ray.

python benchmarks/runner.py share memory planning store workers busy ray
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gauntlet.evaluation.evaluate import evaluate
from gauntlet.evaluation.execution.local import LocalExecutor
from gauntlet.evaluation.execution.memory import keep_freed_memory
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.execution.runner import Executor, run_jobs
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.metrics import WHOLE, Figure
from gauntlet.metrics.segmentation.counts import SCALARS, ImageCounts
from gauntlet.models import load_model
from gauntlet.models.wrapping import WrappedSegmentation
from gauntlet.results import Store, open_store
from gauntlet.results.record import ImageRow, Job

MODEL = "streets/enet"
BATCH = 4
WINDOW = 30.0
"""Seconds that `workers` and `busy` give to each side."""


def share(images: int) -> None:
    """Share of time inside the model's forward and backward passes, suite semsegbench, in one process.

    First one `evaluate` per job, as 0.1.0 was measured and as the bar of 95 % means it; then as `gauntlet run` does
    it, where jobs share the samples that were made. Wall time is the bar; beside other work the processor time of the
    thread that computes says more.
    """
    model = load_model(MODEL)
    assert isinstance(model, WrappedSegmentation)
    clock = _Clock(model.module)
    plan = parse_plan(
        {"models": [MODEL], "datasets": [{"name": "streets", "limit": images}], "suites": ["semsegbench"]}
    )
    jobs = plan_jobs(plan)
    jobs[0].dataset[0]  # compiled code is loaded before the clock starts
    evaluate(model, jobs[0].dataset.subset(4), "fog")

    def one_by_one() -> None:
        store = Store()
        for planned in jobs:
            evaluate(model, planned.dataset, planned.threat, store=store, prepare="off")

    def as_run() -> None:
        unprepared = [
            replace(planned, model=model, settings=replace(planned.settings, prepare="off")) for planned in jobs
        ]
        run_jobs(unprepared, Store(), executor=LocalExecutor(1), progress=Silent())

    ways = (
        ("one evaluate per job, as 0.1.0, bar 95 %", one_by_one),
        ("as `gauntlet run`, samples made once, not comparable to the bar", as_run),
    )
    for how, way in ways:
        clock.inside = [0.0, 0.0]
        began = _times()
        with clock:
            way()
        for what, inside, total in zip(("wall", "the thread's processor"), clock.inside, _since(began), strict=True):
            print(f"share ({how}): {inside:.1f} s of {total:.1f} s {what} time inside the model, {inside / total:.1%}")


def _times() -> tuple[float, float]:
    """Wall time and the processor time of this thread, in seconds."""
    return time.perf_counter(), time.thread_time()


def _since(began: tuple[float, float]) -> list[float]:
    return [now - then for now, then in zip(_times(), began, strict=True)]


class _Clock:
    """Adds up the time of the model's passes, in seconds of wall and of processor time.

    Backward passes are the calls of `torch.autograd.grad` that end at images; the gradient of the loss with respect to
    the logits is not the model's.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module, self.inside = module, [0.0, 0.0]
        self._forward, self._grad = module.forward, torch.autograd.grad

    def _timed(self, function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            began = _times()
            try:
                return function(*args, **options)
            finally:
                self.inside = [so_far + more for so_far, more in zip(self.inside, _since(began), strict=True)]

        return call

    def __enter__(self) -> None:
        self.module.forward = self._timed(self._forward)
        timed = self._timed(self._grad)

        def grad(outputs: Any, inputs: torch.Tensor, *args: Any, **options: Any) -> Any:
            call: Callable[..., Any] = timed if inputs.ndim == 4 and inputs.shape[1] == 3 else self._grad
            return call(outputs, inputs, *args, **options)

        torch.autograd.grad = grad  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        self.module.forward = self._forward
        torch.autograd.grad = self._grad


def memory() -> None:
    """Peak memory of an evaluation of 100 and of 2,000 images, each in a process of its own."""
    peaks = {}
    for images in (100, 2000):
        folder = str(Path(__file__).parent)
        code = f"import sys; sys.path.insert(0, {folder!r}); import runner; runner.peak({images})"
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        peaks[images] = json.loads(out.splitlines()[-1])
    print(
        f"memory: {peaks[100]:.0f} MiB for 100 images, {peaks[2000]:.0f} MiB for 2,000, "
        f"{peaks[2000] / peaks[100]:.2f} times"
    )


def peak(images: int) -> None:
    torch.set_num_threads(1)
    from gauntlet.datasets import load_dataset

    data = load_dataset("streets", length=images, size=(64, 128))
    with tempfile.TemporaryDirectory() as folder:
        evaluate(MODEL, data, "gaussian_noise", store=Path(folder) / "r.db")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def planning(evaluations: int = 10_000) -> None:
    """Planning and skipping evaluations that are stored already."""
    steps = evaluations // 50
    attack = {"name": ["pgd", "bim"], "steps": {"range": [1, steps]}, "epsilon": [f"{e}/255" for e in range(1, 26)]}
    plan = parse_plan({"models": [MODEL], "threats": [{"attack": attack}]})
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "r.db") as store:
        jobs = plan_jobs(plan)
        _fill(store, [planned.job for planned in jobs], 0)
        began = time.perf_counter()
        outcome = run_jobs(plan_jobs(plan), store)
        seconds = time.perf_counter() - began
    print(f"planning: {len(outcome.stored)} stored evaluations planned and skipped in {seconds:.1f} s")


def big_store(rows: int = 1_000_000) -> None:
    """The leaderboard query on a store with a million per-image rows."""
    images = 500
    dataset = {"name": "streets", "split": "val", "length": images, "ids": "x", "protocol": {}}
    jobs = [
        Job("segmentation", f"model{n % 20}", "d", dataset, f"threat {n // 20}", "attack", {"attack": {"n": n}}, 1, 0)
        for n in range(rows // images)
    ]
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "r.db") as store:
        _fill(store, jobs, images)
        began = time.perf_counter()
        frame = store.frame()
        table = frame[(frame.metric == "mIoU") & (frame.view == "all")].pivot_table("value", "model", "threat")
        seconds = time.perf_counter() - began
        size = Path(store.address).stat().st_size / 2**20
    print(f"store: {rows} image rows ({size:.0f} MiB), leaderboard of {table.shape} in {seconds:.2f} s")


def _fill(store: Store, jobs: list[Job], images: int) -> None:
    counts = ImageCounts(np.eye(11, dtype=np.int64)[None] * 50, np.full((1, len(SCALARS)), math.nan)).to_bytes()
    rows = [ImageRow(position, f"image{position}", counts, {}) for position in range(images)]
    metric = {"class_names": [str(k) for k in range(11)], "ignore_index": 11, "background_index": None}
    figures = [Figure(name, 0.5) for name in ("mIoU", "mAcc", "aAcc", "NmIoU")]
    figures += [Figure("IoU", 0.5, class_name=str(k)) for k in range(11)]
    for job in jobs:
        started = store.begin(job, images=images, batch_size=4, metric=metric, provenance={"started": "2026"})
        store.add_images(started, rows, WHOLE)
        store.finish(started, figures)


def ray(images: int) -> None:
    """Throughput of two Ray workers against two local ones."""
    from gauntlet.evaluation.execution.cluster import RayExecutor

    rates = {
        name: _rate(_under_pgd(20, images), executor)
        for name, executor in (("local", LocalExecutor(2)), ("ray", RayExecutor(workers=2)))
    }
    print(f"ray: {rates['ray'] / rates['local']:.2f} times the throughput of two local workers")


def workers(*, busy: bool = False) -> None:
    """Throughput of two worker processes against one process with two torch threads, E-Net under PGD.

    Two threads are what version 0.1.0 ran: the attack itself, without an executor that would set one thread. With
    `busy`, two other processes compute all the while. Each side has so many seconds, however little it gets done: two
    threads beside other work can be many times slower, so a number of images has no bound. Short attacks then, so that
    something is done in time.
    """
    steps = 2 if busy else 20
    spin = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(1_000_000))"
    others = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)] if busy else []
    try:
        apart = _rate(_under_pgd(steps, 10_000), LocalExecutor(2), WINDOW)
        threaded = _two_threads(steps, WINDOW)
        keep_freed_memory()
        keeping = _two_threads(steps, WINDOW)
    finally:
        for other in others:
            other.kill()
    print(
        f"workers{' beside two busy processes' if busy else ''}: {apart:.2f} images/s by two workers, {threaded:.2f} "
        f"by one process with two threads, {apart / threaded:.2f} times (PGD of {steps} steps, {WINDOW} s each); "
        f"{keeping:.2f} and {apart / keeping:.2f} times where that process keeps freed memory as workers do"
    )


def _pgd(steps: int) -> dict[str, object]:
    return {"attack": {"name": "pgd", "epsilon": "8/255", "steps": steps}}


def _under_pgd(steps: int, images: int) -> dict[str, object]:
    """A plan: the model as it is, in batches of four."""
    data = {"name": "streets", "options": {"length": images}}
    return {"models": [MODEL], "datasets": [data], "threats": [_pgd(steps)], "prepare": "off", "batch_size": BATCH}


def _two_threads(steps: int, seconds: float) -> float:
    """Images per second of an attack in this process with two torch threads; one batch at least."""
    from gauntlet.datasets import load_dataset
    from gauntlet.samples import collate
    from gauntlet.seeding import ImageSeed
    from gauntlet.threats import build_threat

    torch.set_num_threads(2)
    model, data = load_model(MODEL), load_dataset("streets", length=BATCH)
    batch = collate([data[index] for index in range(BATCH)], ignore_index=data.ignore_index)
    seeds = [ImageSeed(0, sample.id) for sample in batch.samples]
    build_threat(_pgd(1)).perturb(model, batch, seeds)  # warm-up
    threat, batches, began = build_threat(_pgd(steps)), 0, time.perf_counter()
    while batches == 0 or time.perf_counter() - began < seconds:
        threat.perturb(model, batch, seeds)
        batches += 1
    return BATCH * batches / (time.perf_counter() - began)


class _Enough(KeyboardInterrupt):
    """Ends a run as Ctrl-C does."""


def _rate(content: dict[str, object], executor: Executor, seconds: float = math.inf) -> float:
    """Images per second of two workers: from when each has done a unit, to the last unit or the end of the time."""
    times: list[float] = []

    class Watch(Silent):
        def advance(self, count: int, figure: float = math.nan, name: str = "mIoU", text: str = "") -> None:
            times.append(time.perf_counter())
            if len(times) > 2 and times[-1] - times[1] >= seconds:
                raise _Enough

    with contextlib.suppress(_Enough):
        run_jobs(plan_jobs(parse_plan(content)), Store(), executor=executor, progress=Watch())
    return BATCH * (len(times) - 2) / (times[-1] - times[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("share", "memory", "planning", "store", "workers", "busy", "ray")
    parser.add_argument("parts", nargs="*", choices=parts, default=[])
    parser.add_argument("--images", type=int, default=16)
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores, torch {torch.__version__}, {torch.get_num_threads()} threads")
    actions: dict[str, Callable[[], None]] = {
        "share": lambda: share(chosen.images),
        "memory": memory,
        "planning": planning,
        "store": big_store,
        "workers": workers,
        "busy": lambda: workers(busy=True),
        "ray": lambda: ray(2 * chosen.images),
    }
    for part in chosen.parts or parts:
        actions[part]()


if __name__ == "__main__":
    main()
