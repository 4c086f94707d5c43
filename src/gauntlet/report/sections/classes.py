"""Which classes break."""

from __future__ import annotations

import pandas as pd

from gauntlet.report.charts import Axis, Chart, HeatChart, Panel
from gauntlet.report.document import Block, Fold, Section
from gauntlet.report.naming import slug
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.tables import Cell, Column, Table

CLASS_METRICS = ("IoU", "AP")
MOST_CLASSES = 30
"""More classes than this do not fit a table; those that lose most are shown, the CSV export has all."""


def section(scope: Scope, ranking: Ranking) -> Section | None:
    """A heat map to choose from, and a table per model with a row per threat."""
    figures = class_figures(scope)
    if figures.empty:
        return None
    metric = str(figures.attrs["metric"])
    classes, caption = _chosen_classes(figures), ""
    total = figures.columns.get_level_values("class_name").nunique()
    if total > len(classes):
        caption = f"The {len(classes)} of {total} classes that lose most; 'gauntlet report --format csv' has all."
    charts: dict[str, Chart] = {}
    tables: list[Block] = []
    for model in ranking.models:
        part = figures.loc[figures.index.get_level_values("model") == model].droplevel("model")
        threats = [threat for threat in scope.threats if threat in part.index]
        if not threats:
            continue
        values = part.reindex(index=threats, columns=classes)
        charts[f"model: {model}"] = _heat(f"{metric} per class, {model}", metric, values)
        tables.append(Fold(model, [_table(scope, model, metric, values, caption)]))
    for threat in scope.threats:
        part = figures.loc[figures.index.get_level_values("threat") == threat].droplevel("threat")
        models = [model for model in ranking.models if model in part.index]
        if models and len(ranking.models) > 1:
            values = part.reindex(index=models, columns=classes)
            charts[f"threat: {threat}"] = _heat(f"{metric} per class, {threat}", metric, values)
    note = "Dark cells are classes that are not found any more. " + caption
    panel = Panel(f"classes-map-{scope.id}", f"{metric} per class", note.strip(), charts, "view")
    return Section(f"classes-{scope.id}", "Classes", [panel, *tables])


def class_figures(scope: Scope) -> pd.DataFrame:
    """Per-class figures of the whole image: rows (model, threat), a column per class; the metric is in `attrs`."""
    rows = scope.frame
    rows = rows[rows["metric"].isin(CLASS_METRICS) & rows["class_name"].ne("") & rows["view"].eq("all")]
    if rows.empty:
        return pd.DataFrame()
    order = list(dict.fromkeys(rows["class_name"]))
    rows = rows.drop_duplicates(["model", "threat", "class_name"], keep="last")
    wide = rows.set_index(["model", "threat", "class_name"])["value"].unstack("class_name")[order]
    wide.attrs["metric"] = str(rows["metric"].iloc[0])
    return wide


def _chosen_classes(figures: pd.DataFrame) -> list[str]:
    """All classes in their order, or those that lose most from the best to the worst row."""
    names = list(map(str, figures.columns))
    if len(names) <= MOST_CLASSES:
        return names
    loss = (figures.max() - figures.mean()).sort_values(ascending=False)
    kept = set(loss.index[:MOST_CLASSES])
    return [name for name in names if name in kept]


def _table(scope: Scope, model: str, metric: str, values: pd.DataFrame, caption: str) -> Table:
    columns = [Column("threat"), *(Column(str(name), "percent", heat=True) for name in values.columns)]
    rows: list[list[Cell]] = [
        [str(threat), *map(float, row)] for threat, row in zip(values.index, values.to_numpy(float), strict=True)
    ]
    return Table(f"classes-{slug(model)}-{scope.id}", f"{metric} per class of {model}", columns, rows, caption)


def _heat(title: str, metric: str, values: pd.DataFrame) -> HeatChart:
    return HeatChart(
        title,
        f"{title}: a row per {values.index.name}, a column per class.",
        Axis("", categories=list(map(str, values.columns))),
        Axis("", categories=list(map(str, values.index))),
        values=values.to_numpy(float).tolist(),
    )
