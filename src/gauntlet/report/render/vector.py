"""Charts for papers: one vector (PDF, SVG) or PNG file per chart, drawn by Matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.extras import install_command
from gauntlet.report import charts
from gauntlet.report.charts import Axis, Chart, Series, Style, shorten
from gauntlet.report.document import Document, of_type
from gauntlet.report.naming import slug

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 5.5
HEIGHT = 3.4
ROW_HEIGHT = 0.22
DOTS_PER_INCH = 200
_DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
_MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^"}
_DATES = {".pdf": "CreationDate", ".svg": "Date"}
_GREY = "#888888"
# Text is text: names such as "$x$" are no formulas, and fonts stay editable in the file.
_SETTINGS: Any = {
    "font.size": 9,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "gauntlet",
    "text.parse_math": False,
}


def write(document: Document, folder: Path, format: str, pattern: str | None = None) -> Path:
    """Writes charts of a document as PANEL--CHART.FORMAT into a folder.

    Args:
        document: the report.
        folder: made when it is missing.
        format: "pdf", "svg" or "png".
        pattern: charts whose file name (without the ending) matches, as a shell does it; the first chart of every
            panel by default.
    """
    chosen = choose(document, pattern)
    folder.mkdir(parents=True, exist_ok=True)
    for name, chart in chosen.items():
        draw(chart, folder / f"{name}.{format}")
    return folder


def choose(document: Document, pattern: str | None) -> dict[str, Chart]:
    """The charts whose name matches a pattern, or the first of every panel; by the name of their file."""
    panels = of_type(document, charts.Panel)
    named = {
        panel.id + (f"--{slug(name)}" if len(panel.charts) > 1 else ""): (chart, index == 0)
        for panel in panels
        for index, (name, chart) in enumerate(panel.charts.items())
    }
    if pattern is None:
        return {name: chart for name, (chart, first) in named.items() if first}
    chosen = {name: chart for name, (chart, _) in named.items() if fnmatchcase(name, pattern)}
    if not chosen:
        raise unknown_name("figure", pattern, named)
    return chosen


def draw(chart: Chart, path: Path) -> None:
    """Draws one chart into a file; its ending decides the format."""
    matplotlib = _matplotlib()
    with matplotlib.rc_context(_SETTINGS):
        figure = matplotlib.figure.Figure(figsize=_size(chart), layout="constrained")
        axes = figure.add_subplot()
        _draw(chart, axes)
        _finish(chart, axes)
        # Without the date in it, the same chart is the same file.
        metadata = {_DATES[path.suffix]: None} if path.suffix in _DATES else None
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=metadata)


def plot(chart: Chart, axes: Axes | None = None) -> Axes:
    """Draws one chart on axes; on new ones of pyplot, which a notebook shows by itself, where none are given."""
    matplotlib = _matplotlib()
    with matplotlib.rc_context(_SETTINGS):
        if axes is None:
            from matplotlib import pyplot  # only here: files need no window system

            axes = pyplot.figure(figsize=_size(chart), layout="constrained").add_subplot()
        _draw(chart, axes)
        _finish(chart, axes)
    return axes


def _matplotlib() -> Any:
    """Matplotlib; an error that says how to install it where it is missing."""
    try:
        import matplotlib.figure
    except ImportError:
        raise GauntletError(f"figures need Matplotlib; install it with: {install_command('figures')}.") from None
    return matplotlib


def _size(chart: Chart) -> tuple[float, float]:
    """Width and height of a figure, in inches."""
    rows = len(chart.y.categories) if chart.y.categories is not None else 0
    return WIDTH, max(HEIGHT, 1.2 + ROW_HEIGHT * rows)


@singledispatch
def _draw(chart: Chart, axes: Axes) -> None:
    raise TypeError(f"no drawing of {type(chart).__name__}")


@_draw.register(charts.LineChart)
def _lines(chart: charts.LineChart, axes: Axes) -> None:
    for series in chart.series:
        style = Style.of(series.style)
        x, y = _numbers(series.x, chart.x), _numbers(series.y, chart.y)
        look: dict[str, Any] = {"color": style.color, "linestyle": _DASHES[style.dash], "label": shorten(series.name)}
        if chart.steps:
            axes.step(x, y, where="post", **look)
            continue
        axes.plot(x, y, marker=_MARKERS[style.marker], markersize=4, **look)
        if series.low:
            low, middle, high = (np.array(_numbers(each, chart.y)) for each in (series.low, series.y, series.high))
            bars = np.maximum(np.nan_to_num([middle - low, high - middle]), 0)
            axes.errorbar(x, y, yerr=bars, fmt="none", ecolor=style.color, elinewidth=0.8, capsize=2)


@_draw.register(charts.PointChart)
def _points(chart: charts.PointChart, axes: Axes) -> None:
    rows = {name: index for index, name in enumerate(chart.y.categories or ())}
    if rows:
        for name, row in rows.items():
            values = [value for series in chart.series for value in _of_row(series, name, chart.x)]
            if values:
                axes.hlines(row, min(values), max(values), color=_GREY, linewidth=1, zorder=1)
    for series in chart.series:
        style = Style.of(series.style)
        y = [float(rows[str(name)]) for name in series.y] if rows else _numbers(series.y, chart.y)
        look: dict[str, Any] = {"color": style.color, "marker": _MARKERS[style.marker], "label": shorten(series.name)}
        axes.scatter(_numbers(series.x, chart.x), y, s=28, zorder=2, **look)
    if chart.diagonal:
        axes.axline((0, 0), slope=1, color=_GREY, linewidth=0.8, linestyle=":", zorder=0)
    if chart.note:
        axes.text(0.02, 0.97, chart.note, transform=axes.transAxes, va="top", fontsize=8)


@_draw.register(charts.BarChart)
def _stacked_bars(chart: charts.BarChart, axes: Axes) -> None:
    rows = np.arange(len(chart.y.categories or ()))
    left = np.zeros(len(rows))
    hatches = ("", "//", "..", "xx")
    for series in chart.series:
        values = np.array(_numbers(series.x, chart.x))
        color, hatch = Style.of(series.style).color, hatches[series.style // 8 % len(hatches)]
        axes.barh(rows, values, left=left, color=color, hatch=hatch, label=shorten(series.name))
        left += np.nan_to_num(values)


@_draw.register(charts.BoxChart)
def _boxes(chart: charts.BoxChart, axes: Axes) -> None:
    color = Style.of(0).color
    stats = []
    for box in chart.boxes:
        low, lower, middle, upper, high = (100 * value for value in box.quantiles)
        stats.append({"whislo": low, "q1": lower, "med": middle, "q3": upper, "whishi": high, "fliers": []})
    rows = list(range(len(stats)))
    lines: dict[str, Any] = {"color": color, "linewidth": 1}
    parts: dict[str, Any] = dict.fromkeys(("boxprops", "whiskerprops", "capprops", "medianprops"), lines)
    axes.bxp(stats, positions=rows, orientation="horizontal", **parts)
    for name, values, marker, style in (
        (chart.marks[0], [box.image_mean for box in chart.boxes], "o", 1),
        (chart.marks[1], [box.dataset for box in chart.boxes], "D", 2),
    ):
        shown = [100 * value for value in values]
        axes.scatter(shown, rows, s=18, color=Style.of(style).color, marker=marker, label=name, zorder=3)


@_draw.register(charts.HeatChart)
def _heat(chart: charts.HeatChart, axes: Axes) -> None:
    values = 100 * np.array(chart.values, float)
    picture = axes.imshow(values, cmap="cividis", vmin=0, vmax=100, aspect="auto")
    axes.figure.colorbar(picture, ax=axes, label="%")
    names = [shorten(name) for name in chart.x.categories or ()]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")


@_draw.register(charts.ReliabilityChart)
def _reliability(chart: charts.ReliabilityChart, axes: Axes) -> None:
    width = 100 / charts.CONFIDENCE_BINS
    fullest = max((each.share for each in chart.bins), default=1.0)
    for index, each in enumerate(chart.bins):
        x, accuracy, gap = 100 * each.confidence, 100 * each.accuracy, 100 * (each.confidence - each.accuracy)
        look: dict[str, Any] = {"alpha": charts.opacity(each.share / fullest), "hatch": "" if each.sure else "//"}
        first = index == 0
        axes.bar(x, accuracy, width, color=Style.of(0).color, label="accuracy" if first else "_nolegend_", **look)
        name = "gap (orange: too confident)" if first else "_nolegend_"
        axes.bar(x, gap, width, bottom=accuracy, color=charts.GAP_COLORS[gap < 0], alpha=0.5, label=name)
        height = charts.HISTOGRAM_HEIGHT * each.share / fullest
        name = "share of pixels" if first else "_nolegend_"
        axes.bar(x, height, width, bottom=charts.HISTOGRAM_BASE, color=_GREY, label=name)
    if chart.clean:
        clean = [(100 * each.confidence, 100 * each.accuracy) for each in chart.clean]
        axes.plot(*zip(*clean, strict=True), color=Style.of(2).color, marker="o", markersize=3, label="clean")
    axes.plot([0, 100], [0, 100], color=_GREY, linewidth=0.8, linestyle=":")
    axes.text(0.02, 0.97, chart.note, transform=axes.transAxes, va="top", fontsize=8)
    axes.set_yticks(range(0, 101, 20))


def _finish(chart: Chart, axes: Axes) -> None:
    axes.set_title(chart.title, fontsize=9)
    axes.set_xlabel(chart.x.title)
    axes.set_ylabel(chart.y.title)
    if chart.x.log:
        axes.set_xscale("log")
    if chart.x.whole and chart.x.percent:
        axes.set_xlim(-2, 102)
    if chart.y.whole and chart.y.percent:
        lowest = charts.HISTOGRAM_BASE if isinstance(chart, charts.ReliabilityChart) else 0
        axes.set_ylim(lowest - 2, 102)
    if chart.y.categories is not None:
        axes.set_yticks(range(len(chart.y.categories)), [shorten(name) for name in chart.y.categories])
        axes.set_ylim(len(chart.y.categories) - 0.5, -0.5)
    if not isinstance(chart, charts.HeatChart):
        axes.grid(axis="x" if chart.y.categories is not None else "both", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            columns = min(3, len(handles))
            axes.figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=7, frameon=False)


def _numbers(values: Sequence[float | str], axis: Axis) -> list[float]:
    return [(100 if axis.percent else 1) * float(value) for value in values]


def _of_row(series: Series, name: str, axis: Axis) -> list[float]:
    values = _numbers([x for x, y in zip(series.x, series.y, strict=True) if str(y) == name], axis)
    return [value for value in values if not math.isnan(value)]
