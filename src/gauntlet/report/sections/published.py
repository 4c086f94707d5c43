"""Our figures of the benchmarks' models beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pandas as pd

from gauntlet.errors import GauntletError
from gauntlet.evaluation.retrieval import published_run
from gauntlet.models import zoo
from gauntlet.models.zoo import ZooEntry
from gauntlet.models.zoo.spelling import canonical_dataset
from gauntlet.numbers import counted
from gauntlet.report.document import Section, Text
from gauntlet.report.scope import Scope
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.results import published
from gauntlet.results.origin import read_origin
from gauntlet.results.record import Evaluation

LARGE = 0.005
"""A difference that is marked: half a point."""
_OPENMMLAB = "OpenMMLab"
COLUMNS = (
    Column("model"),
    Column("threat"),
    Column("ours", "percent"),
    Column("published", "percent"),
    Column("difference", "points", note="ours less the published figure"),
    Column("source", note="who published it"),
    Column("mark", note="where the two are more than half a point apart"),
)


def section(scope: Scope, evaluations: Mapping[str, Evaluation]) -> Section | None:
    """A row for every evaluation of a model of the zoo that was published too; nothing where none was.

    Args:
        scope: the evaluations to compare, by their main figure.
        evaluations: by key.
    """
    rows: list[list[Cell]] = []
    for (model, threat), key in scope.latest_keys().items():
        entry = _entry(scope, evaluations.get(key))
        figure = None if entry is None else published_figure(entry, evaluations[key].description, scope.metric)
        if figure is None:
            continue
        value, source = figure
        difference = scope.figure(model, threat).value - value
        mark = "differs" if abs(difference) > LARGE else ""
        rows.append([model, threat, difference + value, value, difference, source, mark])
    if not rows:
        return None
    far = sum(row[-1] != "" for row in rows)
    text = (
        f"{counted(len(rows), 'figure')} of models that others have published; {far or 'none'} "
        f"{'is' if far == 1 else 'are'} more than half a point away. Ours are of {counted(scope.images, 'image')}: "
        "only on the whole split of the benchmark can the two agree."
    )
    table = Table(f"published-figures-{scope.id}", f"{scope.metric}, ours and published", COLUMNS, rows)
    return Section(f"published-{scope.id}", "Beside the published figures", [Text(text), table])


def _entry(scope: Scope, evaluation: Evaluation | None) -> ZooEntry | None:
    """The model of the zoo that was evaluated, if it was on the dataset that it was trained on."""
    model = None if evaluation is None else read_origin(evaluation.provenance).model
    entry = None if model is None else zoo.entry_of(str(model["address"]))
    if entry is None or canonical_dataset(scope.dataset).removesuffix("0712") != entry.dataset:
        return None
    return entry


def published_figure(entry: ZooEntry, description: Mapping[str, Any], metric: str) -> tuple[float, str] | None:
    """The published figure of a model of the zoo under a threat, and who published it; None where nobody did."""
    rows = published_run(_figures(entry), description) if _is_known(entry) else pd.DataFrame(columns=["metric"])
    rows = rows[rows["metric"].eq(metric)]
    if not rows.empty:
        first = rows.iloc[0]
        return float(first["value"]), str(first["source"])
    if next(iter(description)) == "clean" and entry.openmmlab_figure and metric in ("mIoU", "mAP"):
        return float(entry.openmmlab_figure) / 100, _OPENMMLAB
    return None


def _is_known(entry: ZooEntry) -> bool:
    return not _figures(entry).empty


@lru_cache(maxsize=256)
def _figures(entry: ZooEntry) -> pd.DataFrame:
    """What was published of a model of the zoo; an empty frame where nothing was."""
    try:
        return published.find(entry.model_name, entry.backbone, entry.dataset, entry.crop_size or None)
    except GauntletError:
        return pd.DataFrame()
