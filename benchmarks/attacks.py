"""What an attack costs beyond the model: time of an iteration, work saved by skipping, peak memory.

    python benchmarks/attacks.py [--json FILE] [--only iterations|detection|battery|memory] [--rounds 3] [--all]

Every figure is a ratio of two measurements made in turn in this run, on one thread, in processor time (a loaded machine
stretches the clock on the wall, hardly the time on the processor):

* iterations: time of one iteration of PGD, SegPGD, CosPGD, APGD and PAdam over the time of the bare forward pass and
  backward pass to the input of the frozen network (no loss at all: a constant gradient is sent back from the logits),
  batch 4, 256 x 256, 19 classes, U-Net with a ResNet-18 encoder and E-Net; bound 1.10. Every iteration is paired with
  bare passes run just before it; the figure is the median of the pairs.
* detection: our FCOS, batch 4, 128 x 256, attacks with their defaults and 10 steps: time from the first pass to the end
  over the time of as many bare passes, each the forward pass, the detector's own loss of five objects per image and the
  backward pass to the input; bound 1.10. What APGD's looks at the detections cost is in it, once in ten steps. The
  figure is the median of the rounds.
* battery: time of the `halmosi` battery with skipping over without, on a small network trained without any defence,
  where both give the same worst cases (checked); bound 0.60.
* memory: peak resident memory of a process that runs an attack over that of one that runs the bare passes, both less
  what the process held before; bound 1.15.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.detector import WrappedDetector
from gauntlet.models.architectures.fcos import FCOS
from gauntlet.models.contract import Candidates, DetectionModel
from gauntlet.samples import Boxes
from gauntlet.threats.attacks import build

CLASSES = 19
BATCH, SIDE = 4, 256
ATTACKS: dict[str, dict[str, Any]] = {
    "pgd": {},
    "segpgd": {},
    "cospgd": {},
    "apgd": {},
    "padam-ce": {},
    "padam-cos": {},
    "sea-jsd": {"radius": "fixed"},
    "sea-msl": {"radius": "fixed"},
    "dag": {},
    "pdpgd": {},
    "alma-prox": {},
    "fmn": {},
}
BOUNDED = ("pgd", "segpgd", "cospgd", "apgd", "padam-ce", "padam-cos")
DETECTOR_ATTACKS: dict[str, dict[str, Any]] = {
    "bim": {"name": "bim"},
    "pgd": {"name": "pgd"},
    "pgd l2": {"name": "pgd", "norm": "l2"},
    "padam-ce": {"name": "padam-ce"},
    "apgd": {"name": "apgd"},
    "apgd by loss": {"name": "apgd", "returns": "best-loss"},
}
KEEPING = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 33),
    "MALLOC_TOP_PAD_": str(1 << 28),
}
"""glibc keeps freed memory, as the allocators of GPUs do: page faults on either side would blur the ratios."""
BOUNDS = {"iterations": 1.10, "detection": 1.10, "battery": 0.60, "memory": 1.15}


class Residual(nn.Module):
    """A basic block of ResNet-18."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        result = torch.relu(self.first_norm(self.first(values)))
        return torch.relu(self.second_norm(self.second(result)) + self.shortcut(values))


def twice(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """A U-Net with a ResNet-18 encoder: 14 million parameters at the default width."""

    def __init__(self, classes: int = CLASSES, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        )
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.ModuleList(
            nn.Sequential(
                Residual(widths[i], widths[i + 1], 1 if i == 0 else 2), Residual(widths[i + 1], widths[i + 1], 1)
            )
            for i in range(4)
        )
        skips = [4 * width, 2 * width, width, width, 0]
        outputs = [4 * width, 2 * width, width, width // 2, width // 4]
        inputs = [8 * width, *outputs[:-1]]
        self.ups = nn.ModuleList(twice(i + s, o) for i, s, o in zip(inputs, skips, outputs, strict=True))
        self.head = nn.Conv2d(outputs[-1], classes, 3, 1, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        held = [self.stem(images)]
        values = functional.max_pool2d(held[0], 3, 2, 1)
        for stage in self.stages:
            values = stage(values)
            held.append(values)
        skips = [held[3], held[2], held[1], held[0], None]
        for up, skip in zip(self.ups, skips, strict=True):
            values = functional.interpolate(values, scale_factor=2, mode="nearest")
            values = up(values if skip is None else torch.cat([values, skip], 1))
        logits: torch.Tensor = self.head(values)
        return logits


def enet() -> nn.Module | None:
    try:
        from gauntlet.models.architectures import enet as module
    except ImportError:
        return None
    network: nn.Module = module.ENet(CLASSES)
    return network


NETWORKS: dict[str, Callable[[], nn.Module | None]] = {"unet-resnet18": UNet, "enet": enet}


def networks(chosen: Sequence[str] = tuple(NETWORKS)) -> Iterator[tuple[str, nn.Module]]:
    for name in chosen:
        make = NETWORKS[name]
        torch.manual_seed(0)
        network = make()
        if network is not None:
            yield name, network.eval().requires_grad_(False)


def batch(side: int = SIDE, count: int = BATCH) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(count, 3, side, side, generator=generator)
    labels = torch.randint(CLASSES, (count, side, side), generator=generator)
    return images, labels


def bare(network: nn.Module, images: torch.Tensor, steps: int = 1) -> None:
    """Forward and backward to the input, and nothing else."""
    for _ in range(steps):
        inputs = images.detach().requires_grad_(True)
        with torch.enable_grad():
            logits = network(inputs)
        if UPSTREAM.get("logits", logits).shape != logits.shape or "logits" not in UPSTREAM:
            UPSTREAM["logits"] = torch.full_like(logits.detach(), 1e-3)
        torch.autograd.grad(logits, inputs, UPSTREAM["logits"])


UPSTREAM: dict[str, torch.Tensor] = {}


class Paired(nn.Module):
    """Runs the bare passes before each forward pass of an attack, so that both are timed under the same load.

    What lies between the start of one forward pass and the next is one iteration of the attack.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.pairs: list[tuple[float, float]] = []
        self._started: float | None = None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        now = time.process_time()
        iteration = None if self._started is None else now - self._started
        bare(self.network, images)
        after = time.process_time()
        if iteration is not None:
            self.pairs.append((iteration, after - now))
        self._started = time.process_time()
        logits: torch.Tensor = self.network(images)
        return logits

    def forget(self) -> None:
        """Between two attacks: what lies between them is no iteration."""
        self._started = None


def measure_iterations(
    rounds: int, chosen: Sequence[str], chosen_networks: Sequence[str], steps: int = 4
) -> dict[str, dict[str, float]]:
    results: dict[str, dict[str, float]] = {}
    for network_name, network in networks(chosen_networks):
        images, labels = batch()
        bare(network, images, 2)
        results[network_name] = {}
        for name in chosen:
            attack = build(name, steps=steps, **ATTACKS[name])
            paired = Paired(network)
            for _ in range(rounds):
                attack(paired, images, labels)
                paired.forget()
            ratio = statistics.median(iteration / base for iteration, base in paired.pairs)
            results[network_name][name] = ratio
            base = min(base for _, base in paired.pairs)
            mark = "" if name not in BOUNDED else ("  ok" if ratio <= BOUNDS["iterations"] else "  OVER 1.10")
            least = min(iteration for iteration, _ in paired.pairs) / base
            print(f"{network_name:14} {name:10} {ratio:.3f} (minima {least:.3f}, bare {base:.3f} s){mark}", flush=True)
    return results


class PairedDetector(DetectionModel):
    """As `Paired`, for a detector: the bare passes include the detector's own loss, and whole attacks are compared."""

    def __init__(self, detector: DetectionModel) -> None:
        super().__init__(num_classes=detector.num_classes)
        self.detector = detector
        self.attack = self.bare = 0.0
        self._started: float | None = None

    def losses(self, images: torch.Tensor, targets: Sequence[Boxes]) -> torch.Tensor:
        self._stop()
        now = time.process_time()
        inputs = images.detach().requires_grad_(torch.is_grad_enabled())  # a look without a gradient is one here too
        values = self.detector.losses(inputs, targets)
        if values.requires_grad:
            torch.autograd.grad(values.sum(), inputs)
        self._started = time.process_time()
        self.bare += self._started - now
        return self.detector.losses(images, targets)

    def ratio(self) -> float:
        """Of the attack that has just ended, everything after its last pass included."""
        self._stop()
        ratio = self.attack / self.bare
        self._started, self.attack, self.bare = None, 0.0, 0.0
        return ratio

    def _stop(self) -> None:
        if self._started is not None:
            self.attack += time.process_time() - self._started

    def predict(self, images: torch.Tensor) -> list[Boxes]:
        return self.detector.predict(images)

    def candidates(self, images: torch.Tensor) -> Candidates:
        return self.detector.candidates(images)


def scene(objects: int = 5, height: int = 128, width: int = 256) -> tuple[torch.Tensor, list[Boxes]]:
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(BATCH, 3, height, width, generator=generator)
    low = torch.rand(BATCH, objects, 2, generator=generator) * torch.tensor([0.7 * width, 0.7 * height])
    sides = 8 + 30 * torch.rand(BATCH, objects, 2, generator=generator)
    corners = torch.cat([low, low + sides], 2).numpy()
    return images, [Boxes(each, np.arange(objects, dtype=np.int64)) for each in corners]


def measure_detection(rounds: int, steps: int = 10) -> dict[str, float]:
    torch.manual_seed(0)
    detector = WrappedDetector(FCOS(8), num_classes=8)
    detector.freeze()
    images, boxes = scene()
    build("apgd", steps=1)(detector, images, boxes)  # compiles the matching of boxes
    results: dict[str, float] = {}
    for name, options in DETECTOR_ATTACKS.items():
        attack = build(**options, steps=steps)
        paired = PairedDetector(detector)
        ratios = []
        for _ in range(rounds):
            attack(paired, images, boxes)
            ratios.append(paired.ratio())
        results[name] = statistics.median(ratios)
        mark = "  ok" if results[name] <= BOUNDS["detection"] else "  OVER 1.10"
        print(
            f"{'fcos':14} {name:12} {results[name]:.3f} (rounds {min(ratios):.3f} to {max(ratios):.3f}){mark}",
            flush=True,
        )
    return results


def shapes(count: int, side: int, seed: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of rectangles in slightly different greys on a noisy ground, and their labels.

    The colors lie closer to each other than the budget of the attacks: what makes a network easy to break entirely.
    """
    generator = torch.Generator().manual_seed(seed)
    palette = 0.5 + 0.02 * (torch.rand(classes, 3, generator=torch.Generator().manual_seed(99)) - 0.5)
    labels = torch.zeros(count, side, side, dtype=torch.int64)
    for image in range(count):
        for _ in range(6):
            top, left, tall, wide = (int(torch.randint(1, side // 2, (1,), generator=generator)) for _ in range(4))
            kind = int(torch.randint(classes, (1,), generator=generator))
            labels[image, top : top + tall, left : left + wide] = kind
    images = palette[labels].permute(0, 3, 1, 2)
    return (images + 0.001 * torch.randn(images.shape, generator=generator)).clamp(0, 1), labels


def measure_battery(budget: float, side: int = 48, classes: int = 6) -> dict[str, float]:
    torch.manual_seed(0)
    network = nn.Sequential(nn.BatchNorm2d(3), twice(3, 24), twice(24, 24), nn.Conv2d(24, classes, 1))
    optimiser = torch.optim.Adam(network.parameters(), 5e-3)
    for step in range(150):
        images, labels = shapes(8, side, step, classes)
        optimiser.zero_grad()
        functional.cross_entropy(network(images), labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    network.eval().requires_grad_(False)
    images, labels = shapes(4, side, 10_000, classes)
    outcomes, seconds, passes = {}, {}, {}
    for skip in (True, False):
        battery = build("halmosi", budget=budget, skip=skip)
        started = time.process_time()
        outcomes[skip] = battery(network, images, labels)
        seconds[skip] = time.process_time() - started
        passes[skip] = int(outcomes[skip].queries.backward.sum())
    for metric in ("accuracy", "miou"):
        assert torch.equal(outcomes[True].worst[metric], outcomes[False].worst[metric]), "skipping changed the result"
        assert torch.equal(outcomes[True].choice[metric], outcomes[False].choice[metric]), "skipping changed the choice"
    result = {
        "time": seconds[True] / seconds[False],
        "gradients": passes[True] / passes[False],
        "clean_accuracy": float(outcomes[True].clean["accuracy"].mean()),
        "worst_accuracy": float(outcomes[True].worst["accuracy"].mean()),
        "cells_run": float(outcomes[True].ran.double().mean()),
    }
    print("battery", {key: round(value, 3) for key, value in result.items()}, flush=True)
    return result


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def peak(network_name: str, what: str) -> int:
    """Peak resident bytes of this process beyond what it held before the work."""
    network = dict(networks([network_name]))[network_name]
    images, labels = batch()
    with torch.no_grad():
        network(images[:1, :, :32, :32])
    before = resident()
    if what == "bare":
        bare(network, images, 3)
    else:
        build(what, steps=3, **ATTACKS[what])(network, images, labels)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before


def measure_memory(chosen: Sequence[str], chosen_networks: Sequence[str]) -> dict[str, dict[str, float]]:
    results: dict[str, dict[str, float]] = {}
    environment = {name: value for name, value in os.environ.items() if name not in KEEPING}
    environment |= {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}
    for network_name, _ in networks(chosen_networks):
        peaks = {}
        for what in ("bare", *chosen):
            command = [sys.executable, __file__, "--peak", network_name, what]
            peaks[what] = int(
                subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout
            )
        results[network_name] = {what: peaks[what] / peaks["bare"] for what in chosen}
        for what in chosen:
            mark = "" if what not in BOUNDED else ("  ok" if results[network_name][what] <= 1.15 else "  OVER 1.15")
            print(f"{network_name:14} {what:10} memory {results[network_name][what]:.3f}{mark}", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="file to write the figures to")
    parser.add_argument("--only", choices=("iterations", "detection", "battery", "memory"))
    parser.add_argument("--all", action="store_true", help="every attack, not only those with a bound")
    parser.add_argument("--network", choices=tuple(NETWORKS), help="one network only")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of the iteration measurement")
    parser.add_argument("--budget", type=float, default=1.0, help="factor on the battery's steps")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.peak:
        print(peak(*arguments.peak))
        return
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEPING})
    chosen_networks = (arguments.network,) if arguments.network else tuple(NETWORKS)
    chosen = tuple(ATTACKS) if arguments.all else BOUNDED
    parts: dict[str, Callable[[], Any]] = {
        "iterations": lambda: measure_iterations(arguments.rounds, chosen, chosen_networks),
        "detection": lambda: measure_detection(arguments.rounds),
        "battery": lambda: measure_battery(arguments.budget),
        "memory": lambda: measure_memory(chosen, chosen_networks),
    }
    figures = {name: run() for name, run in parts.items() if arguments.only in (None, name)}
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"bounds": BOUNDS, **figures}, file, indent=1)


if __name__ == "__main__":
    main()
