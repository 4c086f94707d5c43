"""The peers' side of `benchmarks/peers.py`; runs in their Python, needs torch and NumPy only.

    python peer_loops.py FOLDER [PATH ...]

FOLDER holds `model.pt` (TorchScript: images in [0, 1] to logits) and `batch.npz` (images, labels); PATHs are checkouts
of peers that cannot be installed. The first line printed says which loops there are, and why others are missing. Then
every line `[loop, steps]` that is read is answered with the processor seconds and the passes of one run.
"""

from __future__ import annotations

import json
import sys
import time
import types
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

EPSILON = 8 / 255
Loop = Callable[[nn.Module, torch.Tensor, torch.Tensor, int], Any]


class Counted(nn.Module):
    """A model that counts the images which it is given."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.seen = model, 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen += len(images)
        logits: torch.Tensor = self.model(images)
        return logits


def torchattacks_loops() -> dict[str, Loop]:
    pgd = import_module("torchattacks").PGD
    return {"pgd": lambda model, x, y, steps: pgd(model, eps=EPSILON, alpha=0.01, steps=steps)(x, y)}


def cospgd_loops() -> dict[str, Loop]:
    """The package has losses and steps; the loop around them is that of its README."""
    functions = import_module("cospgd").functions

    def loop(scale: Callable[..., torch.Tensor]) -> Loop:
        def run(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int) -> None:
            point = functions.init_linf(x, EPSILON)
            for step in range(steps):
                point.requires_grad = True
                logits = model(point)
                loss = scale(logits, y, functional.cross_entropy(logits, y, reduction="none"), step, steps).mean()
                loss.backward()  # type: ignore[no-untyped-call]
                point = functions.step_inf(point, EPSILON, point.grad, x, 0.01, False, 0, 1)

        return run

    return {
        "segpgd": loop(lambda z, y, loss, step, steps: functions.segpgd_scale(z, y, loss, step, steps)),
        "cospgd": loop(lambda z, y, loss, step, steps: functions.cospgd_scale(z, y, loss, num_classes=z.shape[1])),
    }


def adv_lib_loops() -> dict[str, Loop]:
    for module, name in (("torchvision", "models"), ("visdom", "Visdom")):  # imported by it, not used by these loops
        if find_spec(module) is None:
            sys.modules[module] = types.ModuleType(module)
            setattr(sys.modules[module], name, types.SimpleNamespace())
    attacks = import_module("adv_lib.attacks.segmentation")
    return {
        "alma-prox": lambda model, x, y, steps: attacks.alma_prox(model, x, y, num_steps=steps),
        "pdpgd": lambda model, x, y, steps: attacks.pdpgd(model, x, y, norm=float("inf"), num_steps=steps),
        "dag": lambda model, x, y, steps: attacks.dag(model, x, y, max_iter=steps),
    }


def sea_loops() -> dict[str, Loop]:
    """Of the one file that holds them: its package imports data sets and models that the loops do not need."""
    if find_spec("autoattack") is None:  # whose norms and logger these loops do not use
        utilities = types.ModuleType("autoattack.other_utils")
        for name in ("L0_norm", "L1_norm", "L2_norm", "Logger"):
            setattr(utilities, name, None)
        sys.modules.update({"autoattack": types.ModuleType("autoattack"), utilities.__name__: utilities})
    places = [Path(path, each) for path in sys.path for each in ("semseg/attacker.py", "semseg/utils/attacker.py")]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise ModuleNotFoundError("No module named 'semseg'")
    spec = spec_from_file_location("sea_attacker", file)
    assert spec is not None
    assert spec.loader is not None
    attacker = module_from_spec(spec)
    spec.loader.exec_module(attacker)

    def loop(loss: str) -> Loop:
        return lambda model, x, y, steps: attacker.apgd_train(
            model, x, y, "Linf", EPSILON, n_iter=steps, use_rs=True, loss=loss, track_loss="ce-avg"
        )

    return {"sea-jsd": loop("js-avg"), "sea-mce": loop("mask-ce-avg")}


def rse_loops() -> dict[str, Loop]:
    """Its own attacks; it imports adv-lib, whose stand-ins `adv_lib_loops` has set up before."""
    attacks = import_module("rse.attacks")

    def adam(loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Loop:
        return lambda model, x, y, steps: attacks.padam(model, x, y, loss, EPSILON, 0.01, steps)

    def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits, labels, reduction="none")

    def cosine(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        aim = functional.one_hot(labels, logits.shape[1]).movedim(-1, 1)
        return 1 - functional.cosine_similarity(logits, aim)

    found = {"padam-ce": adam(cross_entropy), "padam-cos": adam(cosine)}
    # Called `apgd_restarts` in earlier revisions, which look once more at the last point.
    apgd = getattr(attacks, "apgd", None) or getattr(attacks, "apgd_restarts", None)

    def climb(loss: str, track: str = "ce-avg") -> Loop:
        assert apgd is not None
        return lambda model, x, y, steps: apgd(
            model, x, y, eps=EPSILON, n_iter=steps, n_restarts=1, use_rs=True, loss=loss, track_loss=track
        )

    if apgd is not None:
        found |= {
            "sea-jsd": climb("js-avg"),
            "sea-mce": climb("mask-ce-avg"),
            "sea-bce": climb("segpgd-loss"),
            "sea-msl": climb("mask-norm-corrlog-avg", "mask-norm-corrlog-avg"),
        }
    return found


PEERS: dict[str, Callable[[], dict[str, Loop]]] = {
    "torchattacks": torchattacks_loops,
    "cospgd": cospgd_loops,
    "adv-lib": adv_lib_loops,
    "SEA": sea_loops,
    "RSE": rse_loops,
}
"""Loops of every peer, by the name that our attack of the same kind has."""


def loops_of(find: Callable[[], dict[str, Loop]]) -> dict[str, Loop] | str:
    """A peer's loops, or what keeps it from being imported."""
    try:
        return find()
    except Exception as error:  # foreign code
        return f"{type(error).__name__}: {error}"


def main(folder: Path, paths: list[str]) -> None:
    torch.set_num_threads(1)
    sys.path[:0] = paths
    found = {peer: loops_of(find) for peer, find in PEERS.items()}
    missing = {peer: loops for peer, loops in found.items() if isinstance(loops, str)}
    there = [(peer, loops) for peer, loops in found.items() if not isinstance(loops, str)]
    loops = {f"{peer} {name}": loop for peer, its in there for name, loop in its.items()}
    print(json.dumps({"loops": list(loops), "missing": missing}), flush=True)
    script = torch.jit.load(folder / "model.pt")  # type: ignore[no-untyped-call]
    model = Counted(script).eval().requires_grad_(False)
    batch = np.load(folder / "batch.npz")
    images, labels = torch.from_numpy(batch["images"]), torch.from_numpy(batch["labels"])
    for line in sys.stdin:
        name, steps = json.loads(line)
        model.seen = 0
        began = time.process_time()
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            loops[name](model, images.clone(), labels.clone(), steps)
        seconds = time.process_time() - began
        print(json.dumps({"seconds": seconds, "passes": model.seen / len(images)}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
