"""Time of a pass in the attack loops of other packages, over ours, on the same network and images, in one run.

    python -m venv peer
    peer/bin/pip install torch==2.13.0 numpy scipy tqdm requests
    peer/bin/pip install --no-deps adv-lib==0.2.8 torchattacks==3.5.1 cospgd==0.1.3
    python benchmarks/peers.py --peer-python peer/bin/python [--peer-path CHECKOUT ...] [--models streets/pspnet ...]

SEA (nmndeep/Robust-Segmentation) and RSE (szegedai/Robust-Segmentation-Evaluation) are not on PyPI: give their
checkouts as `--peer-path`. What cannot be imported is said in one line.

Both sides get the network as TorchScript, four street scenes and the same number of steps; one thread, processor time
of a run over the passes that it made (images forward, over four), in turns, median of the rounds. A second ratio is to
our loop on the network as `--prepare auto` makes it. Above 1: the peer's pass costs more.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch reads it

import numpy as np
import torch

from gauntlet.datasets import load_dataset
from gauntlet.models import SegmentationModel, load_model, wrap_model
from gauntlet.models.preparation import prepare
from gauntlet.models.preparation.choosing import measure_steps
from gauntlet.samples import collate
from gauntlet.threats.attacks import build

BATCH, SIZE = 4, (128, 256)
LOOPS = Path(__file__).with_name("peer_loops.py")
OPTIONS: dict[str, dict[str, Any]] = {f"sea-{loss}": {"radius": "fixed"} for loss in ("jsd", "mce", "bce", "msl")}
"""Of our attack, where its defaults are not what the peer's loop does: SEA's runs one of its three stages."""


class Peers:
    """The other Python with its loops, waiting for orders."""

    def __init__(self, python: str, folder: Path, paths: list[str]) -> None:
        command = [python, str(LOOPS), str(folder), *paths]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        hello = self._answer()
        self.loops: list[str] = hello["loops"]
        self.missing: dict[str, str] = hello["missing"]

    def pass_seconds(self, loop: str, steps: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([loop, steps]) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return float(answer["seconds"] / answer["passes"])

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the peers' Python stopped; see its message above.")
        answer: dict[str, Any] = json.loads(line)
        return answer


def export(model: SegmentationModel, folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes the network and four scenes with their labels; gives the latter."""
    batch = collate([load_dataset("streets", size=SIZE, length=BATCH)[index] for index in range(BATCH)])
    assert isinstance(batch.labels, torch.Tensor)
    labels = batch.labels.clamp(0, model.num_classes - 1)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing says that sizes are fixed, which they are here
        torch.jit.trace(model, batch.images).save(folder / "model.pt")  # type: ignore[no-untyped-call]
    np.savez(folder / "batch.npz", images=batch.images.numpy(), labels=labels.numpy())
    return batch.images, labels


def our_pass_seconds(
    model: SegmentationModel, name: str, images: torch.Tensor, labels: torch.Tensor, steps: int
) -> float:
    seen = []
    handle = model.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    attack = build(name, steps=steps, **OPTIONS.get(name, {}))
    began = time.process_time()
    with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
        attack(model, images, labels)
    seconds = time.process_time() - began
    handle.remove()
    return seconds / (sum(seen) / BATCH)


def measure(
    address: str, python: str, paths: list[str], loops: list[str], steps: int, rounds: int
) -> list[dict[str, Any]]:
    model = load_model(address)
    assert isinstance(model, SegmentationModel)
    prepared = prepare(model, measure_steps(model, SIZE, BATCH))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images, labels = export(model, folder)
        script = torch.jit.load(folder / "model.pt")  # type: ignore[no-untyped-call]
        traced = wrap_model(script, num_classes=model.num_classes)
        peers = Peers(python, folder, paths)
        for absent, reason in peers.missing.items():
            print(f"{absent} is not installed there ({reason})", flush=True)
        for loop in [each for each in peers.loops if not loops or each in loops]:
            ours = loop.rpartition(" ")[2]
            times: list[list[float]] = [[], [], []]
            for _ in range(rounds + 1):
                times[0].append(peers.pass_seconds(loop, steps))
                times[1].append(our_pass_seconds(traced, ours, images, labels, steps))
                times[2].append(our_pass_seconds(prepared, ours, images, labels, steps))
            theirs, same, fast = (median(side[1:]) for side in times)  # the first round warms up
            rows.append({"model": address, "loop": loop, "ratio": theirs / same, "prepared": theirs / fast})
            print(f"{address:20} {loop:22} {theirs / same:.2f}, over ours prepared {theirs / fast:.2f}", flush=True)
        peers.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--peer-path", nargs="*", default=[], help="Checkouts of SEA's and RSE's repositories.")
    parser.add_argument("--models", nargs="*", default=["streets/pspnet", "streets/segformer"])
    parser.add_argument("--loops", nargs="*", default=[], help="Such as 'adv-lib dag'; all by default.")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for address in chosen.models:
        rows += measure(address, chosen.peer_python, chosen.peer_path, chosen.loops, chosen.steps, chosen.rounds)
    for key, what in (("ratio", "on the same network"), ("prepared", "over ours prepared")):
        if rows:
            print(f"geometric mean {what}: {math.exp(sum(math.log(row[key]) for row in rows) / len(rows)):.2f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
