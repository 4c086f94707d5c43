"""What a wrapper costs beyond the forward passes that it needs.

    python benchmarks/wrappers.py [--models streets/segformer ...] [--size 256x512] [--rounds 3] [--json FILE]

For `multiscale:` and every kind of `transform:`: one image, one thread, memory set up as in workers, processor time,
everything in turns in this run, the fastest of each. "bare" are the passes of the model inside, at the same sizes.
"own" is what the wrapper adds: around a model that writes out stored logits, less that model alone; the figure is
(bare + own) / bare. Bound: 1.05. Exits with 1 when it is missed. "direct" is the time of the whole wrapped model over
the bare passes: the same in theory, but a difference of two long times, which on a busy machine moves by several per
cent from run to run.

For `crf:` what `benchmarks/crf.py` states as cost, with its bounds; it takes minutes, and --models alone leaves it out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch reads it

import torch
from torch import nn

import crf  # beside this file
from gauntlet.datasets import load_dataset
from gauntlet.defences import Defence
from gauntlet.defences.multiscale import scaled_size
from gauntlet.evaluation.execution.memory import keep_freed_memory
from gauntlet.models import load_model, wrap_model
from gauntlet.models.randomness import ask_equally
from gauntlet.samples import collate

BOUND = 1.05
MODELS = ("streets/segformer", "streets/pspnet", "streets/enet")
WRAPPERS: dict[str, tuple[float, ...]] = {
    "multiscale:scales=0.5+0.75+1,pool=max": (0.5, 0.75, 1),
    "multiscale:scales=0.5+0.75+1,pool=mean": (0.5, 0.75, 1),
    "multiscale:scales=0.5+0.75+1,of=probabilities": (0.5, 0.75, 1),
    "transform:kind=none": (1,),
    "transform:kind=jpeg": (1,),
    "transform:kind=blur": (1,),
    "transform:kind=hsv": (1,),
    "transform:kind=grey": (1,),
}
"""Wrappers and the scales at which they ask the model inside."""


def fastest(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Least seconds of this thread's processor for each, in turns, after a warm-up."""
    times = dict.fromkeys(runs, float("inf"))
    for round_ in range(rounds + 1):
        for name, run in runs.items():
            began = time.thread_time()
            run()
            if round_:
                times[name] = min(times[name], time.thread_time() - began)
    return times


def ask_all(model: nn.Module, seen: list[torch.Tensor]) -> None:
    """One pass for every size."""
    for each in seen:
        model(each)


class Stored(nn.Module):
    """Writes out the logits that a model once gave for images of the same size, fresh in the cache as a model's are."""

    def __init__(self, logits: dict[torch.Size, torch.Tensor]) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.logits[images.shape[-2:]].clone()


@torch.inference_mode()
def measure(address: str, images: torch.Tensor, rounds: int) -> dict[str, dict[str, float]]:
    """The ratios of every wrapper around a model."""
    inner = load_model(address)
    height, width = images.shape[-2:]
    found = {}
    for wrapper, scales in WRAPPERS.items():
        made = load_model(f"{wrapper}:{address}")
        alone = load_model(f"{wrapper}:{address}")
        seen = [torch.rand(1, 3, *scaled_size(height, width, scale)) for scale in scales]
        stored = wrap_model(
            Stored({each.shape[-2:]: inner(each) for each in seen}), num_classes=inner.num_classes, name="stored"
        )
        assert isinstance(alone, Defence)
        alone.inner[0] = stored
        runs: dict[str, Callable[[], Any]] = {
            "wrapped": partial(ask_equally, made, images),
            "bare": partial(ask_all, inner, seen),
            "with stored": partial(ask_equally, alone, images),
            "stored": partial(ask_all, stored, seen),
        }
        times = fastest(runs, rounds)
        own = times["with stored"] - times["stored"]
        found[wrapper] = {
            "bare_ms": 1000 * times["bare"],
            "own_ms": 1000 * own,
            "ratio": 1 + own / times["bare"],
            "direct": times["wrapped"] / times["bare"],
        }
    return found


def main() -> int:
    """Prints one line per model and wrapper."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", help="Without --models: three shipped ones, and the CRF.")
    parser.add_argument("--size", default="256x512")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    height, width = (int(side) for side in arguments.size.split("x"))
    torch.set_num_threads(1)
    keep_freed_memory()
    images = collate([load_dataset("streets", size=(height, width), length=1)[0]]).images
    rows = {address: measure(address, images, arguments.rounds) for address in arguments.models or MODELS}
    line = "{0:18} {1:46} bare {bare_ms:6.1f} ms, own {own_ms:5.1f} ms, ratio {ratio:.3f}, direct {direct:.2f}{2}"
    for address, found in rows.items():
        for wrapper, row in found.items():
            print(line.format(address, wrapper, "" if row["ratio"] <= BOUND else f"  above {BOUND}", **row))
    kept = all(row["ratio"] <= BOUND for found in rows.values() for row in found.values())
    field: dict[str, dict[str, float]] = {}
    if not arguments.models:
        field, cheap = crf.costs()
        kept = kept and cheap
    if arguments.json:
        arguments.json.write_text(json.dumps({"size": arguments.size, "models": rows, "crf": field}, indent=1))
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
