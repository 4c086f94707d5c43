"""Tables and charts that several studies are drawn with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from gauntlet.report.charts import Axis, HeatChart, LineChart, Panel, Series
from gauntlet.report.document import Block
from gauntlet.report.tables import Column, Interval, Table
from gauntlet.studies.results import FloatArray, Results, interval

Figure = Callable[[Results, str, str], FloatArray]
"""A figure of a member under a threat."""


def miou(results: Results, member: str, threat: str) -> FloatArray:
    """The mIoU of a member."""
    return results.miou(member, threat)


def ratio(results: Results, member: str, threat: str) -> FloatArray:
    """The IoU ratio of a member."""
    return results.ratio(member, threat)


def matrix(
    results: Results,
    title: str,
    columns: Mapping[str, str],
    *,
    figure: Figure = ratio,
    members: Sequence[str] | None = None,
    caption: str = "",
) -> list[Block]:
    """Members in rows, threats in columns, of the chosen model: a table with intervals and a heat map.

    Args:
        results: of one model.
        title: what the cells are.
        columns: labels of the threats by the name of the column.
        figure: what a cell is.
        members: the rows; all members by default.
        caption: how to read it.
    """
    rows = list(results.members if members is None else members)
    cells = [[interval(figure(results, member, threat)) for threat in columns.values()] for member in rows]
    name = slug(f"{results.chosen}-{title}")
    table = Table(
        f"table-{name}",
        title,
        [Column("shown to"), *(Column(column, "percent", heat=True) for column in columns)],
        [[member, *line] for member, line in zip(rows, cells, strict=True)],
        caption or "Rows are what is evaluated, columns where the attack was made; 95 % intervals over images.",
    )
    chart = HeatChart(
        title,
        "The table above in colours.",
        Axis("made on", categories=list(columns)),
        Axis("shown to", categories=rows),
        values=[[cell.value for cell in line] for line in cells],
    )
    return [table, Panel(f"panel-{name}", title, caption, {title: chart})]


def curves(
    results: Results,
    title: str,
    lines: Mapping[str, Sequence[tuple[float, FloatArray]]],
    axis: str,
    unit: str,
    *,
    caption: str = "",
) -> list[Block]:
    """Lines of a figure over a number, as a table and a chart.

    Args:
        results: of one model.
        title: of both.
        lines: by name, the points of a line: x, and the figure in resamples.
        axis, unit: titles of the two axes.
        caption: how to read it.
    """
    points = {line: [(x, interval(values)) for x, values in line_points] for line, line_points in lines.items()}
    places = sorted({x for line in points.values() for x, _ in line})
    name = slug(f"{results.chosen}-{title}")
    rows: list[list[str | Interval | None]] = [
        [line, *(dict(line_points).get(x) for x in places)] for line, line_points in points.items()
    ]
    table = Table(
        f"table-{name}",
        title,
        [Column(axis), *(Column(f"{x:g}", "percent", heat=True) for x in places)],
        rows,
        caption,
    )
    series = [
        Series(
            line,
            [x for x, _ in line_points],
            [value.value for _, value in line_points],
            [value.low for _, value in line_points],
            [value.high for _, value in line_points],
            style=index,
        )
        for index, (line, line_points) in enumerate(points.items())
    ]
    chart = LineChart(title, f"{unit} over {axis}.", Axis(axis), Axis(unit, percent=True), series=series)
    return [table, Panel(f"panel-{name}", title, caption, {title: chart})]


def figures(
    results: Results, title: str, columns: Mapping[str, Callable[[Results, str], FloatArray]], caption: str = ""
) -> list[Block]:
    """Members in rows, figures of them in columns."""
    name = slug(f"{results.chosen}-{title}")
    rows: list[list[str | Interval]] = [
        [member, *(interval(figure(results, member)) for figure in columns.values())] for member in results.members
    ]
    return [
        Table(
            f"table-{name}",
            title,
            [Column("model"), *(Column(column, "percent", heat=True) for column in columns)],
            rows,
            caption,
        )
    ]


def slug(text: str) -> str:
    """A text that is safe in an address.

    >>> slug("IoU ratio: 50 %")
    'iou-ratio-50'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
