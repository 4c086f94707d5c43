"""How long will it take? A short measured probe of the model times the passes a threat needs."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.local import one_thread
from gauntlet.evaluation.execution.units import Unit, load_unit
from gauntlet.evaluation.jobs import PlannedJob, ready_model, steps_for
from gauntlet.evaluation.provenance import choose_device
from gauntlet.models import DetectionModel
from gauntlet.models.preparation import parse_steps, prepare
from gauntlet.models.randomness import ask_equally, random_parts
from gauntlet.samples import Batch


@dataclass(frozen=True)
class Probe:
    """Seconds per image that were measured: loading, a forward pass, a forward and backward pass.

    Attributes:
        gradient: NaN for a model that has no gradient, and where no threat takes one.
        trials: how often a random model is asked for the figures.
    """

    load: float
    forward: float
    gradient: float
    trials: int = 1


def estimate(jobs: Sequence[PlannedJob]) -> list[float]:
    """Seconds that one worker will take for each job, at most; NaN for a model that cannot be loaded.

    Every model is probed once per dataset and images of a pass, prepared as it will be, after a warm-up; its gradient
    only where a threat takes one, since that of a CRF takes seconds.
    """
    probes: dict[tuple[int, int, int, bool], Probe | None] = {}
    seconds = []
    for planned in jobs:
        images = planned.threat.images_per_pass(planned.settings.batch_size)
        key = (id(planned.model), id(planned.dataset), images, takes_gradients(planned))
        if key not in probes:
            with one_thread(choose_device(planned.settings.device)):
                probes[key] = probe(planned)
        measured = probes[key]
        if measured is None:
            seconds.append(math.nan)
            continue
        passes = planned.threat.passes(planned.job.task)
        looks = passes.forward - passes.backward + measured.trials - 1
        looking = looks * measured.forward + (passes.backward * measured.gradient if passes.backward else 0)
        seconds.append((measured.load + looking) * len(planned.dataset))
    return seconds


def takes_gradients(planned: PlannedJob) -> bool:
    """Whether a job asks for the gradient of its model."""
    return planned.threat.passes(planned.job.task).backward > 0


def probe(planned: PlannedJob) -> Probe | None:
    """Measures one batch of a job's dataset on its model; None where the model cannot be loaded or does not fit."""
    device = choose_device(planned.settings.device)
    try:
        model = ready_model(planned.model, planned.dataset, device)
    except GauntletError:
        return None
    unit = Unit(0, min(planned.threat.images_per_pass(planned.settings.batch_size), len(planned.dataset)))

    steps = parse_steps(planned.settings.prepare) if takes_gradients(planned) else ()
    if steps is None:
        steps = steps_for(model, planned.dataset, planned.threat, planned.settings.batch_size)
    prepared = prepare(model, steps)

    def load() -> Batch:
        return load_unit(planned.dataset, unit, 0, device)[0].batch

    batch = load()  # warm-up: files, compiled code
    loading, batch = _timed(load)

    def forward() -> None:
        with torch.inference_mode():
            if isinstance(model, DetectionModel):
                model.predict(batch.images)
            else:
                ask_equally(model, batch.images)

    def gradient() -> None:
        images = batch.images.clone().requires_grad_()
        losses = (
            prepared.losses(images, batch.boxes)
            if isinstance(prepared, DetectionModel)
            else ask_equally(prepared, images)
        )
        torch.autograd.grad(losses.sum(), images)

    images = len(batch)
    differentiating = math.nan  # a model without a gradient says so when it is attacked
    if takes_gradients(planned):
        with contextlib.suppress(GauntletError):
            gradient()
            differentiating = _timed(gradient)[0] / images
    trials = max((part.trials for part in random_parts(model)), default=1)
    return Probe(loading / images, _timed(forward)[0] / images, differentiating, trials)


def _timed(function: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    value = function()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()
    return time.perf_counter() - began, value
