"""Which preparation is the fastest for a model: measured on one batch, remembered for the machine."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gauntlet._version import __version__
from gauntlet.files import cache_folder
from gauntlet.models.asked import has_gradient
from gauntlet.models.contract import DetectionModel, GauntletModel
from gauntlet.models.preparation.steps import prepare
from gauntlet.models.randomness import ask_equally
from gauntlet.samples import Boxes

_LOG = logging.getLogger(__name__)

CANDIDATES: tuple[tuple[str, ...], ...] = ((), ("fold",), ("channels-last",), ("fold", "channels-last"))
"""What is tried, the plainest first."""
ROUNDS = 3
GAIN = 0.03
"""A candidate must be faster than a plainer one by this share: less is noise, and every change moves the rounding."""
TOLERANCE = 1e-3
"""Largest difference of an output, over the largest output, for which two models count as the same function."""
AGREEING = 0.98
"""Share of the outputs of every class for which that must hold: where two values of a max-pooling window tie, another
rounding moves the index by which a decoder unpools, and the outputs around it change, as they do from one batch size
to another."""


def choose_steps(model: GauntletModel, size: tuple[int, int], batch_size: int) -> tuple[str, ...]:
    """The steps of `preparation.STEPS` with which a forward and backward pass is the fastest.

    The first call for a model, size, batch size, device and version times every candidate; later ones read the answer
    from `cache_path()`, so that runs and workers on one machine agree. What was remembered is checked again: two
    networks with the same weights may be different functions. A model that cannot be timed (no gradient, no memory) is
    left as it is, and the attack says what is wrong with it.

    Args:
        model: frozen, on its device.
        size: height and width of the images, in pixels.
        batch_size: images of one pass.
    """
    if not has_gradient(model):  # there is nothing to prepare in a part that can only be asked
        return ()
    key = _machine_key(model, size, batch_size)
    known = _read_cache().get(key)
    if known is not None and tuple(known) in CANDIDATES and same_function(model, prepare(model, known), size):
        return tuple(known)
    try:
        steps = measure_steps(model, size, batch_size)
    except Exception as error:  # foreign code; it is run again, and reported, by the attack
        _LOG.info("%s cannot be timed and is not prepared: %s", model.identity.name, error)
        return ()
    _write_cache(key, steps)
    return steps


def same_function(model: GauntletModel, prepared: GauntletModel, size: tuple[int, int]) -> bool:
    """Whether a prepared model gives the outputs of the model itself, on one random image."""
    images = _random_images(model, size, 1)
    with torch.no_grad():
        return _same(_output(prepared)(images), _output(model)(images))


def measure_steps(model: GauntletModel, size: tuple[int, int], batch_size: int) -> tuple[str, ...]:
    """As `choose_steps`, always measured; an error of the model itself is raised."""
    images = _random_images(model, size, batch_size)
    passes: dict[tuple[str, ...], Callable[[], torch.Tensor]] = {(): _one_pass(model, images)}
    reference = passes[()]()
    for steps in CANDIDATES[1:]:
        try:
            candidate = _one_pass(prepare(model, steps), images)
            output = candidate()
        except Exception as error:
            _LOG.info("the preparation %s fails on %s: %s", "+".join(steps), model.identity.name, error)
            continue
        if _same(output, reference):
            passes[steps] = candidate
        else:
            _LOG.info("the preparation %s changes what %s computes", "+".join(steps), model.identity.name)
    times = dict.fromkeys(passes, float("inf"))
    for _ in range(ROUNDS):
        for steps, candidate in passes.items():
            times[steps] = min(times[steps], _seconds(candidate, images.device))
    best: tuple[str, ...] = ()
    for steps in passes:
        if times[steps] < (1 - GAIN) * times[best]:
            best = steps
    return best


def _random_images(model: GauntletModel, size: tuple[int, int], count: int) -> torch.Tensor:
    """(count, 3, H, W) on the model's device, the same each time."""
    return torch.rand(count, 3, *size, generator=torch.Generator().manual_seed(0)).to(model.device)


def _output(model: GauntletModel) -> Callable[[torch.Tensor], torch.Tensor]:
    """What an attack differentiates: the logits, or a detector's loss of one object in the middle."""
    if not isinstance(model, DetectionModel):
        return partial(ask_equally, model)

    def losses(images: torch.Tensor) -> torch.Tensor:
        height, width = images.shape[-2:]
        corners = np.array([[width * 0.25, height * 0.25, width * 0.75, height * 0.75]], np.float32)
        return model.losses(images, [Boxes(corners, np.zeros(1, np.int64))] * len(images))

    return losses


def _one_pass(model: GauntletModel, images: torch.Tensor) -> Callable[[], torch.Tensor]:
    """A forward pass and the gradient of the images; gives the output that candidates are compared by."""
    output = _output(model)

    def run() -> torch.Tensor:
        points = images.detach().requires_grad_(True)
        value = output(points)
        torch.autograd.grad(value, points, torch.ones_like(value))
        return value.detach()

    return run


def _same(output: torch.Tensor, reference: torch.Tensor) -> bool:
    if output.shape != reference.shape:
        return False
    agree = ((output - reference).abs() <= TOLERANCE * reference.abs().max()).float()
    of_class = agree.mean(dim=[0, *range(2, agree.ndim)]) if agree.ndim > 1 else agree.mean()  # a loss has no classes
    return bool((of_class >= AGREEING).all())


def _seconds(run: Callable[[], Any], device: torch.device) -> float:
    """Time of one call: of this thread's processor on a CPU, so that other work on the machine does not count."""
    if device.type != "cpu":
        wait = torch.mps.synchronize if device.type == "mps" else partial(torch.cuda.synchronize, device)
        wait()
        began = time.perf_counter()
        run()
        wait()
        return time.perf_counter() - began
    began = time.thread_time()
    run()
    return time.thread_time() - began


def cache_path() -> Path:
    """The file that remembers choices: below $GAUNTLET_CACHE, else below the user's cache folder."""
    return cache_folder() / "preparations.json"


def _machine_key(model: GauntletModel, size: Sequence[int], batch_size: int) -> str:
    device = model.device
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type} {processor()}"
    shape = f"{batch_size}x{size[0]}x{size[1]}"
    # The same weights in another network are another model.
    layers = [(name, type(part).__qualname__, part.extra_repr()) for name, part in model.named_modules()]
    code = hashlib.sha256(repr(layers).encode()).hexdigest()[:8]
    versions = f"torch {torch.__version__}|gauntlet {__version__}"
    return f"{model.identity.digest}|{code}|{shape}|{kind}|{torch.get_num_threads()} threads|{versions}"


@cache
def processor() -> str:
    """The name of the processor: homes are shared by machines of several kinds."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _read_cache() -> dict[str, Any]:
    try:
        content = json.loads(cache_path().read_text())
    except (OSError, ValueError, RuntimeError):  # unreadable, damaged, or nobody's home
        return {}
    return content if isinstance(content, dict) else {}


def _write_cache(key: str, steps: Sequence[str]) -> None:
    """Adds a choice, all or nothing; a machine without a writable cache measures each time."""
    try:
        path = cache_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({**_read_cache(), key: list(steps)}, indent=1))
        partial.replace(path)
    except (OSError, RuntimeError) as error:
        _LOG.info("the choice of a preparation cannot be kept: %s", error)
