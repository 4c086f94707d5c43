"""Published figures as evaluations: what a benchmark has printed need not be computed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.metrics import Figure
from gauntlet.models import zoo
from gauntlet.numbers import format_number
from gauntlet.results import published
from gauntlet.results.descriptions import read_description, threat_settings
from gauntlet.results.published.lookup import TRIPLE_SOURCES
from gauntlet.results.published.sources import SOURCES
from gauntlet.results.record import Evaluation
from gauntlet.threats.contract import Threat

ALPHA = "alpha"
"""The step size: what was published with another one is another attack; where a table does not say it, a flag does."""
SAME = 1e-6


def find_published(
    model_name: str, backbone: str, dataset: str, threat: Threat, crop_size: str | None = None
) -> Evaluation | None:
    """The published figures of a model under a threat as an Evaluation, or None where they were not published.

    Args:
        model_name, backbone, dataset: the triple.
        threat: the threat.
        crop_size: needed where a triple was published in several crop sizes.

    Raises:
        GauntletError: for a triple that neither the published tables nor the zoo have, and for one that means several
            published models.
    """
    return find_described(model_name, backbone, dataset, threat.name, threat.describe(), crop_size)


def find_described(
    model_name: str,
    backbone: str,
    dataset: str,
    threat: str,
    description: Mapping[str, Any],
    crop_size: str | None = None,
) -> Evaluation | None:
    """As `find_published`, for a threat by its name and description: published weather is no threat of Gauntlet's."""
    try:
        of_model = published.find(model_name, backbone, dataset, crop_size)
    except UnknownNameError:
        if not _is_in_zoo(model_name, backbone, dataset, crop_size):
            raise
        return None
    rows = published_run(of_model, description)
    if rows.empty:
        return None
    first = rows.iloc[0]
    source = SOURCES[str(first["source"])]
    flags = sorted({reason for reason in (*rows["reason"], *rows["model_reason"]) if reason})
    flags += _unknown_step(str(first["description"]), description)
    return Evaluation(
        key=f"published:{first['source']}:{first['model']}:{dataset}:{first['threat']}:"
        + hashlib.sha256(str(first["description"]).encode()).hexdigest()[:8],  # one name was run with two steps
        task=str(first["task"]),
        model=str(first["model"]),
        model_digest="",
        dataset=str(first["dataset"]),
        split=str(first["split"]),
        threat=threat,
        kind=str(first["kind"]),
        description=json.loads(first["description"]),
        seed=0,
        images=0,
        views=("all",),
        all_figures=[Figure(str(m), float(v)) for m, v in zip(rows["metric"], rows["value"], strict=True)],
        provenance={
            "published": str(first["source"]),
            "reference": source.reference,
            "note": source.note,
            "flags": flags,
        },
        duration=0.0,
        created="",
        from_store=True,
    )


def published_run(of_model: pd.DataFrame, description: Mapping[str, Any]) -> pd.DataFrame:
    """Those of a model's published figures that one run under a threat gave; none where it was not published.

    Every setting must be the same, the step size where the table says one.

    Args:
        of_model: as `published.find` gives them.
        description: of the threat.
    """
    rows = published.of_threat(of_model, _without_step(description))
    wanted, there = _step(description), threat_settings(rows)[ALPHA]
    if wanted is not None:
        rows = rows[there.isna() | ((there - wanted).abs() < SAME)]
    return rows if rows.empty else _one_run(rows)


def _is_in_zoo(model_name: str, backbone: str, dataset: str, crop_size: str | None) -> bool:
    """Whether the zoo has a triple: it holds public checkpoints that no benchmark has figures of."""
    try:
        zoo.find(model_name, backbone, dataset, crop_size=crop_size)
    except UnknownNameError:
        return False
    return True


def _one_run(rows: pd.DataFrame) -> pd.DataFrame:
    """Those of some figures that come from one run, of the source that is named first: sources repeat each other.

    A run whose step size is known goes before one whose is not.
    """
    order = {source: place for place, source in enumerate(TRIPLE_SOURCES)}
    ranked = rows.assign(place=rows["source"].map(order), unknown=threat_settings(rows)[ALPHA].isna())
    first = ranked.sort_values(["place", "unknown"], kind="stable").iloc[0]
    return rows[rows["source"].eq(first["source"]) & rows["description"].eq(first["description"])]


def _unknown_step(published_description: str, description: Mapping[str, Any]) -> list[str]:
    """A flag for figures of an attack whose step size was not published."""
    wanted = _step(description)
    if wanted is None or ALPHA in read_description(published_description):
        return []
    return [f"published without its step size, alpha; that of the threat is {format_number(wanted)}"]


def _step(description: Mapping[str, Any]) -> float | None:
    """The step size of a threat, on the [0, 1] scale."""
    wanted = read_description(json.dumps(description)).get(ALPHA)
    return wanted if isinstance(wanted, float) else None


def _without_step(description: Mapping[str, Any]) -> dict[str, Any]:
    kind, options = next(iter(description.items()))
    if not isinstance(options, Mapping):
        raise GauntletError(f"the threat '{kind}' has no options to look up.")
    return {kind: {name: value for name, value in options.items() if name != ALPHA}}
