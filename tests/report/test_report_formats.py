"""Reports as files: pages, Markdown, LaTeX, JSON, CSV, figures."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from markdown_it import MarkdownIt
from synthetic_store import HOSTILE, MODELS

from gauntlet.errors import GauntletError
from gauntlet.report import FORMATS, build_report, write_report
from gauntlet.report.document import Document
from gauntlet.report.render import html as html_page
from gauntlet.report.render import latex, markdown, vector
from gauntlet.report.write import to_json
from gauntlet.results import Store, open_store

pytest_plugins = ("report_fixtures",)


class Outline(HTMLParser):
    """Elements, their ids, and what they load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.loaded: list[str] = []
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        if tag in ("script", "img", "link", "iframe", "source"):
            self.loaded += [str(values[name]) for name in ("src", "href") if values.get(name)]
        if tag == "a" and str(values.get("href", "")).startswith("#"):
            self.targets.append(str(values["href"])[1:])


@pytest.fixture(scope="module")
def document(store_path: Path) -> Document:
    with open_store(store_path, read_only=True) as store:
        return build_report(store)


def test_the_page_needs_nothing_else(document: Document) -> None:
    text = html_page.write(document)
    outline = Outline(text)
    assert all(address.startswith("data:") for address in outline.loaded)
    assert outline.tags.count("script") == 3  # charts, Plotly, the page's own: no name became an element
    assert "img" not in outline.tags
    assert len(outline.ids) == len(set(outline.ids))
    assert set(outline.targets) <= set(outline.ids)
    assert len(text) < 0.6 * len(html_page.plotly_script())  # Plotly is in it once, packed
    script = re.search(r'id="charts">(.*?)</script>', text, re.S)
    assert script is not None
    charts = json.loads(script.group(1))
    assert len(charts) >= 8
    assert html.escape(HOSTILE) in text
    assert HOSTILE not in text


def test_markdown_renders_with_every_model_as_text(document: Document) -> None:
    text = markdown.write(document)
    rendered = MarkdownIt("commonmark").enable("table").render(text)
    assert "<script" not in rendered
    assert "<img" not in rendered
    tables = re.findall(r"<table>.*?</table>", rendered, re.S)
    assert len(tables) > 10
    for model in MODELS:
        assert html.escape(model, quote=False).replace('"', "&quot;") in rendered
    widths = {len(re.findall(r"<t[hd]", row)) for row in re.findall(r"<tr>.*?</tr>", tables[0], re.S)}
    assert len(widths) == 1


def test_latex_has_a_table_environment_per_table(document: Document) -> None:
    text = latex.write(document)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") > 10
    labels = re.findall(r"\\label\{(.*?)\}", text)
    assert len(set(labels)) == len(labels)
    assert "<script" not in text
    for line in text.splitlines():
        if line.endswith(r"\\"):
            body = line.replace(r"\&", "").replace(r"\%", "").replace(r"\$", "")
            assert body.count("&") >= 1
            assert "%" not in body


def test_json_holds_the_tables_and_no_nan(document: Document) -> None:
    data = json.loads(to_json(document), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    sections = data["parts"][0]["sections"]
    board = next(block for block in sections[1]["blocks"] if block["type"] == "Table")
    assert HOSTILE in [row[0] for row in board["rows"]]


def test_csv_is_the_tidy_table(small_store: Store, tmp_path: Path) -> None:
    path = write_report(small_store, tmp_path / "report.csv", format="csv")
    read = pd.read_csv(StringIO(path.read_text("utf-8")), keep_default_na=False, na_values={"value": [""]})
    frame = small_store.frame()
    assert len(read) == len(frame)
    assert set(read["model"]) == set(MODELS)
    assert read["value"].sum() == pytest.approx(frame["value"].sum())


@pytest.mark.parametrize(("format", "magic"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_figures_are_files_of_their_kind(format: str, magic: bytes, document: Document, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed: pip install 'vision-gauntlet[figures]'")
    files = sorted(vector.write(document, tmp_path, format, "curve-[er]*").iterdir())
    assert [path.stem.split("-streets")[0] for path in files] == ["curve-epsilon", "curve-ratio"]
    assert all(path.read_bytes().startswith(magic) for path in files)


REGIONS = ("rce-inside-ratio", "rce-outside-ratio")


def test_every_kind_of_figure_can_be_drawn_and_shows_names_as_text(document: Document, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    vector.write(document, tmp_path, "svg")
    names = {path.stem.split("-streets")[0] for path in tmp_path.iterdir()}
    expected = {"overview", "best-attack", "spread", "smallest", "classes-map", "scatter"}
    assert names == expected | {"curve-severity", "curve-epsilon", "curve-ratio", "kept-epsilon", *REGIONS}
    overview = next(tmp_path.glob("overview*")).read_text("utf-8")
    assert "<script" not in overview
    assert "window.hacked" in overview


def test_the_same_figure_is_the_same_file(document: Document, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = [next(vector.write(document, tmp_path / name, "pdf", "overview*").iterdir()) for name in ("one", "two")]
    assert written[0].read_bytes() == written[1].read_bytes()


def test_an_unknown_figure_is_one_sentence(document: Document, tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="unknown figure 'curves-'"):
        vector.write(document, tmp_path, "pdf", "curves-")


def test_bad_wishes_are_one_sentence(small_store: Store, tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="unknown format of a report 'docx'"):
        write_report(small_store, tmp_path / "x", format="docx")
    blocker = tmp_path / "file"
    blocker.write_text("")
    for format in FORMATS:
        with pytest.raises(GauntletError, match=r"cannot be (written|made)"):
            write_report(small_store, blocker / "x" / "y", format=format)
