"""How figures fall as a threat grows."""

from __future__ import annotations

from gauntlet.analysis import curve
from gauntlet.analysis.curves import curve_options, settings
from gauntlet.report.charts import Axis, Chart, LineChart, Panel, Series
from gauntlet.report.document import Section
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.results.descriptions import grey_levels


def section(scope: Scope, ranking: Ranking) -> Section | None:
    """One panel per setting that was varied."""
    panels = [panel for parameter in curve_options() if (panel := curve_panel(scope, ranking, parameter)) is not None]
    return Section(f"curves-{scope.id}", "Curves", panels) if panels else None


def curve_panel(scope: Scope, ranking: Ranking, parameter: str) -> Panel | None:
    """Curves along one setting, a line per model; one chart per threat that was run with several values of it."""
    rows = scope.analysis_frame
    rows = rows[rows["view"].eq("all")]
    rows = rows[rows["kind"].eq("clean") | settings(rows, parameter).notna()]
    if rows["kind"].eq("clean").all():
        return None
    points = curve(rows, parameter, scope.metric)
    option = curve_options()[parameter]
    charts: dict[str, Chart] = {}
    for series, part in points.groupby("series", sort=False):
        lines = []
        for index, model in enumerate(ranking.models):
            line = part[part["model"].eq(model)]
            if line.empty:
                continue
            x = line["x"].astype(float)
            at = [grey_levels(value) for value in x] if option.grey_levels else x.tolist()
            value, low, high = (line[name].astype(float).tolist() for name in ("value", "low", "high"))
            lines.append(Series(model, at, value, low, high, style=index))
        charts[str(series)] = LineChart(
            f"{scope.metric} against {option.axis.split(' (')[0]}: {series}",
            f"{scope.metric} of every model along the {parameter} of {series}; the value at 0 is the clean figure.",
            Axis(option.axis),
            Axis(f"{scope.metric} (%)", percent=True, whole=True),
            series=lines,
        )
    if not charts:
        return None
    caption = (
        "The point at 0 is the clean figure; bars are 95 % intervals. Click a name to hide it, twice to see it alone."
    )
    return Panel(f"curve-{parameter}-{scope.id}", f"By {parameter}", caption, charts, "threat")
