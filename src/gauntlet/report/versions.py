"""Versions, devices and precisions in which compared evaluations differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

COMPARED = ("gauntlet", "torch", "numpy", "opencv", "device", "precision")
"""Facts of a provenance that can change figures; those that an evaluation does not have are not compared."""


def differing(provenances: Iterable[Mapping[str, object]]) -> dict[str, list[str]]:
    """The values of every fact in which some evaluations differ, by its name.

    >>> differing([{"torch": "2.1", "device": "cpu"}, {"torch": "2.2", "device": "cpu"}, {}])
    {'torch': ['2.1', '2.2']}
    """
    known = list(provenances)
    values = {name: sorted({str(each[name]) for each in known if name in each}) for name in COMPARED}
    return {name: found for name, found in values.items() if len(found) > 1}
