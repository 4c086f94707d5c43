"""Printing: tables for people, JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(value, indent=1))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, numbers_from: int = 1) -> None:
    """A table; the columns from `numbers_from` on are right-aligned."""
    console = Console(highlight=False)
    table = Table(title=title or None, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(escape(column), justify="right" if index >= numbers_from else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    if not console.is_terminal:
        console.width = max(console.width, 200)  # a pipe has no width: do not fold what is read by programs
    console.print(table)


def escape(cell: Any) -> str:
    """A cell as text that neither rich nor the terminal reads as a command: no markup, no control characters."""
    from rich.markup import escape as escape_markup

    return escape_markup("".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in str(cell)))
