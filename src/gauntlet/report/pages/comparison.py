"""Two models under the same threats: differences with paired intervals and p-values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gauntlet.errors import GauntletError
from gauntlet.report.image_figures import Images, read_images
from gauntlet.report.scope import Scope, scopes
from gauntlet.report.tables import Interval
from gauntlet.results import Store


@dataclass(frozen=True)
class Difference:
    """Two models under one threat.

    Attributes:
        threat, kind: which.
        first, second: their figures.
        change: second - first, with its paired 95 % interval over images.
        p_value: two-sided, of the paired permutation test; NaN without counts.
        adjusted: the same, adjusted for the number of threats (Holm).
        better, worse: images on which the second model is.
    """

    threat: str
    kind: str
    first: float
    second: float
    change: Interval
    p_value: float = math.nan
    adjusted: float = math.nan
    better: int = 0
    worse: int = 0


@dataclass(frozen=True)
class Comparison:
    """Two models on one dataset.

    Attributes:
        scope: the evaluations.
        first, second: names of the models in the scope.
        differences: one per threat that both were evaluated under.
        images: of every threat and model, where there are counts.
    """

    scope: Scope
    first: str
    second: str
    differences: Sequence[Difference]
    images: dict[tuple[str, str], Images]


def compare_models(store: Store, first: str, second: str, dataset: str | None = None) -> list[Comparison]:
    """Compares two models wherever both were evaluated.

    Args:
        store: the evaluations.
        first, second: names of models; what a report calls them where one name stands for several.
        dataset: only on this dataset.
    """
    parts = [scope for scope in scopes(store.frame()) if dataset is None or scope.dataset == dataset]
    if not parts:
        raise GauntletError(f"the store {store.address} holds no evaluation{' on ' + dataset if dataset else ''}.")
    comparisons = []
    seeded = {model for scope in parts for model in scope.models}
    labels = [name if name in seeded else store.find_model(name).label for name in (first, second)]
    for scope in parts:
        pair = [_named(scope, label) for label in labels]
        if pair[0] is not None and pair[1] is not None:
            comparisons.append(_compare(store, scope, pair[0], pair[1]))
    if not any(each.differences for each in comparisons):
        raise GauntletError(f"'{first}' and '{second}' were never evaluated on the same images under the same threat.")
    return [each for each in comparisons if each.differences]


def _named(scope: Scope, label: str) -> str | None:
    """What a model is called in a scope, None where it is not there; an error where it was run with several seeds."""
    if label in scope.models:
        return label
    seeds = [model for model in scope.models if model.startswith(f"{label} (seed ")]
    if len(seeds) > 1:
        raise GauntletError(f"'{label}' stands for several runs on {scope.title}; say which: {', '.join(seeds)}.")
    return seeds[0] if seeds else None


def _compare(store: Store, scope: Scope, first: str, second: str) -> Comparison:
    keys = scope.latest_keys()
    shared = [threat for threat in scope.threats if (first, threat) in keys and (second, threat) in keys]
    images: dict[tuple[str, str], Images] = {}
    for pair in [(model, threat) for threat in shared for model in (first, second)]:
        read = read_images(store, keys[pair])
        if read is not None:
            images[pair] = read
    differences = [_difference(scope, threat, first, second, images) for threat in shared]
    adjusted = holm([each.p_value for each in differences])
    differences = [replace(each, adjusted=value) for each, value in zip(differences, adjusted, strict=True)]
    return Comparison(scope, first, second, differences, images)


def _difference(
    scope: Scope, threat: str, first: str, second: str, images: dict[tuple[str, str], Images]
) -> Difference:
    kind = scope.threats[threat]
    values = [scope.figure(model, threat).value for model in (first, second)]
    plain = Difference(threat, kind, values[0], values[1], Interval(values[1] - values[0]))
    one, other = (images.get((model, threat)) for model in (first, second))
    if one is None or other is None or not one.same_images(other):
        return plain
    row = one.compare(other)
    change = other.values - one.values
    return Difference(
        threat,
        kind,
        values[0],
        values[1],
        Interval(row["difference"], row["low"], row["high"]),
        row["p_value"],
        better=int(np.sum(change > 0)),
        worse=int(np.sum(change < 0)),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number, step by step from the smallest (Holm, 1979); NaN stays NaN.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    known = [index for index, value in enumerate(p_values) if not math.isnan(value)]
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(known, key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (len(known) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted
