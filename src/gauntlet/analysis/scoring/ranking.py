"""The one rule by which models are ranked: which score decides, who is first, who shares a rank, who has none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from gauntlet.analysis.scoring.benchmark_sets import SUITE_BUDGETS
from gauntlet.analysis.scoring.shared_threats import WORST_CORRUPTION

Model = TypeVar("Model", str, tuple[str, int])

_PREFERRED = ("GAM_", WORST_CORRUPTION, "-ReM^", "halmosi 8/255")
_REM = re.compile(r"(?P<norm>\w+)-ReM\^(?P<epsilon>[\d.]+)_(?P<steps>[\d.]+)")
_GAM = re.compile(r"GAM_(?P<severity>[\d.]+)")


def rank(
    scores: Mapping[Model, Mapping[str, float]], sort_by: str | None = None
) -> tuple[str, dict[Model, int | None]]:
    """Ranks models by one score.

    Args:
        scores: fractions by model (its name, or its name and a number where a name occurs twice) and name of the
            score; a score that a model does not have is NaN or left out.
        sort_by: the score; by default that of `deciding_score`.

    Returns:
        The score, and the rank by model, best first: 1 is best, equal scores share the better rank and stand in the
        order of their names, models without the score have None and come last.

    >>> rank({"a": {"clean": 0.5}, "b": {"clean": 0.7, "GAM_3": float("nan")}, "c": {}})
    ('clean', {'b': 1, 'a': 2, 'c': None})
    """
    if sort_by is None:
        sort_by = deciding_score(list(scores.values()))
    values = {model: own.get(sort_by, math.nan) for model, own in scores.items()}
    present = [value for value in values.values() if not math.isnan(value)]
    order = sorted(values, key=lambda model: (math.inf if math.isnan(values[model]) else -values[model], model))
    return sort_by, {
        model: None if math.isnan(values[model]) else 1 + sum(other > values[model] for other in present)
        for model in order
    }


def deciding_score(scores: Iterable[Mapping[str, float]]) -> str:
    """The score that ranks models, from what they have alone: neither the order of models nor of runs counts.

    The first kind of score in the order of `by_preference` that more than half of the models with any figure under a
    threat have. Of its budgets (or severities) the one that most of them have; of those that of the benchmark's suite,
    else the largest. Where no score is so common, the first that anybody has.

    Args:
        scores: of every model, as for `rank`.

    >>> deciding_score([{"linf-ReM^1_20": 0.5, "linf-ReM^8_20": 0.1}, {"linf-ReM^1_20": 0.4, "linf-ReM^8_20": 0.2}])
    'linf-ReM^8_20'
    >>> deciding_score([{"GAM_3": 0.5, "worst corruption": 0.6}, {"worst corruption": 0.7}])
    'worst corruption'
    """
    present = [{name for name, value in own.items() if not math.isnan(value)} for own in scores]
    names = by_preference(set().union(*present))
    if not names:
        return "clean"
    threatened = sum(bool(own - {"clean"}) for own in present) or len(present)
    models_with = {name: sum(name in own for own in present) for name in names}
    common = [name for name in names if 2 * models_with[name] > threatened] or names
    same_kind = [name for name in common if place(name) == place(common[0])]
    return max(same_kind, key=lambda name: models_with[name])  # of several, the first


def by_preference(names: Iterable[str]) -> list[str]:
    """Scores in the order in which models are ranked by them, unless somebody asks for something else.

    GAM, the worst corruption, ReM, the battery of Halmosi et al., clean, then all others. Of GAM and ReM the
    benchmark's suite comes first, then the largest severity, or linf before other norms, the largest epsilon and the
    most steps. Give only names of scores that somebody has.

    >>> by_preference(["clean", "mean of GAM_3", "linf-ReM^8_1", "linf-ReM^1_20", "linf-ReM^8_20"])
    ['linf-ReM^8_20', 'linf-ReM^8_1', 'linf-ReM^1_20', 'clean', 'mean of GAM_3']
    """
    return sorted(names, key=lambda name: (place(name), name not in SUITE_BUDGETS, *_size(name), name))


def place(name: str) -> int:
    """The place of a score's kind in the order of preference; scores of one kind share it."""
    last = len(_PREFERRED)
    if name == "clean":
        return last
    if name.startswith("mean of "):
        return last + 1
    return next((index for index, mark in enumerate(_PREFERRED) if mark in name), last + 1)


def _size(name: str) -> tuple[str, float, float]:
    """Sorts budgets of one kind: linf first, the largest first."""
    if found := _REM.fullmatch(name):
        norm = "" if found["norm"] == "linf" else found["norm"]
        return norm, -float(found["epsilon"]), -float(found["steps"])
    found = _GAM.fullmatch(name)
    return "", -float(found["severity"]) if found else 0.0, 0.0
