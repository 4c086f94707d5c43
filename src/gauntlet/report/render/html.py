"""HTML: one file that needs nothing else, with everything it shows escaped."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from gauntlet._version import __version__
from gauntlet.report.charts import Panel
from gauntlet.report.document import Document, Picture, of_type
from gauntlet.report.render import plotly
from gauntlet.report.tables import Cell, Column, Interval, Table, best_cells, format_value, number_of

_UNSAFE_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def write(document: Document) -> str:
    """The document as one HTML page."""
    charts = {
        panel.id: {name: plotly.figure(chart) for name, chart in panel.charts.items()}
        for panel in of_type(document, Panel)
    }
    page = environment().get_template("report.html")
    return page.render(
        document=document,
        version=__version__,
        css=Markup(asset("page.css")),
        script=Markup(asset("page.js") + asset("plots.js")),
        charts=script_json(charts),
        plotly=Markup(packed_plotly()) if charts else "",
    )


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Templates with escaping on, and what they need of Python."""
    made = Environment(loader=PackageLoader("gauntlet.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made.filters["kind"] = lambda block: type(block).__name__
    made.filters["number"] = format_value
    made.filters["table_html"] = table_html
    made.filters["data_address"] = data_address
    return made


@lru_cache(maxsize=8)
def asset(name: str) -> str:
    """A style sheet or script of the package."""
    return resources.files("gauntlet.report").joinpath("assets", name).read_text("utf-8")


def script_json(value: Any) -> Markup:
    """JSON that can stand inside a script element, whatever texts it holds: nothing in it can end the element.

    >>> str(script_json("</script>"))
    '"\\\\u003c/script\\\\u003e"'
    """
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter, code in _UNSAFE_IN_SCRIPT.items():
        written = written.replace(letter, code)
    return Markup(written)


@lru_cache(maxsize=1)
def packed_plotly() -> str:
    """Plotly's script, deflated, as base64: 2 MB in a page instead of 5."""
    return base64.b64encode(zlib.compress(plotly_script(), 9)).decode("ascii")


def plotly_script() -> bytes:
    """Plotly's script as the plotly package ships it."""
    return resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()


def data_address(picture: Picture) -> str:
    """A picture as a data: address."""
    return f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode('ascii')}"


def table_html(table: Table) -> Markup:
    """A table element; the first cell of every row heads it."""
    head = "".join(_head(column) for column in table.columns)
    bold = best_cells(table)
    rows = (
        f'<tr><th scope="row">{escape(str(row[0]))}</th>'
        + "".join(_cell(cell, column, (number, index) in bold) for index, cell, column in _rest(row, table.columns))
        for number, row in enumerate(table.rows)
    )
    written = f'<table id="{escape(table.id)}"><thead><tr>{head}</thead><tbody>{"".join(rows)}</tbody></table>'
    return Markup(written)


def _head(column: Column) -> str:
    kind = ' class="n"' if column.is_number else ""
    note = f' title="{escape(column.note)}"' if column.note else ""
    return f'<th scope="col"{kind}{note}>{escape(column.name)}'


def _rest(row: Sequence[Cell], columns: Sequence[Column]) -> Iterator[tuple[int, Cell, Column]]:
    """Cells after the first, with their number."""
    yield from zip(range(1, len(columns)), row[1:], columns[1:], strict=True)


def _cell(cell: Cell, column: Column, bold: bool) -> str:
    if isinstance(cell, str):
        text = escape(cell)
        return f"<td class=t><code>{text}</code>" if column.kind == "code" and cell else f"<td class=t>{text}"
    value = number_of(cell)
    written = escape(format_value(value, column.kind))
    if bold:
        written = f"<b>{written}</b>"
    if isinstance(cell, Interval) and cell.low == cell.low:
        low, high = format_value(cell.low, column.kind), format_value(cell.high, column.kind)
        written += f"<small>{low} to {high}</small>"
    if column.heat and value == value:
        return f'<td class="n h" style="--v:{100 * max(0.0, min(1.0, value)):.0f}">{written}'
    return f'<td class="n">{written}'
