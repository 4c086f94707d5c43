"""Tables and charts that several studies are drawn with."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from gauntlet.report.charts import Axis, HeatChart, LineChart, Panel, PointChart, Series
from gauntlet.report.document import Block
from gauntlet.report.tables import Column, Interval, Table
from gauntlet.studies.figures import Figures, FloatArray, interval, rank_correlation

Figure = Callable[[Figures, str, str], FloatArray]
"""A figure of a member under a threat."""


def miou(results: Figures, member: str, threat: str) -> FloatArray:
    """The mIoU of a member."""
    return results.miou(member, threat)


def ratio(results: Figures, member: str, threat: str) -> FloatArray:
    """The IoU ratio of a member."""
    return results.ratio(member, threat)


def matrix(
    results: Figures,
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
    name = slug(f"{results.place}-{title}")
    intervals = "; 95 % intervals over images" if results.source == "here" else ""
    table = Table(
        f"table-{name}",
        title,
        [Column("shown to"), *(Column(column, "percent", heat=True) for column in columns)],
        [[member, *line] for member, line in zip(rows, cells, strict=True)],
        caption or f"Rows are what is evaluated, columns where the attack was made{intervals}.",
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
    results: Figures,
    title: str,
    lines: Mapping[str, Sequence[tuple[float, FloatArray]]],
    axis: str,
    unit: str,
    *,
    caption: str = "",
) -> list[Block]:
    """Lines of a figure over a number, as a table and a chart.

    Args:
        results: whose.
        title: of both.
        lines: by name, the points of a line: x, and the figure in resamples.
        axis, unit: titles of the two axes.
        caption: how to read it.
    """
    points = {line: [(x, interval(values)) for x, values in line_points] for line, line_points in lines.items()}
    places = sorted({x for line in points.values() for x, _ in line})
    name = slug(f"{results.place}-{title}")
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
    results: Figures, title: str, columns: Mapping[str, Callable[[Figures, str], FloatArray]], caption: str = ""
) -> list[Block]:
    """Members in rows, figures of them in columns."""
    name = slug(f"{results.place}-{title}")
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


def side_by_side(
    results: Figures,
    title: str,
    columns: Mapping[str, Callable[[str], FloatArray]],
    models: Sequence[str],
    caption: str,
) -> list[Block]:
    """Models in rows, figures of them in columns.

    Args:
        results: whose.
        title: of the table.
        columns: by name, the figure of a model.
        models: the rows.
        caption: how to read it.
    """
    rows: list[list[str | Interval]] = [
        [model, *(interval(figure(model)) for figure in columns.values())] for model in models
    ]
    heads = [Column("network"), *(Column(column, "percent", heat=True) for column in columns)]
    return [Table(f"table-{slug(f'{results.place}-{title}')}", title, heads, rows, caption)]


def scatter(
    results: Figures,
    title: str,
    points: Mapping[str, tuple[FloatArray, FloatArray]],
    across: Axis,
    up: Axis,
    *,
    caption: str = "",
) -> list[Block]:
    """Two figures of several things against each other, with Spearman's rho: a table and a chart.

    Nothing where no point has both figures: that part of the study was left out.

    Args:
        results: whose.
        title: of both.
        points: by name, the two figures in resamples.
        across, up: the two axes.
        caption: how to read it.
    """
    rho = interval(rank_correlation([x for x, _ in points.values()], [y for _, y in points.values()]))
    cells = {name: (interval(x), interval(y)) for name, (x, y) in points.items()}
    number = sum(not math.isnan(x.value + y.value) for x, y in cells.values())
    if not number:
        return []
    name = slug(f"{results.place}-{title}")
    note = f"Spearman's rho {_with_bounds(rho)}, n = {number}"
    kinds = ["percent" if axis.percent else "number" for axis in (across, up)]
    columns = [Column("point"), Column(across.title, kinds[0]), Column(up.title, kinds[1])]
    table = Table(
        f"table-{name}", title, columns, [[label, *pair] for label, pair in cells.items()], f"{caption} {note}."
    )
    series = [
        Series(label, [x.value], [y.value], labels=[label], style=index)
        for index, (label, (x, y)) in enumerate(cells.items())
    ]
    words = f"One point each: {across.title} across, {up.title} up. {note}."
    chart = PointChart(title, words, across, up, series=series, note=note)
    return [table, Panel(f"panel-{name}", title, caption, {title: chart})]


def _with_bounds(value: Interval) -> str:
    known = not math.isnan(value.low)
    return f"{value.value:.2f} ({value.low:.2f} to {value.high:.2f} over images)" if known else f"{value.value:.2f}"


def slug(text: str) -> str:
    """A text that is safe in an address.

    >>> slug("IoU ratio: 50 %")
    'iou-ratio-50'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
