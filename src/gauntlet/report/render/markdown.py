"""Markdown: for issues, wikis and papers in progress."""

from __future__ import annotations

import re
from functools import singledispatch

from gauntlet.report.charts import Panel
from gauntlet.report.document import (
    Block,
    Bullets,
    Command,
    Document,
    Findings,
    Fold,
    Gallery,
    Recipes,
    Text,
    Verdicts,
)
from gauntlet.report.tables import Cell, Column, Table, best_cells, format_cell

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
_BLOCK_MARK = re.compile(r"^(\d*)([-+.)])(?=\s|$|-[-\s]*$)")

ACROSS = 3
"""Pictures of a gallery side by side."""


def write(document: Document) -> str:
    """The document as Markdown; charts, and pictures that are no files, are left to the HTML report."""
    lines = [f"# {escape(document.title)}", "", escape(document.subtitle), ""]
    for part in document.parts:
        alone = part.subtitle == document.subtitle  # the one part of a page, whose head says it all
        if not alone:
            lines += [f"## {escape(part.title)}", "", escape(part.subtitle), ""]
        for section in part.sections:
            written = [text for block in section.blocks if (text := block_text(block))]
            if written:
                lines += [f"{'##' if alone else '###'} {escape(section.title)}", "", *written]
    lines += ["---", "", escape(document.footer)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Plain text as Markdown that shows it letter by letter, on one line.

    >>> escape("<script> a_b | *c*")
    '\\\\<script\\\\> a\\\\_b \\\\| \\\\*c\\\\*'
    """
    line = " ".join(text.split())
    return _SPECIAL.sub(r"\\\1", line)


def paragraph(text: str) -> str:
    """Plain text as a paragraph: what would begin a list is no list, and hyphens alone are no rule.

    >>> paragraph("1. try")
    '1\\\\. try'
    """
    return _BLOCK_MARK.sub(r"\1\\\2", escape(text))


def code(text: str) -> str:
    """Plain text as inline code, whatever ticks are in it."""
    line = " ".join(text.split())
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


@singledispatch
def block_text(block: Block) -> str:
    """A block as Markdown with an empty line at its end, or nothing."""
    raise TypeError(f"no Markdown of {type(block).__name__}")


@block_text.register
def _paragraph(block: Text) -> str:
    return paragraph(block.text) + "\n"


@block_text.register
def _command(block: Command) -> str:
    return f"    {' '.join(block.line.split())}\n"


@block_text.register
def _bullets(block: Bullets) -> str:
    return "\n".join(f"- {paragraph(item)}" for item in block.items) + "\n" if block.items else ""


@block_text.register
def _verdicts(block: Verdicts) -> str:
    return "\n".join(f"- **{escape(item.model)}**: {escape(item.text)}" for item in block.items) + "\n"


@block_text.register
def _findings(block: Findings) -> str:
    lines = []
    for item in block.items:
        evidence = f" ({escape(item.evidence)})" if item.evidence else ""
        lines.append(f"- {item.level.upper()} {escape(item.subject)}: {escape(item.text)}{evidence}")
    return "\n".join(lines) + "\n" if lines else ""


@block_text.register
def table_text(block: Table) -> str:
    """A table in GitHub's notation."""
    head = "| " + " | ".join(escape(column.name) for column in block.columns) + " |"
    rule = "|" + "|".join(" ---: " if column.is_number else " --- " for column in block.columns) + "|"
    bold = best_cells(block)
    rows = [
        "| "
        + " | ".join(
            f"**{text}**" if (number, index) in bold else text
            for index, text in enumerate(map(_cell, row, block.columns))
        )
        + " |"
        for number, row in enumerate(block.rows)
    ]
    body = "\n".join([head, rule, *rows])
    caption = f"\n{escape(block.caption)}\n" if block.caption else ""
    return f"**{escape(block.title)}**\n\n{body}\n{caption}"


def _cell(cell: Cell, column: Column) -> str:
    if column.kind == "code" and isinstance(cell, str) and cell.strip():
        return code(cell).replace("|", "\\|")  # a bar ends a cell even inside code
    return escape(format_cell(cell, column.kind))


@block_text.register
def _recipes(block: Recipes) -> str:
    return "\n".join(f"- {escape(item.title)}: {code(item.command)}" for item in block.items) + "\n"


@block_text.register
def _fold(block: Fold) -> str:
    inside = "\n".join(text for each in block.blocks if (text := block_text(each)))
    return f"<details><summary>{_html(block.title)}</summary>\n\n{inside}\n</details>\n" if inside else ""


def _html(text: str) -> str:
    from html import escape as escape_html

    return escape_html(" ".join(text.split()))


@block_text.register
def _gallery(block: Gallery) -> str:
    """A table for every exhibit: captions above pictures, three in a row."""
    tables = []
    for exhibit in block.exhibits:
        shown = [picture for picture in exhibit.pictures if picture.file]
        rows: list[list[str]] = []
        for first in range(0, len(shown), ACROSS):
            some = shown[first : first + ACROSS]
            rows.append([escape(picture.caption) for picture in some])
            rows.append([f"![{escape(picture.caption)}]({picture.file})" for picture in some])
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        lines[1:1] = ["|" + " --- |" * len(rows[0])] if rows else []
        head = f"**{escape(block.title)}** {escape(exhibit.title)} {escape(exhibit.detail)}"
        tables += ["\n".join([head, "", *lines, ""])] if lines else []
    return "\n".join(tables)


@block_text.register
def _panel(block: Panel) -> str:
    return ""
