"""Figures inside and outside the region that a threat acts in: tables by threat, by set of corruptions, by position."""

from __future__ import annotations

from gauntlet.analysis import mean_over_corruptions, position_differences
from gauntlet.report.document import Block
from gauntlet.report.naming import slug
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.tables import Cell, Column, Interval, Table
from gauntlet.tasks import SEGMENTATION, TASKS

_FIGURE = {name: (task.region_figure, task.region_words) for name, task in TASKS.items()}


def region_metrics(task: str) -> list[tuple[str, str, str]]:
    """Name, kind of column and meaning of the figures inside (M) and outside (Mbar) the region of a threat."""
    figure, words = _FIGURE.get(task, _FIGURE[SEGMENTATION])
    metrics = []
    for part, where in (("M", f"{words} inside the region"), ("Mbar", f"{words} outside the region")):
        metrics += _three(figure, part, where)
    return metrics + _three(figure, "P", f"{words} weighted by the importance function")


def _three(figure: str, part: str, words: str) -> list[tuple[str, str, str]]:
    name = f"{figure}_{part}"
    return [
        (name, "percent", words),
        (f"{name}_clean", "percent", "the same on the clean image"),
        (f"RCE_{part}", "number", f"relative corruption error: (clean - {name}) / clean"),
    ]


def blocks(scope: Scope, ranking: Ranking, kind: str, reference: str | None = None) -> list[Block]:
    """Every table of regions of a kind of threat.

    Args:
        scope, ranking: what is compared.
        kind: of threat.
        reference: a model that corruption errors are relative to, besides the model's own clean figure.
    """
    tables = [region_table(scope, ranking, kind)]
    if tables == [None]:  # no figure of a region, so nothing to compare
        return []
    if kind == "localized":
        tables.append(corruption_set_table(scope, ranking, reference))
    tables.append(position_table(scope, ranking, kind))
    return [table for table in tables if table is not None]


def region_table(scope: Scope, ranking: Ranking, kind: str) -> Table | None:
    """Accuracy (mAP for detectors) inside and outside the region that a threat acts in."""
    rows = scope.frame
    metrics = region_metrics(scope.task)
    there = set(rows["metric"])
    metrics = [each for each in metrics if each[0] in there]  # weights are rarely given
    rows = rows[rows["kind"].eq(kind) & rows["metric"].isin([name for name, _, _ in metrics]) & rows["view"].eq("all")]
    if rows.empty:
        return None
    rows = rows.drop_duplicates(["model", "threat", "metric"], keep="last")
    values = {
        (model, threat, metric): Interval(value, low, high)
        for model, threat, metric, value, low, high in rows[
            ["model", "threat", "metric", "value", "low", "high"]
        ].itertuples(index=False)
    }
    columns = [
        Column("threat"),
        Column("model"),
        *(
            Column(name.replace("_clean", " clean"), each, heat=each == "percent", note=note)
            for name, each, note in metrics
        ),
    ]
    measured = {(model, threat) for model, threat, _ in values}
    cells: list[list[Cell]] = [
        [threat, model, *(values.get((model, threat, name), Interval(float("nan"))) for name, _, _ in metrics)]
        for threat in scope.of_kind(kind)
        for model in ranking.models
        if (model, threat) in measured
    ]
    caption = (
        "M is the region the threat acts in, Mbar the rest. A relative corruption error of 0 means no damage, 1 that "
        "nothing is left; above 0 outside, damage spreads."
    )
    return Table(f"{slug(kind)}-regions-{scope.id}", "Inside and outside the region", columns, cells, caption)


def corruption_set_table(scope: Scope, ranking: Ranking, reference: str | None = None) -> Table | None:
    """Means over localized corruptions that share severity and place; None where there is one corruption only."""
    known = reference if reference in set(scope.models) else None
    rows = mean_over_corruptions(scope.analysis_frame, known)
    rows = rows[rows["corruptions"].str.contains(", ")] if len(rows) else rows
    if rows.empty:
        return None
    errors = ["RCE", *(["CE"] if known else [])]
    cells: list[list[Cell]] = [
        [
            row["setting"],
            row["corruptions"],
            row["region"],
            model,
            *(float(row[name]) for name in ("accuracy", "clean", *errors)),
        ]
        for model in ranking.models
        for row in rows[rows["model"].eq(model)].to_dict("records")
    ]
    cells.sort(key=lambda line: [str(cell) for cell in line[:3]])
    columns = [
        *(Column(name) for name in ("setting", "corruptions", "region", "model")),
        *(Column(name, "percent", heat=True) for name in ("accuracy", "clean")),
        *(Column(name, "number") for name in errors),
    ]
    caption = "Accuracies are averaged over the corruptions before the relative error is formed."
    if known:
        caption += f" CE is relative to {known} under the same corruptions in the same region."
    return Table(f"corruption-set-{scope.id}", "Mean over the corruptions", columns, cells, caption)


def position_table(scope: Scope, ranking: Ranking, kind: str) -> Table | None:
    """RCE in the centre minus RCE elsewhere."""
    rows = position_differences(scope.analysis_frame[scope.analysis_frame["kind"].isin([kind, "clean"])])
    if rows.empty:
        return None
    cells: list[list[Cell]] = [
        [
            row["threat"],
            row["position"],
            row["region"],
            model,
            *(float(row[name]) for name in ("centre", "elsewhere", "difference")),
        ]
        for model in ranking.models
        for row in rows[rows["model"].eq(model)].to_dict("records")
    ]
    columns = [
        *(Column(name) for name in ("threat in the centre", "other position", "region", "model")),
        *(Column(name, "number") for name in ("RCE in the centre", "RCE there", "difference")),
    ]
    caption = "Above 0 the centre does more damage; 'gauntlet study run spatial/figure-9' gives intervals."
    return Table(f"{slug(kind)}-positions-{scope.id}", "What the position changes", columns, cells, caption)
