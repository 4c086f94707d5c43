"""Which preparation is the fastest for a model: measured on one batch, remembered for the machine."""

from __future__ import annotations

import json
import logging
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.models.contract import DetectionModel, GauntletModel
from gauntlet.models.preparation.steps import prepare
from gauntlet.samples import Boxes

_LOG = logging.getLogger(__name__)

CANDIDATES: tuple[tuple[str, ...], ...] = ((), ("fold",), ("channels-last",), ("fold", "channels-last"))
"""What is tried, the plainest first."""
ROUNDS = 3
GAIN = 0.03
"""A candidate must be faster than a plainer one by this share: less is noise, and every change moves the rounding."""
TOLERANCE = 1e-3
"""Largest difference of an output, over the largest output, for which two models count as the same function."""


def choose_steps(model: GauntletModel, size: tuple[int, int], batch_size: int) -> tuple[str, ...]:
    """The steps of `preparation.STEPS` with which a forward and backward pass is the fastest.

    The first call for a model, size, batch size, device and version of torch times every candidate; later ones read
    the answer from `cache_path()`, so that runs and workers on one machine agree.

    Args:
        model: frozen, on its device.
        size: height and width of the images, in pixels.
        batch_size: images of one pass.
    """
    key = _machine_key(model, size, batch_size)
    known = _read_cache().get(key)
    if known is not None and tuple(known) in CANDIDATES:
        return tuple(known)
    steps = measure_steps(model, size, batch_size)
    _write_cache(key, steps)
    return steps


def steps_for(model: GauntletModel, dataset: Dataset, batch_size: int) -> tuple[str, ...]:
    """`choose_steps` for the size of a dataset's first image."""
    height, width = dataset[0].image.shape[:2]
    return choose_steps(model, (height, width), batch_size)


def measure_steps(model: GauntletModel, size: tuple[int, int], batch_size: int) -> tuple[str, ...]:
    """As `choose_steps`, always measured."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(batch_size, 3, *size, generator=generator).to(model.device)
    passes = {}
    reference: torch.Tensor | None = None
    for steps in CANDIDATES:
        try:
            candidate = _one_pass(prepare(model, steps), images)
            output = candidate()
        except Exception as error:
            if reference is None:
                raise
            _LOG.info("the preparation %s fails on %s: %s", "+".join(steps), model.identity.name, error)
            continue
        if reference is None:
            reference = output
        elif not _same(output, reference):
            _LOG.info("the preparation %s changes what %s computes", "+".join(steps), model.identity.name)
            continue
        passes[steps] = candidate
    times = dict.fromkeys(passes, float("inf"))
    for _ in range(ROUNDS):
        for steps, candidate in passes.items():
            times[steps] = min(times[steps], _seconds(candidate, images.device))
    best: tuple[str, ...] = ()
    for steps in passes:
        if times[steps] < (1 - GAIN) * times[best]:
            best = steps
    return best


def _one_pass(model: GauntletModel, images: torch.Tensor) -> Callable[[], torch.Tensor]:
    """A forward pass and the gradient of the images; gives the output that candidates are compared by."""
    if isinstance(model, DetectionModel):
        height, width = images.shape[-2:]
        corners = np.array([[width * 0.25, height * 0.25, width * 0.75, height * 0.75]], np.float32)
        targets = [Boxes(corners, np.zeros(1, np.int64))] * len(images)

        def output(points: torch.Tensor) -> torch.Tensor:
            return model.losses(points, targets)
    else:

        def output(points: torch.Tensor) -> torch.Tensor:
            return model(points)  # type: ignore[no-any-return]

    def run() -> torch.Tensor:
        points = images.detach().requires_grad_(True)
        value = output(points)
        torch.autograd.grad(value, points, torch.ones_like(value))
        return value.detach()

    return run


def _same(output: torch.Tensor, reference: torch.Tensor) -> bool:
    if output.shape != reference.shape:
        return False
    return bool((output - reference).abs().max() <= TOLERANCE * reference.abs().max())


def _seconds(run: Callable[[], Any], device: torch.device) -> float:
    """Time of one call: of this thread's processor on a CPU, so that other work on the machine does not count."""
    if device.type != "cpu":
        wait = torch.mps.synchronize if device.type == "mps" else torch.cuda.synchronize
        wait()
        began = time.perf_counter()
        run()
        wait()
        return time.perf_counter() - began
    began = time.process_time()
    run()
    return time.process_time() - began


def cache_path() -> Path:
    """The file that remembers choices: below $GAUNTLET_CACHE, else below the user's cache folder."""
    folder = os.environ.get("GAUNTLET_CACHE")
    base = Path(folder) if folder else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gauntlet"
    return base / "preparations.json"


def _machine_key(model: GauntletModel, size: Sequence[int], batch_size: int) -> str:
    device = model.device
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type} {platform.machine()}"
    shape = f"{batch_size}x{size[0]}x{size[1]}"
    return f"{model.identity.digest}|{shape}|{kind}|{torch.get_num_threads()} threads|torch {torch.__version__}"


def _read_cache() -> dict[str, Any]:
    try:
        content = json.loads(cache_path().read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_cache(key: str, steps: Sequence[str]) -> None:
    """Adds a choice, all or nothing; a machine without a writable cache measures each time."""
    path = cache_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({**_read_cache(), key: list(steps)}, indent=1))
        partial.replace(path)
    except OSError as error:
        _LOG.info("the choice of a preparation cannot be kept in %s: %s", path, error.strerror)
