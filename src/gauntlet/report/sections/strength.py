"""How figures fall as a threat grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from gauntlet.analysis import curve
from gauntlet.analysis.curves import curve_options, settings
from gauntlet.report.charts import Axis, Chart, LineChart, Panel, Series
from gauntlet.report.document import Section
from gauntlet.report.scope import Scope
from gauntlet.report.scope_ranking import Ranking
from gauntlet.results.descriptions import grey_levels


def section(scope: Scope, ranking: Ranking) -> Section | None:
    """One panel per setting that was varied."""
    views = [CurveView(scope.metric), CurveView(scope.metric, relative=True, prefix="kept"), *REGION_VIEWS]
    figures = {view: _figures(scope, view) for view in views}  # once: a frame has a hundred metrics
    made = [
        curve_panel(figures[view], scope, ranking, parameter, view) for parameter in curve_options() for view in views
    ]
    panels = [panel for panel in made if panel is not None]
    return Section(f"curves-{scope.id}", "Curves", panels) if panels else None


@dataclass(frozen=True)
class CurveView:
    """What is drawn along a setting.

    Attributes:
        metric: the figure.
        relative: its share of the clean figure instead: Arnab et al.'s IoU ratio.
        words: what it is called, its name where this is empty.
        prefix: of the panel's name.
    """

    metric: str
    relative: bool = False
    words: str = ""
    prefix: str = "curve"

    @property
    def title(self) -> str:
        return self.words or (f"{self.metric} ratio" if self.relative else self.metric)


REGION_VIEWS = (
    CurveView("RCE_M", words="RCE inside (M)", prefix="rce-inside"),
    CurveView("RCE_Mbar", words="RCE outside (Mbar)", prefix="rce-outside"),
)
"""Relative corruption errors of threats with a region."""


def _figures(scope: Scope, view: CurveView) -> pd.DataFrame:
    """The rows of a scope that a view is drawn from."""
    rows = scope.analysis_frame
    rows = rows[rows["view"].eq("all") & rows["metric"].eq(view.metric)]
    return rows[rows["kind"].isin(["clean", "attack"])] if view.relative else rows


def curve_panel(figures: pd.DataFrame, scope: Scope, ranking: Ranking, parameter: str, view: CurveView) -> Panel | None:
    """Curves along one setting, a line per model; one chart per threat that was run with several values of it."""
    clean, given = figures["kind"].eq("clean"), settings(figures, parameter).notna()
    if not (given & ~clean).any():
        return None
    points = curve(figures[clean | given], parameter, view.metric)
    if view.relative:
        # The interval of a share is paired over images: it stands in the table of ratios, and not here.
        points = points.assign(value=points["value"] / points["clean"], low=np.nan, high=np.nan)
    points = points.dropna(subset=["value"])  # an empty region has no figure
    option = curve_options()[parameter]
    start = " The point at 0 is the clean figure." if points["x"].eq(0).any() and view not in REGION_VIEWS else ""
    charts: dict[str, Chart] = {}
    for series, part in points.groupby("series", sort=False):
        lines = []
        of_model = dict(iter(part.groupby("model")))
        for index, model in enumerate(ranking.models):
            if model not in of_model:
                continue
            line = of_model[model]
            x = line["x"].astype(float)
            at = [grey_levels(value) for value in x] if option.grey_levels else x.tolist()
            value, low, high = (line[name].astype(float).tolist() for name in ("value", "low", "high"))
            lines.append(Series(model, at, value, low, high, style=index))
        charts[str(series)] = LineChart(
            f"{view.title} against {option.axis.split(' (')[0]}: {series}",
            f"{view.title} of every model along the {parameter} of {series}.{start}",
            Axis(option.axis),
            Axis(f"{view.title} (%)", percent=True, whole=view not in REGION_VIEWS),
            series=lines,
        )
    if not charts:
        return None
    bars = " Bars are 95 % intervals." if points["low"].notna().any() else ""
    caption = f"{start}{bars} Click a name to hide it, twice to see it alone.".strip()
    title = f"By {parameter}" if view.prefix == "curve" else f"{view.title} by {parameter}"
    return Panel(f"{view.prefix}-{parameter}-{scope.id}", title, caption, charts, "threat")
