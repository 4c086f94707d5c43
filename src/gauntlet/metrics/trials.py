"""Trials of a random model: the mean of a figure over them, and its spread."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gauntlet.metrics.contract import Figure
from gauntlet.metrics.views import Views

SPREAD = "_trials_sd"
"""Ending of a figure's standard deviation over trials, n - 1 in its denominator."""


def trial_figures(by_trial: Sequence[Sequence[Figure]], views: Views, spread_of: Collection[str]) -> list[Figure]:
    """Means over trials as the headline, spreads of some figures, and every trial's own headline.

    The bounds of a mean are the means of the bounds: they tell of the images; the spread tells of the draws.

    Args:
        by_trial: the same figures in the same order, for every trial.
        views: the trials.
        spread_of: names of the figures whose spread over trials is told.
    """
    means, spreads, own = [], [], []
    for figures in zip(*by_trial, strict=True):
        values = [each.value for each in figures]
        bounds = [(each.low, each.high) for each in figures]
        low, high = np.mean(bounds, axis=0)
        means.append(replace(figures[0], value=float(np.mean(values)), low=float(low), high=float(high)))
        if figures[0].class_name:
            continue
        if figures[0].metric in spread_of:
            spreads.append(Figure(figures[0].metric + SPREAD, float(np.std(values, ddof=1))))
        own += [Figure(each.metric, each.value, view=name) for each, name in zip(figures, views, strict=True)]
    return [*means, *spreads, *own]


def mean_of_trials(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row "all" of an image: the mean of its rows, one per trial."""
    mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name not in ("view", "valid")}
    return {"view": "all", **mean, "valid": rows[0]["valid"]}
