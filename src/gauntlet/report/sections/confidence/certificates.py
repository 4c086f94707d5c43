"""What was certified: accuracy over the radius of the perturbations that cannot change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from gauntlet.report.charts import Axis, LineChart, Panel, Series
from gauntlet.report.document import Section
from gauntlet.report.scope import Scope
from gauntlet.report.tables import Cell, Column, Interval, Table

FIGURES = ("certified_accuracy", "certified_mIoU", "abstention")


CAPTION = (
    "A certified pixel keeps its class for every l2 perturbation up to the radius; the rest abstains and counts as "
    "wrong. "
)
PER_IMAGE = "The level alpha holds per image, all of its pixels together. "
PER_PIXEL = "The level alpha holds per pixel, not per image: each may be certified wrongly with this probability. "
ANY_LEVEL = "The level alpha holds per image where pixels are corrected for, per pixel without a correction. "
ADD_UP = "Over several images the chances of a wrong certificate add up."


def section(scope: Scope, options: Mapping[str, Mapping[str, Any]] | None = None) -> Section | None:
    """A table of every certificate, and certified accuracy over the radius; None where nothing was certified.

    Args:
        scope: what is compared.
        options: of the metric of every evaluation by its key, for alpha and the correction; None where not known.
    """
    points = _points(scope)
    if points.empty:
        return None
    columns = [
        Column("model"),
        Column("certificate"),
        *([] if options is None else [Column("alpha"), Column("correction")]),
        Column("l2 radius", "number", note="on the [0, 1] scale"),
        *(Column(name.replace("_", " "), "percent", heat=name != "abstention") for name in FIGURES),
    ]
    rows: list[list[Cell]] = []
    for row in points.to_dict("records"):
        certificate = f"{row['threat']}, {row['view']}"
        test = [] if options is None else _test(options[str(row["key"])])
        rows.append([str(row["model"]), certificate, *test, float(row["radius"]), *(row[name] for name in FIGURES)])
    table = Table(
        f"certificates-{scope.id}",
        "Certified by randomised smoothing",
        columns,
        rows,
        CAPTION + (_levels({row[3] for row in rows}) if options is not None else ANY_LEVEL) + ADD_UP,
    )
    chart = LineChart(
        "Certified accuracy over the radius",
        "Along each line, of one model under noise of one sigma, certified pixel accuracy never rises with the radius.",
        Axis("l2 radius on the [0, 1] scale"),
        Axis("certified accuracy (%)", percent=True, whole=True),
        series=_lines(points),
    )
    caption = (
        "One line per model, sigma and number of noisy copies; every point of it is one tau. A larger tau certifies a "
        "larger radius, and never more pixels. A larger sigma certifies a larger radius at the same tau; lines of "
        "different sigma may cross."
    )
    panel = Panel(f"certified-{scope.id}", chart.title, caption, {chart.title: chart})
    return Section(f"certificates-section-{scope.id}", "Certificates", [table, panel])


def _lines(points: pd.DataFrame) -> list[Series]:
    """One line per model and votes; those of different sigma or numbers of copies are different votes."""
    series = []
    for index, ((model, threat), part) in enumerate(points.groupby(["model", "threat"], sort=False)):
        part = part.sort_values("radius")
        series.append(
            Series(
                f"{model}, {str(threat).removeprefix('certify ')}",
                part["radius"].tolist(),
                [cell.value for cell in part["certified_accuracy"]],
                [cell.low for cell in part["certified_accuracy"]],
                [cell.high for cell in part["certified_accuracy"]],
                style=index,
            )
        )
    return series


def _test(options: Mapping[str, Any]) -> list[Cell]:
    """Alpha and the correction, as columns show them."""
    tolerated = f", {options['tolerated']} wrong pixels tolerated" if options["tolerated"] else ""
    return [f"{options['alpha']:g}", f"{options['correction']}{tolerated}"]


def _levels(corrections: set[Cell]) -> str:
    """What alpha means with some corrections."""
    alone = [str(each).startswith("none") for each in corrections]
    return PER_PIXEL if all(alone) else ANY_LEVEL if any(alone) else PER_IMAGE


def _points(scope: Scope) -> pd.DataFrame:
    """One row per model, votes and tau, of the latest evaluation: figures of two need not fall with tau."""
    rows = scope.frame
    rows = rows[rows["kind"].eq("certify") & rows["class_name"].eq("") & rows["view"].str.startswith("tau ")]
    rows = rows[rows["key"].isin(list(scope.latest_keys().values()))]
    points = []
    for (model, threat, view), part in rows.groupby(["model", "threat", "view"], sort=False):
        cells = {row["metric"]: Interval(row["value"], row["low"], row["high"]) for row in part.to_dict("records")}
        if {"radius", *FIGURES} <= set(cells):
            figures = {name: cells[name] for name in FIGURES}
            named = {"model": model, "threat": threat, "view": view, "key": part["key"].iloc[-1]}
            points.append({**named, "radius": cells["radius"].value, **figures})
    return pd.DataFrame(points)
