"""Tables as data: every format (HTML, Markdown, LaTeX, terminal) prints the same ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gauntlet.numbers import format_percent, without_empty_sign


@dataclass(frozen=True)
class Interval:
    """A figure with the bounds of its 95 % interval; NaN bounds mean that there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan


CHANCE = 0.05
"""Below this p-value, a difference is beyond chance."""

Cell = str | float | int | Interval | None

KINDS = ("text", "code", "percent", "points", "number", "count", "chance")
"""text and code as they are; percent: a fraction x 100; points: a signed difference of fractions x 100; number: three
decimals; count: a whole number; chance: a p-value."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: what stands in the head.
        kind: one of KINDS, how its cells are written.
        heat: whether a cell's background shows its value, from 0 to 1.
        note: what the column means, in a few words.
    """

    name: str
    kind: str = "text"
    heat: bool = False
    note: str = ""

    @property
    def is_number(self) -> bool:
        return self.kind not in ("text", "code")


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        id: short, unique in a document, safe in an address.
        title: one line.
        columns: the first one names the row.
        rows: as many cells as columns each.
        caption: what a reader has to know.
        best: "column" or "row" where the largest figure of each is set in bold, else "".
    """

    id: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    best: str = ""

    @property
    def has_intervals(self) -> bool:
        return any(isinstance(cell, Interval) and not math.isnan(cell.low) for row in self.rows for cell in row)


def best_cells(table: Table) -> set[tuple[int, int]]:
    """Row and column of the cells to set in bold: the largest heat figures, all of them where several are equal."""
    heat = [index for index, column in enumerate(table.columns) if column.heat]
    cells = [(row, column) for row in range(len(table.rows)) for column in heat]
    groups: dict[int, list[tuple[int, int]]] = {}
    for row, column in cells:
        if table.best and not math.isnan(number_of(table.rows[row][column])):
            groups.setdefault(column if table.best == "column" else row, []).append((row, column))
    bold = set()
    for group in groups.values():
        largest = max(number_of(table.rows[row][column]) for row, column in group)
        ties = {(row, column) for row, column in group if number_of(table.rows[row][column]) == largest}
        bold |= ties if len(ties) < len(group) else set()
    return bold


def number_of(cell: Cell) -> float:
    """The number of a cell, NaN for text and nothing."""
    if isinstance(cell, Interval):
        return cell.value
    if isinstance(cell, (int, float)):
        return float(cell)
    return math.nan


def format_value(value: float, kind: str) -> str:
    """A number as a column of a kind writes it; a dash when it is undefined.

    A difference that rounds to nothing has no sign, and a p-value below 0.05 never reads as 0.05.

    >>> format_value(0.5123, "percent"), format_value(-0.021, "points"), format_value(float("nan"), "percent")
    ('51.2', '-2.1', '-')
    >>> format_value(-0.0001, "points"), format_value(0.0496, "chance"), format_value(0.04999, "chance")
    ('0.0', '0.0496', '0.04999')
    """
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if kind == "percent":
        return format_percent(value)
    if kind == "points":
        return without_empty_sign(f"{100 * value:+.1f}")
    if kind == "count":
        return without_empty_sign(f"{value:.0f}")
    if kind == "chance":
        return _format_chance(value)
    return without_empty_sign(f"{value:.3f}")


def _format_chance(p_value: float) -> str:
    """A p-value with three decimals, with more where three would round it up to 0.05."""
    if p_value < 0.001:
        return "< 0.001"
    texts = (f"{p_value:.{digits}f}" for digits in range(3, 8))
    return next((text for text in texts if (float(text) < CHANCE) == (p_value < CHANCE)), f"< {CHANCE:.3f}")


def format_cell(cell: Cell, kind: str, *, bounds: bool = True) -> str:
    """A cell as plain text: "51.2 (48.0 to 54.1)".

    Args:
        cell: the cell.
        kind: the kind of its column.
        bounds: whether to write the interval.
    """
    if isinstance(cell, str):
        return cell
    text = format_value(number_of(cell), kind)
    if bounds and isinstance(cell, Interval) and not math.isnan(cell.low):
        text += f" ({format_value(cell.low, kind)} to {format_value(cell.high, kind)})"
    return text
