"""Whether a store is as it was written: checksums, and figures computed anew from counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gauntlet.errors import GauntletError, first_line
from gauntlet.metrics.contract import Figure
from gauntlet.results.store import Store

_CLOSE = 1e-9


@dataclass(frozen=True)
class Problem:
    """An evaluation that cannot be used.

    Attributes:
        key: of the evaluation.
        what: one sentence.
    """

    key: str
    what: str


def check_store(store: Store, *, recompute: bool = False) -> Iterator[Problem | None]:
    """Look at every evaluation with its counts; a Problem, or None for one that is as it was written.

    Args:
        store: which.
        recompute: also compute all figures from the counts, and compare them with the stored ones.
    """
    damaged = store.damage()
    for key, what in damaged.items():
        yield Problem(key, f"{what}.")
    complete = store.keys()
    for key in complete:
        if key not in damaged:
            yield _problem(store, key, recompute)


def _problem(store: Store, key: str, recompute: bool) -> Problem | None:
    try:
        stored = store.load(key)
        if stored is None:
            return Problem(key, "it is gone.")
        for _ in store.counts_of(key):
            pass
        if recompute and not _same(stored.all_figures, store.recompute(key)):
            return Problem(key, "its figures are not those of its counts.")
    except GauntletError as error:
        return Problem(key, first_line(error))
    return None


def _same(stored: Sequence[Figure], computed: Sequence[Figure]) -> bool:
    """True where both have the same figures with the same values; intervals may be of an older method."""
    values = {(f.view, f.metric, f.class_name): f.value for f in stored}
    other = {(f.view, f.metric, f.class_name): f.value for f in computed}
    return values.keys() <= other.keys() and all(_equal(value, other[name]) for name, value in values.items())


def _equal(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
