"""What was certified: accuracy over the radius of the perturbations that cannot change it."""

from __future__ import annotations

import pandas as pd

from gauntlet.report.charts import Axis, LineChart, Panel, Series
from gauntlet.report.document import Section
from gauntlet.report.scope import Scope
from gauntlet.report.tables import Cell, Column, Interval, Table

FIGURES = ("certified_accuracy", "certified_mIoU", "abstention")


def section(scope: Scope) -> Section | None:
    """A table of every certificate, and certified accuracy over the radius; None where nothing was certified."""
    points = _points(scope)
    if points.empty:
        return None
    columns = [
        Column("model"),
        Column("certificate"),
        Column("l2 radius", "number", note="on the [0, 1] scale"),
        *(Column(name.replace("_", " "), "percent", heat=name != "abstention") for name in FIGURES),
    ]
    rows: list[list[Cell]] = []
    for row in points.to_dict("records"):
        certificate = f"{row['threat']}, {row['view']}"
        rows.append([str(row["model"]), certificate, float(row["radius"]), *(row[name] for name in FIGURES)])
    table = Table(
        f"certificates-{scope.id}",
        "Certified by randomised smoothing",
        columns,
        rows,
        "A certified pixel keeps its class for every l2 perturbation up to the radius; the rest abstains and counts as "
        "wrong. The level alpha holds per image.",
    )
    series = [
        Series(
            str(model),
            part["radius"].tolist(),
            [cell.value for cell in part["certified_accuracy"]],
            [cell.low for cell in part["certified_accuracy"]],
            [cell.high for cell in part["certified_accuracy"]],
            style=index,
        )
        for index, (model, part) in enumerate(points.sort_values("radius").groupby("model", sort=False))
    ]
    chart = LineChart(
        "Certified accuracy over the radius",
        "Certified pixel accuracy falls as the radius grows.",
        Axis("l2 radius on the [0, 1] scale"),
        Axis("certified accuracy (%)", percent=True, whole=True),
        series=series,
    )
    caption = "Every point is one sigma and tau; larger sigma and tau certify larger radii of fewer pixels."
    panel = Panel(f"certified-{scope.id}", chart.title, caption, {chart.title: chart})
    return Section(f"certificates-section-{scope.id}", "Certificates", [table, panel])


def _points(scope: Scope) -> pd.DataFrame:
    """One row per model, evaluation and tau."""
    rows = scope.frame
    rows = rows[rows["kind"].eq("certify") & rows["class_name"].eq("") & rows["view"].str.startswith("tau ")]
    rows = rows.sort_values("created", kind="stable").drop_duplicates(
        ["model", "threat", "view", "metric"], keep="last"
    )
    points = []
    for (model, threat, view), part in rows.groupby(["model", "threat", "view"], sort=False):
        cells = {row["metric"]: Interval(row["value"], row["low"], row["high"]) for row in part.to_dict("records")}
        if {"radius", *FIGURES} <= set(cells):
            figures = {name: cells[name] for name in FIGURES}
            points.append({"model": model, "threat": threat, "view": view, "radius": cells["radius"].value, **figures})
    return pd.DataFrame(points)
