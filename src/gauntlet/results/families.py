"""A family of threats as one evaluation: each member's, and their means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

from gauntlet.errors import GauntletError
from gauntlet.metrics.contract import Figure
from gauntlet.results.record import Evaluation

KIND = "family"


def combine(name: str, members: Mapping[str, Evaluation]) -> Evaluation:
    """The evaluation of a family: its figures are the means over the members, NaN unless every member has a figure.

    A mean without the members that failed would be one of another, easier family. Figures of two versions of the metric
    have no mean: an error.

    Args:
        name: of the family ("2DCommonCorruptions").
        members: evaluations of one model by the name of what tells them apart ("fog").
    """
    if not members:
        raise GauntletError(f"the family '{name}' has no members.")
    every = list(members.values())
    first = every[0]
    versions = sorted({each.metric_version for each in every if each.metric_version})
    if len(versions) > 1:
        raise GauntletError(
            f"the family '{name}' has figures of versions {', '.join(map(str, versions))} of the metric, which have no "
            "mean; evaluate its members again (--again)."
        )
    shared = [metric for metric in first.figures if all(metric in each.figures for each in every)]
    return replace(
        first,
        key=f"family:{name}:{first.key}",
        threat=name,
        kind=KIND,
        description={KIND: {"name": name, "members": [dict(each.description) for each in every]}},
        images=sum(each.images for each in every),
        views=("all",),
        all_figures=[Figure(metric, fmean(each.figures[metric] for each in every)) for metric in shared],
        duration=sum(each.duration for each in every),
        from_store=all(each.from_store for each in every),
        provenance=_shared_provenance(every),
        members=dict(members),
        _per_image=None,
    )


def flatten(evaluations: list[Evaluation]) -> list[Evaluation]:
    """Evaluations with families replaced by their members."""
    return [each for one in evaluations for each in (one.members.values() or [one])]


def _shared_provenance(every: list[Evaluation]) -> dict[str, object]:
    """What the provenances of all members agree on, and every flag of any of them."""
    first = every[0].provenance
    shared = {key: value for key, value in first.items() if all(each.provenance.get(key) == value for each in every)}
    if any("flags" in each.provenance for each in every):
        shared["flags"] = sorted({flag for each in every for flag in each.provenance.get("flags", ())})
    return shared
