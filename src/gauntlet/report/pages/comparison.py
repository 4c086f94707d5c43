"""Two models under the same threats: verdict, difference, interval and p-value of one test each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gauntlet.analysis.better import OPEN, Told, settle
from gauntlet.errors import GauntletError
from gauntlet.report.image_figures import Images, read_images
from gauntlet.report.order import Order, worst_case_test
from gauntlet.report.scope import Scope, scopes
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.tables import Interval
from gauntlet.report.versions import differing
from gauntlet.results import Store


@dataclass(frozen=True)
class Difference:
    """Two models under one threat.

    Attributes:
        threat, kind: which.
        first, second: their figures.
        told: the test of their difference; None without counts of the same images.
        better, worse: images on which the second model is; None without counts.
    """

    threat: str
    kind: str
    first: float
    second: float
    told: Told | None = None
    better: int | None = None
    worse: int | None = None

    @property
    def change(self) -> Interval:
        """Second - first, with the interval of the test."""
        value = self.second - self.first
        return Interval(value) if self.told is None else Interval(value, self.told.low, self.told.high)

    @property
    def verdict(self) -> str:
        """The second model against the first."""
        return OPEN if self.told is None else self.told.verdict


@dataclass(frozen=True)
class Comparison:
    """Two models on one dataset.

    Attributes:
        scope: the evaluations.
        first, second: names of the models in the scope.
        differences: one per threat that both were evaluated under.
        images: of every threat and model, where there are counts.
        order: of the two models, by what ranks them.
        versions: values of what the evaluations were made with and differ in (torch, opencv, ...), by name.
    """

    scope: Scope
    first: str
    second: str
    differences: Sequence[Difference]
    images: dict[tuple[str, str], Images]
    order: Order
    versions: Mapping[str, Sequence[str]]


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
    """What a model is called in a scope, None where it is not there; an error where several are called so."""
    if label in scope.models:
        return label
    runs = [model for model in scope.models if model.startswith(f"{label} (")]
    if len(runs) > 1:
        raise GauntletError(f"'{label}' stands for several runs on {scope.title}; say which: {', '.join(runs)}.")
    return runs[0] if runs else None


def _compare(store: Store, scope: Scope, first: str, second: str) -> Comparison:
    keys = scope.latest_keys()
    shared = [threat for threat in scope.threats if (first, threat) in keys and (second, threat) in keys]
    images: dict[tuple[str, str], Images] = {}
    for pair in [(model, threat) for threat in shared for model in (first, second)]:
        read = read_images(store, keys[pair])
        if read is not None:
            images[pair] = read
    tests = [worst_case_test(images, first, second, [threat], len(shared)) for threat in shared]
    settled = settle(tests, scope.images)
    differences = [
        _difference(scope, threat, first, second, images, told) for threat, told in zip(shared, settled, strict=True)
    ]
    of_both = replace(scope, frame=scope.frame[scope.frame["model"].isin([first, second])])
    stored = (store.load(keys[model, threat]) for threat in shared for model in (first, second))
    versions = differing(each.provenance for each in stored if each is not None)
    return Comparison(scope, first, second, differences, images, Order(Ranking(of_both), images), versions)


def _difference(
    scope: Scope, threat: str, first: str, second: str, images: dict[tuple[str, str], Images], told: Told | None
) -> Difference:
    values = [scope.figure(model, threat).value for model in (first, second)]
    found = Difference(threat, scope.threats[threat], values[0], values[1], told)
    if told is None:
        return found
    change = images[second, threat].values - images[first, threat].values
    return replace(found, better=int(np.sum(change > 0)), worse=int(np.sum(change < 0)))
