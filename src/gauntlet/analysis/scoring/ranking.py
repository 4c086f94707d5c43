"""The one rule by which models are ranked: which score decides, who is first, who shares a rank, who has none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

from gauntlet.analysis.scoring.shared_threats import WORST_CORRUPTION

Model = TypeVar("Model", str, tuple[str, int])

_PREFERRED = ("GAM_3", "GAM_", WORST_CORRUPTION, "-ReM^", "halmosi 8/255")


def rank(
    scores: Mapping[Model, Mapping[str, float]], sort_by: str | None = None
) -> tuple[str, dict[Model, int | None]]:
    """Ranks models by one score.

    Args:
        scores: fractions by model (its name, or its name and a number where a name occurs twice) and name of the
            score; a score that a model does not have is NaN or left out.
        sort_by: the score; by default the first in the order of `by_preference` that at least one model has.

    Returns:
        The score, and the rank by model, best first: 1 is best, equal scores share the better rank and stand in the
        order of their names, models without the score have None and come last.

    >>> rank({"a": {"clean": 0.5}, "b": {"clean": 0.7, "GAM_3": float("nan")}, "c": {}})
    ('clean', {'b': 1, 'a': 2, 'c': None})
    """
    if sort_by is None:
        names = dict.fromkeys(name for own in scores.values() for name, value in own.items() if not math.isnan(value))
        sort_by = next(iter(by_preference(names)), "clean")
    values = {model: own.get(sort_by, math.nan) for model, own in scores.items()}
    present = [value for value in values.values() if not math.isnan(value)]
    order = sorted(values, key=lambda model: (math.inf if math.isnan(values[model]) else -values[model], model))
    return sort_by, {
        model: None if math.isnan(values[model]) else 1 + sum(other > values[model] for other in present)
        for model in order
    }


def by_preference(names: Iterable[str]) -> list[str]:
    """Scores in the order in which models are ranked by them, unless somebody asks for something else.

    GAM (of severity 3 first), the worst corruption, ReM, the battery of Halmosi et al., clean, then all others. Give
    only names of scores that somebody has.

    >>> by_preference(["clean", "mean of GAM_3", "linf-ReM^8_1", "linf-ReM^8_20"])
    ['linf-ReM^8_20', 'linf-ReM^8_1', 'clean', 'mean of GAM_3']
    """
    return sorted(names, key=_preference)


def _preference(name: str) -> tuple[int, int]:
    last = len(_PREFERRED)
    if name == "clean":
        return last, 0
    if name.startswith("mean of "):
        return last + 1, 0
    place = next((index for index, mark in enumerate(_PREFERRED) if mark in name), last + 1)
    steps = name.rpartition("_")[2]
    # Of several ReMs the one with the most steps: a single step tells little.
    return place, -int(steps) if "-ReM^" in name and steps.isdigit() else 0
