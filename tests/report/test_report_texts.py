"""Numbers and hostile texts in every format."""

from __future__ import annotations

import html
import json
import math
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gauntlet.report.naming import slug
from gauntlet.report.render import latex, markdown, plotly
from gauntlet.report.render.html import script_json, table_html
from gauntlet.report.tables import Cell, Column, Interval, Table, best_cells, format_cell, format_value
from gauntlet.secrecy import without_password

TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=30) | st.text(
    "<>&\"'`*_|\\$%#{}[]()-+.1 ~^!a", max_size=20
)


@pytest.mark.parametrize(
    ("cell", "kind", "text"),
    [
        (0.12345, "percent", "12.3"),
        (-0.021, "points", "-2.1"),
        (0.021, "points", "+2.1"),
        (math.nan, "percent", "-"),
        (None, "count", "-"),
        (math.inf, "number", "inf"),
        (0.0002, "chance", "< 0.001"),
        (0.04, "chance", "0.040"),
        (Interval(0.5, 0.4, 0.61), "percent", "50.0 (40.0 to 61.0)"),
        (Interval(0.5), "percent", "50.0"),
        ("pgd", "text", "pgd"),
    ],
)
def test_cells_are_written_by_their_kind(cell: Cell, kind: str, text: str) -> None:
    assert format_cell(cell, kind) == text


def test_the_best_of_a_column_or_row_is_found_and_ties_share_it() -> None:
    columns = [Column("m"), Column("a", "percent", heat=True), Column("b", "percent", heat=True), Column("n", "count")]
    rows: list[list[Cell]] = [["x", 0.5, Interval(0.2), 9], ["y", 0.5, 0.3, 1], ["z", 0.1, math.nan, 5]]
    assert best_cells(Table("t", "", columns, rows, best="column")) == {(0, 1), (1, 1), (1, 2)}
    assert best_cells(Table("t", "", columns, rows, best="row")) == {(0, 1), (1, 1)}
    assert best_cells(Table("t", "", columns, rows)) == set()
    same: list[list[Cell]] = [["x", 0.5, 0.5, 0], ["y", 0.5, 0.5, 0]]
    assert best_cells(Table("t", "", columns, same, best="column")) == set()  # nobody is best


@settings(deadline=None)
@given(TEXTS)
@example("---")
@example("-- -")
def test_markdown_shows_a_text_as_it_is(text: str) -> None:
    words = " ".join(text.split())
    rendered = MarkdownIt("commonmark").enable("table").render(markdown.paragraph(text))
    shown = html.unescape(re.sub(r"^<p>|</p>$", "", rendered.strip()))
    # Control characters that Markdown itself replaces are not compared.
    assert shown == words.replace("\x00", "\ufffd")


@settings(deadline=None)
@given(TEXTS)
def test_a_markdown_table_keeps_its_cells(text: str) -> None:
    table = Table("t", "title", [Column("name"), Column("which", "code"), Column("%", "percent")], [[text, text, 0.5]])
    rendered = MarkdownIt("commonmark").enable("table").render(markdown.table_text(table))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", rendered, re.S)
    assert len(cells) == 3
    assert html.unescape(cells[0]) == " ".join(text.split()).replace("\x00", "\ufffd")
    assert cells[2] == "50.0"
    assert "<script" not in rendered


@settings(deadline=None)
@given(TEXTS)
def test_latex_has_no_special_letter_left(text: str) -> None:
    written = latex.escape(text)
    for command in sorted(set(latex._SPECIAL.values()), key=len, reverse=True):
        written = written.replace(command, "")
    assert not set(written) & set("\\&%$#_{}~^")


def test_a_latex_table_uses_booktabs_and_mathematical_signs() -> None:
    columns = [Column("model_name"), Column("mIoU", "percent"), Column("change", "points")]
    text = latex.table_text(Table("t-1", "50 % off", columns, [["a&b", math.nan, -0.1]]), "on streets")
    assert r"\caption{50 \% off (on streets).}" in text
    assert r"model\_name & mIoU & change \\" in text
    assert r"a\&b & -- & $-10.0$ \\" in text
    assert r"\begin{tabular}{lrr}" in text
    assert [line.strip() for line in text.splitlines() if line.strip().endswith("rule")] == [
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
    ]


def test_tables_have_the_bold_figures_and_the_ranges_that_captions_promise() -> None:
    columns = [Column("model"), Column("mIoU", "percent", heat=True)]
    rows: list[list[Cell]] = [["a", Interval(0.5, 0.4, 0.6)], ["b", Interval(0.25)]]
    table = Table("t", "Board", columns, rows, "The best of every column is bold. Ranges.", best="column")
    assert r"a & $\mathbf{50.0}$ {\scriptsize ($40.0$ to $60.0$)} \\" in latex.table_text(table, "d")
    assert r"b & $25.0$ \\" in latex.table_text(table, "d")
    assert "| a | **50.0 (40.0 to 60.0)** |" in markdown.table_text(table)
    assert "| b | 25.0 |" in markdown.table_text(table)


@settings(deadline=None)
@given(TEXTS)
def test_json_inside_a_script_element_cannot_end_it(text: str) -> None:
    written = str(script_json({"name": text}))
    assert "<" not in written
    assert ">" not in written
    assert json.loads(written) == {"name": text}


@settings(deadline=None)
@given(TEXTS)
def test_html_tables_escape_names(text: str) -> None:
    table = Table(
        "t",
        "",
        [Column(text), Column("code", "code"), Column("v", "percent", heat=True, note=text)],
        [[text, text, 0.5]],
    )
    written = str(table_html(table))
    assert re.findall(r"<(/?\w+)", written).count("script") == 0
    heading = re.search(r'<th scope="row">(.*?)</th>', written, re.S)
    assert heading is not None
    assert html.unescape(heading.group(1)) == text


def test_plotly_gets_texts_without_markup() -> None:
    assert plotly.text("<b>&lt;a href='x'>") == "&lt;b&gt;&amp;lt;a href='x'&gt;"


@given(TEXTS, TEXTS)
def test_slugs_are_safe_and_do_not_collide(one: str, other: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug(one) or "empty")
    assert one == other or slug(one) != slug(other)


def test_passwords_do_not_reach_a_report() -> None:
    command = "gauntlet run --store postgresql+psycopg://me:s3cr:et@db.example/x --model a:b@c"
    assert without_password(command) == "gauntlet run --store postgresql+psycopg://me:***@db.example/x --model a:b@c"


def test_numbers_are_short() -> None:
    assert format_value(0.123456, "number") == "0.123"
    assert format_value(3.0, "count") == "3"
    assert [format_value(-0.00001, kind) for kind in ("percent", "points", "number", "count")] == [
        *("0.0", "0.0", "0.000", "0"),
    ]
    assert format_value(0.00001, "points") == "0.0"
    assert format_value(0.0496, "chance") == "0.0496"
    assert format_value(0.05, "chance") == "0.050"
    assert format_value(0.0504, "chance") == "0.050"
    assert format_value(0.05 - 1e-12, "chance") == "< 0.050"
