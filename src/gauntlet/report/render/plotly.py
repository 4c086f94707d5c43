"""Charts as Plotly figures: plain dictionaries, themed by the page that shows them."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

from gauntlet.report.charts import (
    CONFIDENCE_BINS,
    GAP_COLORS,
    HISTOGRAM_BASE,
    HISTOGRAM_HEIGHT,
    Axis,
    BarChart,
    BoxChart,
    Chart,
    HeatChart,
    LineChart,
    PointChart,
    ReliabilityChart,
    Series,
    Style,
    opacity,
    shorten,
)

PlotlyFigure = dict[str, Any]

ROW_PIXELS = 26
MARGIN_PIXELS = 120
LEAST_HEIGHT, USUAL_HEIGHT = 260, 420
LEGEND_PIXELS, LEGEND_COLUMNS = 20, 4
HEAT_SCALE = ((0.0, "#00224e"), (0.25, "#414d6b"), (0.5, "#7c7b78"), (0.75, "#bcad6c"), (1.0, "#fee838"))
"""Cividis, made for colour-blind readers; dark is low."""


def figure(chart: Chart) -> PlotlyFigure:
    """A chart as {"data": traces, "layout": layout}."""
    layout = {
        "xaxis": _axis(chart.x),
        "yaxis": _axis(chart.y),
        "height": _height(chart),
        **_layout(chart),
    }
    if isinstance(chart, PointChart) and chart.diagonal:
        layout["xaxis"]["range"], layout["yaxis"]["range"] = _span(chart, "x"), _span(chart, "y")
    return {"data": _traces(chart), "layout": layout, "alt": chart.alt}


def text(value: str) -> str:
    """A text that Plotly shows as it is: Plotly reads <b>, <a href> and entities in every text it draws."""
    return html.escape(value, quote=False)


@singledispatch
def _traces(chart: Chart) -> list[dict[str, Any]]:
    raise TypeError(f"no drawing of {type(chart).__name__}")


@singledispatch
def _layout(chart: Chart) -> dict[str, Any]:
    return {}


@_traces.register
def _lines(chart: LineChart) -> list[dict[str, Any]]:
    traces = []
    for series in chart.series:
        style = Style.of(series.style)
        trace = {
            "type": "scatter",
            "mode": "lines" if chart.steps else "lines+markers",
            "name": text(shorten(series.name)),
            "x": _values(series.x, chart.x),
            "y": _values(series.y, chart.y),
            "line": {"color": style.color, "dash": style.dash, "width": 2, "shape": "hv" if chart.steps else "linear"},
            "marker": {"symbol": style.marker, "size": 7},
            "hovertemplate": "%{fullData.name}: %{y:.1f} at %{x}<extra></extra>",
        }
        if any(not math.isnan(low) for low in series.low):
            trace["error_y"] = _bars(series, chart.y)
        traces.append(trace)
    return traces


@_traces.register
def _points(chart: PointChart) -> list[dict[str, Any]]:
    traces: list[dict[str, Any]] = []
    if chart.y.categories is not None:
        traces.append(_connectors(chart))
    for series in chart.series:
        style = Style.of(series.style)
        where = "%{x:.1f}" if chart.y.categories is not None else "%{x:.1f}, %{y:.1f}"
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": text(shorten(series.name)),
                "x": _values(series.x, chart.x),
                "y": _values(series.y, chart.y),
                "text": [text(label) for label in series.labels],
                "marker": {"color": style.color, "symbol": style.marker, "size": 11},
                "hovertemplate": "%{text}: " + where + "<extra></extra>",
            }
        )
    return traces


@_layout.register
def _point_layout(chart: PointChart) -> dict[str, Any]:
    layout: dict[str, Any] = {}
    if chart.note:
        where = {"xref": "paper", "yref": "paper", "x": 0.02, "y": 0.98, "xanchor": "left", "yanchor": "top"}
        layout["annotations"] = [{**where, "text": text(chart.note), "showarrow": False}]
    if chart.diagonal:
        ends = {"x0": 0, "y0": 0, "x1": 100, "y1": 100}
        layout["shapes"] = [
            {"type": "line", **ends, "layer": "below", "line": {"color": "#8888", "width": 1, "dash": "dot"}}
        ]
    return layout


def _connectors(chart: PointChart) -> dict[str, Any]:
    """One thin line per row, from its smallest to its largest value."""
    ends: dict[str, list[float]] = {}
    for series in chart.series:
        for x, y in zip(series.x, series.y, strict=True):
            if not math.isnan(float(x)):
                ends.setdefault(str(y), []).append(100 * float(x) if chart.x.percent else float(x))
    across: list[float | None] = []
    rows: list[str | None] = []
    for name, values in ends.items():
        across += [_short(min(values)), _short(max(values)), None]
        rows += [text(name), text(name), None]
    line = {"color": "#8888", "width": 2}
    return {
        "type": "scatter",
        "mode": "lines",
        "x": across,
        "y": rows,
        "line": line,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _span(chart: PointChart, side: str) -> list[float]:
    """The range of an axis: that of the points, not of the diagonal."""
    axis: Axis = getattr(chart, side)
    values = [value for series in chart.series for value in _values(getattr(series, side), axis)]
    numbers = [value for value in values if isinstance(value, float)]
    margin = 0.08 * (max(numbers) - min(numbers)) or 1.0
    return [min(numbers) - margin, max(numbers) + margin]


@_traces.register
def _stacked_bars(chart: BarChart) -> list[dict[str, Any]]:
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": text(shorten(series.name)),
            "x": _values(series.x, chart.x),
            "y": _values(series.y, chart.y),
            "marker": {"color": Style.of(series.style).color, **_pattern(series.style)},
            "hovertemplate": "%{fullData.name}: %{x:.1f}<extra></extra>",
        }
        for series in chart.series
    ]


@_layout.register
def _bar_layout(chart: BarChart) -> dict[str, Any]:
    return {"barmode": "stack", "legend": {"traceorder": "normal"}}


@_traces.register
def _boxes(chart: BoxChart) -> list[dict[str, Any]]:
    quantiles = list(zip(*(box.quantiles for box in chart.boxes), strict=True))
    low, lower, middle, upper, high = ([_short(100 * value) for value in values] for values in quantiles)
    names = [text(box.name) for box in chart.boxes]
    marks = [
        (chart.marks[0], [box.image_mean for box in chart.boxes], "circle", 1),
        (chart.marks[1], [box.dataset for box in chart.boxes], "diamond", 2),
    ]
    boxes = {
        "type": "box",
        "orientation": "h",
        "name": "images",
        "y": names,
        "lowerfence": low,
        "q1": lower,
        "median": middle,
        "q3": upper,
        "upperfence": high,
        "line": {"color": Style.of(0).color, "width": 1.5},
        "hoverinfo": "x",
    }
    return [
        boxes,
        *(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [_short(100 * value) for value in values],
                "y": names,
                "marker": {"color": Style.of(style).color, "symbol": symbol, "size": 9},
                "hovertemplate": f"{name} %{{x:.1f}}<extra></extra>",
            }
            for name, values, symbol, style in marks
        ),
    ]


@_traces.register
def _heat(chart: HeatChart) -> list[dict[str, Any]]:
    return [
        {
            "type": "heatmap",
            "x": [text(name) for name in chart.x.categories or ()],
            "y": [text(name) for name in chart.y.categories or ()],
            "z": [[_short(100 * value) for value in row] for row in chart.values],
            "zmin": 0,
            "zmax": 100,
            "colorscale": [list(stop) for stop in HEAT_SCALE],
            "xgap": 1,
            "ygap": 1,
            "colorbar": {"title": {"text": "%"}, "thickness": 12},
            "hovertemplate": "%{y}, %{x}: %{z:.1f}<extra></extra>",
        }
    ]


@_traces.register
def _reliability(chart: ReliabilityChart) -> list[dict[str, Any]]:
    bins = chart.bins
    x = [_short(100 * each.confidence) for each in bins]
    fullest = max((each.share for each in bins), default=1.0)
    hatch = {"pattern": {"shape": ["" if each.sure else "/" for each in bins]}}
    gaps = [each.confidence - each.accuracy for each in bins]
    bars = {"type": "bar", "x": x, "width": 100 / CONFIDENCE_BINS}
    traces: list[dict[str, Any]] = [
        {
            **bars,
            "name": "accuracy",
            "y": [_short(100 * each.accuracy) for each in bins],
            "customdata": [_short(100 * each.share) for each in bins],
            "marker": {
                "color": Style.of(0).color,
                "opacity": [opacity(each.share / fullest) for each in bins],
                **hatch,
            },
            "hovertemplate": "confidence %{x:.1f}: accuracy %{y:.1f}, %{customdata:.1f} % of pixels<extra></extra>",
        },
        {
            **bars,
            "name": "gap (orange: too confident)",
            "base": [_short(100 * min(each.accuracy, each.confidence)) for each in bins],
            "y": [_short(100 * abs(gap)) for gap in gaps],
            "marker": {"color": [GAP_COLORS[gap < 0] for gap in gaps], "opacity": 0.5},
            "hoverinfo": "skip",
        },
        {
            **bars,
            "name": "share of pixels",
            "base": [HISTOGRAM_BASE for _ in bins],
            "y": [_short(HISTOGRAM_HEIGHT * each.share / fullest) for each in bins],
            "marker": {"color": "#888888"},
            "hoverinfo": "skip",
        },
    ]
    if chart.clean:
        style = Style.of(2)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "clean",
                "x": [_short(100 * each.confidence) for each in chart.clean],
                "y": [_short(100 * each.accuracy) for each in chart.clean],
                "line": {"color": style.color, "width": 2},
                "hovertemplate": "clean, confidence %{x:.1f}: accuracy %{y:.1f}<extra></extra>",
            }
        )
    return traces


@_layout.register
def _reliability_layout(chart: ReliabilityChart) -> dict[str, Any]:
    where = {"xref": "paper", "yref": "paper", "x": 0.02, "y": 0.98, "xanchor": "left", "yanchor": "top"}
    diagonal = {"type": "line", "x0": 0, "y0": 0, "x1": 100, "y1": 100}
    ticks = {"range": [HISTOGRAM_BASE - 2, 102], "tickmode": "array", "tickvals": list(range(0, 101, 20))}
    return {
        "barmode": "overlay",
        "yaxis": {**_axis(chart.y), **ticks},
        "annotations": [{**where, "text": text(chart.note), "showarrow": False}],
        "shapes": [{**diagonal, "line": {"color": "#8888", "width": 1, "dash": "dot"}}],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    layout: dict[str, Any] = {"title": {"text": text(axis.title)}, "automargin": True}
    if axis.categories is not None:
        names = [text(name) for name in axis.categories]
        # "category" is said, since names such as "2024-01-01" or "1e5" would be read as dates and numbers.
        layout |= {"type": "category", "categoryorder": "array", "categoryarray": names}
        layout |= {
            "tickmode": "array",
            "tickvals": names,
            "ticktext": [text(shorten(name)) for name in axis.categories],
        }
    elif axis.log:
        layout["type"] = "log"
    elif axis.whole:
        layout["range"] = [-2, 102]
    return layout


def _height(chart: Chart) -> int:
    rows = len(chart.y.categories) if chart.y.categories is not None else 0
    if not rows:
        series = getattr(chart, "series", ())
        return USUAL_HEIGHT + LEGEND_PIXELS * (len(series) // LEGEND_COLUMNS)
    return max(LEAST_HEIGHT, rows * ROW_PIXELS + MARGIN_PIXELS)


def _values(values: Sequence[float | str], axis: Axis) -> list[float | str | None]:
    if axis.categories is not None:
        return [text(str(value)) for value in values]
    return [_short((100 if axis.percent else 1) * float(value)) for value in values]


def _bars(series: Series, axis: Axis) -> dict[str, Any]:
    scale = 100 if axis.percent else 1
    up = [_short(scale * (high - float(value))) for value, high in zip(series.y, series.high, strict=True)]
    down = [_short(scale * (float(value) - low)) for value, low in zip(series.y, series.low, strict=True)]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1, "width": 3}


def _pattern(style: int) -> dict[str, Any]:
    """Bars after the eighth repeat a colour and get stripes, so that they are still told apart."""
    shapes = ("", "/", ".", "x")
    turn = style // 8
    return {"pattern": {"shape": shapes[turn % len(shapes)]}} if turn else {}


def _short(value: float) -> float | None:
    """A number in few digits: a page holds tens of thousands of them; nothing for what is not a number."""
    return round(value, 2) if math.isfinite(value) else None
