"""LaTeX tables with booktabs, to be read with \\input."""

from __future__ import annotations

import math

from gauntlet.report.document import Document, of_type
from gauntlet.report.tables import Cell, Column, Interval, Table, best_cells, format_cell, format_value

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
}


def write(document: Document) -> str:
    """Every table of the document as a table environment of its own."""
    lines = [
        f"% {' '.join(document.title.split())}. {document.footer}",
        r"% Needs \usepackage{booktabs} and \usepackage[T1]{fontenc}.",
    ]
    for part in document.parts:
        for section in part.sections:
            for table in of_type(section, Table):
                lines += ["", table_text(table, f"{section.title}, {part.title}")]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Plain text as LaTeX that prints it.

    >>> escape("a_b & 5 %")
    'a\\\\_b \\\\& 5 \\\\%'
    """
    line = " ".join("".join(letter for letter in text if letter.isprintable() or letter.isspace()).split())
    return "".join(_SPECIAL.get(letter, letter) for letter in line)


def table_text(table: Table, context: str) -> str:
    """One table environment, with all that its caption promises: bold figures, and intervals in small print.

    Args:
        table: the table.
        context: what it belongs to, for the caption.
    """
    alignment = "".join("r" if column.is_number else "l" for column in table.columns)
    head = " & ".join(escape(column.name) for column in table.columns)
    bold = best_cells(table)
    rows = [
        " & ".join(
            _cell(cell, column, bold=(number, index) in bold)
            for index, (cell, column) in enumerate(zip(row, table.columns, strict=True))
        )
        + r" \\"
        for number, row in enumerate(table.rows)
    ]
    caption = f"{escape(table.title)} ({escape(context)}). {escape(table.caption)}".strip()
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{caption}}}",
            rf"  \label{{tab:{table.id}}}",
            rf"  \begin{{tabular}}{{{alignment}}}",
            r"    \toprule",
            rf"    {head} \\",
            r"    \midrule",
            *(f"    {row}" for row in rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


def _cell(cell: Cell, column: Column, *, bold: bool) -> str:
    text = format_cell(cell, column.kind, bounds=False)
    if not column.is_number:
        return escape(text)
    if text == "-":  # a minus sign is one in mathematics only; a dash for "nothing" is longer
        return "--"
    written = rf"$\mathbf{{{text}}}$" if bold else f"${text}$"
    if not isinstance(cell, Interval) or math.isnan(cell.low):
        return written
    low, high = (format_value(each, column.kind) for each in (cell.low, cell.high))
    return rf"{written} {{\scriptsize (${low}$ to ${high}$)}}"
