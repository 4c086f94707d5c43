"""The learning rate as a pure function of the step, so that a resumed run needs no scheduler state."""

from __future__ import annotations

import math

from gauntlet.training.config import ScheduleConfig


def learning_rate_factor(schedule: ScheduleConfig, step: int, total_steps: int) -> float:
    """The factor of the base learning rate at a step, counted from 0.

    Warm-up is linear from `warmup_start` to 1; then the factor falls from 1 to `final` as (1 - t) ** power
    (poly; linear is power 1) or (1 + cos(pi t)) / 2, with t the share of the remaining steps that is done.
    """
    warmup_steps = round(schedule.warmup * total_steps)
    if step < warmup_steps:
        return schedule.warmup_start + (1.0 - schedule.warmup_start) * step / warmup_steps
    if schedule.name == "constant":
        return 1.0
    done = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    if schedule.name == "cosine":
        remaining = (1.0 + math.cos(math.pi * done)) / 2.0
    else:
        remaining = (1.0 - done) ** (schedule.power if schedule.name == "poly" else 1.0)
    return schedule.final + (1.0 - schedule.final) * remaining
