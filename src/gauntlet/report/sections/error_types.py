"""What a threat does to a detector: which errors cost most, and what becomes of the objects."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gauntlet.metrics.detection.error_types import TYPES, error_types, object_fates
from gauntlet.report.charts import Axis, BarChart, Chart, Panel, Series
from gauntlet.report.document import Section
from gauntlet.report.image_figures import BoxImages, Images
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.tables import Cell, Column, Table
from gauntlet.tasks import DETECTION

WORDS = {
    "Cls": "wrong class",
    "Loc": "badly placed",
    "Both": "wrong class, badly placed",
    "Dupe": "a second time",
    "Bkg": "on nothing",
    "Miss": "object missed",
}
FATES = ("found", "misnamed", "disappeared")
MADE_UP = "hallucinated_per_image"
Values = dict[tuple[str, str, str], float]


def section(scope: Scope, ranking: Ranking, images: Mapping[tuple[str, str], Images]) -> Section | None:
    """Bars and a table; what evaluations of version 0.1.0 have no figures of is counted from their detections.

    Args:
        scope, ranking: the evaluations and their order.
        images: the images of the evaluations.
    """
    if scope.task != DETECTION:
        return None
    rows = scope.frame[scope.frame["class_name"].eq("") & scope.frame["view"].eq("all")]
    rows = rows[rows["metric"].str.startswith(("dAP_", "errors_")) | rows["metric"].isin((*FATES, MADE_UP))]
    values: Values = {
        (str(model), str(threat), str(metric)): float(value)
        for model, threat, metric, value in rows[["model", "threat", "metric", "value"]].itertuples(index=False)
    }
    for (model, threat), of_pair in images.items():
        if (model, threat, "errors_Cls") not in values and isinstance(of_pair, BoxImages):
            values |= {(model, threat, name): value for name, value in _counted(of_pair).items()}
    if not values:
        return None
    panels = [gain_panel(scope, ranking, values), fate_panel(scope, ranking, values)]
    return Section(f"errors-{scope.id}", "Errors", [*panels, count_table(scope, ranking, values)])


def _counted(images: BoxImages) -> dict[str, float]:
    """The figures of this section, from the detections."""
    pairs = images.pairs()
    truths, detections = [truth for truth, _ in pairs], [found for _, found in pairs]
    errors, fates = error_types(truths, detections, images.num_classes), object_fates(truths, detections).figures()
    values = {f"dAP_{name}": value for name, value in errors.gains.items()}
    values |= {f"errors_{name}": float(count) for name, count in errors.counts.items()}
    return values | {name: fates[name] for name in (*FATES, MADE_UP)}


def gain_panel(scope: Scope, ranking: Ranking, values: Values) -> Panel:
    """Stacked bars of what each type of error costs, a row per threat."""
    parts = {f"dAP_{name}": WORDS[name] for name in TYPES}
    caption = (
        "TIDE: by how many points mAP50 would rise if the errors of one type alone were set right. The parts of a bar "
        "do not add up to what is missing. Where missed objects grow, objects vanish; where boxes on nothing do, they "
        "are made up."
    )
    charts = _charts(scope, ranking, values, parts, "Cost of errors", "mAP50 lost to errors of one type (points)")
    return Panel(f"error-types-{scope.id}", "Types of errors", caption, charts, "model")


def fate_panel(scope: Scope, ranking: Ranking, values: Values) -> Panel:
    """Stacked bars of what became of the objects, a row per threat."""
    caption = (
        "Every object once: found (a box of its class, score and IoU of at least 0.5), else misnamed (a box of another "
        "class), else disappeared."
    )
    charts = _charts(scope, ranking, values, {name: name for name in FATES}, "Objects", "share of the objects (%)")
    return Panel(f"fates-{scope.id}", "What became of the objects", caption, charts, "model")


def _charts(
    scope: Scope, ranking: Ranking, values: Values, parts: dict[str, str], title: str, axis: str
) -> dict[str, Chart]:
    charts: dict[str, Chart] = {}
    for model in ranking.models:
        threats = [threat for threat in scope.threats if (model, threat, next(iter(parts))) in values]
        series = [
            Series(word, [values.get((model, threat, name), math.nan) for threat in threats], threats, style=index)
            for index, (name, word) in enumerate(parts.items())
        ]
        if threats:
            charts[model] = BarChart(
                f"{title}, {model}",
                f"{title} of {model}, one bar per threat: {', '.join(parts.values())}.",
                Axis(axis, percent=True),
                Axis("", categories=threats),
                series=series,
            )
    return charts


def count_table(scope: Scope, ranking: Ranking, values: Values) -> Table:
    """Numbers of errors, boxes on nothing, and the gains of setting all wrong boxes or all missed objects right."""
    counts = [Column(f"{name} errors", "count", note=WORDS[name]) for name in TYPES]
    gains = [
        Column("made up per image", "number", note="boxes with a score of at least 0.5 that overlap no object by half"),
        Column("dAP FP", "percent", note="mAP50 gained without any wrong box"),
        Column("dAP FN", "percent", note="mAP50 gained without any object that was not found"),
    ]
    rows: list[list[Cell]] = []
    for threat in scope.threats:
        for model in ranking.models:
            if (model, threat, "errors_Cls") not in values:
                continue
            numbers = [values.get((model, threat, f"errors_{name}"), math.nan) for name in TYPES]
            others = [values.get((model, threat, name), math.nan) for name in (MADE_UP, "dAP_FP", "dAP_FN")]
            rows.append([threat, model, *(None if math.isnan(each) else int(each) for each in numbers), *others])
    columns = [Column("threat"), Column("model"), *counts, *gains]
    return Table(f"error-counts-{scope.id}", "Numbers of errors", columns, rows)
