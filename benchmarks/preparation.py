"""What preparing a model saves: time of an attack iteration over the bare passes of the model as it is.

    python benchmarks/preparation.py [--models streets/enet ...] [--rounds 5] [--checkpoints FOLDER] [--json FILE]

For every shipped network and, where their weights lie in the folder of checkpoints, the published CamVid ones: one
iteration of PGD on the model that `--prepare auto` chooses (what eight steps cost more than two, over six), over the
forward pass and the backward pass to the input of the unprepared model (no loss at all). Batch 4, one thread, processor
time. Each side runs in a process of its own; they take turns, and a figure is a ratio of medians. "whole" is an
iteration in a process set up as workers are over the passes in one that is not, as torch runs by itself. It is the
product of "prepared", where both have their memory set up, and "memory", what that set-up alone does to the passes.
Bounds of the whole: 0.85 in the geometric mean, none above 1.05. Exits with 1 when one is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch reads it

import torch

from gauntlet.datasets import load_dataset
from gauntlet.evaluation.execution.memory import keep_freed_memory
from gauntlet.models import DetectionModel, GauntletModel, load_model
from gauntlet.models.preparation import prepare
from gauntlet.models.preparation.choosing import measure_steps
from gauntlet.models.sources import shipped
from gauntlet.samples import Batch, collate
from gauntlet.threats.attacks import build

BATCH, FEW, MANY = 4, 2, 8
MEAN_BOUND, SINGLE_BOUND = 0.85, 1.05
CHECKPOINTS = Path(__file__).resolve().parents[2] / "shared" / "realdata" / "checkpoints"
CAMVID = {
    "camvid/enet": "enet_camvid.pth",
    "camvid/cgnet": "cgnet_m3n21_camvid.pth",
    "camvid/espnet": "espnet_p_2_q_8_camvid.pth",
}


def models(checkpoints: Path) -> dict[str, Callable[[], GauntletModel]]:
    made: dict[str, Callable[[], GauntletModel]] = {name: partial(load_model, name) for name in shipped.names()}
    for name, file in CAMVID.items():
        if (checkpoints / file).is_file():
            made[name] = partial(load_model, name, weights=str(checkpoints / file))
    return made


def batch(name: str) -> Batch:
    """Four scenes at the size that the network was trained on."""
    size = (128, 256) if name.startswith("streets/") else (180, 240)
    return collate([load_dataset("streets", size=size, length=BATCH)[index] for index in range(BATCH)])


def bare(model: GauntletModel, data: Batch) -> None:
    """Forward and backward to the input, and nothing else."""
    images = data.images.detach().requires_grad_(True)
    output = model.losses(images, data.boxes) if isinstance(model, DetectionModel) else model(images)
    torch.autograd.grad(output, images, torch.ones_like(output))


def attack(model: GauntletModel, data: Batch, steps: int) -> None:
    """Steps of PGD and nothing else: the start is the image, the last point is not looked at."""
    truth: Any = data.boxes if isinstance(model, DetectionModel) else data.labels.clamp(0, model.num_classes - 1)  # type: ignore[union-attr]
    build("pgd", steps=steps, random_start=False)(model, data.images, truth)


def seconds(run: Callable[[], None]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def serve_bare(connection: Connection, name: str, make: Callable[[], GauntletModel], *, keep: bool = True) -> None:
    """Answers each request with the seconds of one pass of the model as it is.

    Args:
        connection, name, make: as for `serve_attack`.
        keep: whether the process keeps freed memory, as workers do.
    """
    torch.set_num_threads(1)
    if keep:
        keep_freed_memory()
    model, data = make(), batch(name)
    model.freeze()
    bare(model, data)
    connection.send("off")
    while connection.recv():
        connection.send(median(seconds(lambda: bare(model, data)) for _ in range(FEW + 1)))


def serve_attack(connection: Connection, name: str, make: Callable[[], GauntletModel]) -> None:
    """Answers with the steps that were chosen, then each request with the seconds of one iteration."""
    torch.set_num_threads(1)
    keep_freed_memory()
    model, data = make(), batch(name)
    model.freeze()
    height, width = data.images.shape[-2:]
    steps = measure_steps(model, (height, width), BATCH)
    prepared = prepare(model, steps)
    attack(prepared, data, 1)
    connection.send("+".join(steps) or "off")
    while connection.recv():
        few, many = (seconds(partial(attack, prepared, data, count)) for count in (FEW, MANY))
        connection.send((many - few) / (MANY - FEW))


def measure(name: str, make: Callable[[], GauntletModel], rounds: int) -> dict[str, Any]:
    context, ends, processes = get_context("spawn"), [], []
    for serve in (serve_bare, serve_attack, partial(serve_bare, keep=False)):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=serve, args=(theirs, name, make), daemon=True))
        processes[-1].start()
        ends.append(ours)
    chosen = [end.recv() for end in ends]
    times: list[list[float]] = [[], [], []]
    for _ in range(rounds):
        for end, side in zip(ends, times, strict=True):
            end.send(True)
            side.append(end.recv())
    for end, process in zip(ends, processes, strict=True):
        end.send(False)
        process.join()
    passes, iteration, as_found = map(median, times)
    return {
        "model": name,
        "steps": chosen[1],
        "bare_ms": 1e3 * passes,
        "whole": iteration / as_found,
        "prepared": iteration / passes,
        "memory": passes / as_found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", help="All by default.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--checkpoints", type=Path, default=CHECKPOINTS)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    rows = []
    for name, make in models(chosen.checkpoints).items():
        if chosen.models and name not in chosen.models:
            continue
        rows.append(measure(name, make, chosen.rounds))
        line = (
            "{model:24} {steps:20} bare {bare_ms:7.1f} ms per batch, "
            "whole {whole:.2f} = prepared {prepared:.2f} x memory {memory:.2f}"
        )
        print(line.format(**rows[-1]), flush=True)
    means = {part: geometric_mean([row[part] for row in rows]) for part in ("whole", "prepared", "memory")}
    largest = max(row["whole"] for row in rows)
    parts = ", ".join(f"{part} {mean:.3f}" for part, mean in means.items())
    print(f"geometric means: {parts} (bound of the whole {MEAN_BOUND}); largest {largest:.2f} (bound {SINGLE_BOUND})")
    if chosen.json:
        chosen.json.write_text(json.dumps({"models": rows, "means": means}, indent=1))
    sys.exit(int(means["whole"] > MEAN_BOUND or largest > SINGLE_BOUND))


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    main()
