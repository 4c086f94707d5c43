"""Names that attack whoever reads them, of models, datasets, classes and threats, through every writer of pages."""

from __future__ import annotations

import csv
import importlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from synthetic_store import CLEAN, MadeUpThreat, fill_store

from gauntlet.analysis.scoring.leaderboard import leaderboard
from gauntlet.cli.output import escape, print_table
from gauntlet.evaluation import reloading
from gauntlet.report import build_report, write_report
from gauntlet.report.document import Document
from gauntlet.report.pages.comparison import compare_models
from gauntlet.report.pages.comparison_page import to_document
from gauntlet.report.pages.entries import store_entries
from gauntlet.report.pages.leaderboard_site import write_site
from gauntlet.report.pages.model_card import write_card
from gauntlet.report.render import html, latex, markdown, vector
from gauntlet.results import Store, open_store

ELEMENT = "</script></title></table>'\"><x-evil onclick=1 href=javascript:1>"
MARKUP = "|`*[a](javascript:evil)\n\n<x-evil>\n# head $x$ \\write18{evil} \\input{/etc/passwd} %evil {_^~&#"
FORMULA = "=HYPERLINK(evil)"
PATH = "../../../evil"
TERMINAL = "\x1b]0;evil\x07\u202e[bold]evil"
NAMES = (ELEMENT, MARKUP, FORMULA, PATH, TERMINAL)
THREATS = (
    CLEAN,
    MadeUpThreat(f"pgd {MARKUP}", {"attack": {"name": ELEMENT, "norm": "linf", "epsilon": 2 / 255}}, 0.2, 0.6),
    MadeUpThreat(f"pgd {ELEMENT}", {"attack": {"name": ELEMENT, "norm": "linf", "epsilon": 4 / 255}}, 0.1, 0.5),
    MadeUpThreat(f"@{MARKUP}", {"corruption": {"name": MARKUP, "severity": 3}}, 0.4, 0.7),
    MadeUpThreat(f"-{ELEMENT}", {"corruption": {"name": MARKUP, "severity": 5}}, 0.3, 0.6),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "results.db"
    with open_store(path) as store:
        fill_store(store, NAMES, THREATS, images=4, classes=(*NAMES, "road"), dataset=f"+{ELEMENT}{MARKUP}{PATH}")
    return path


@pytest.fixture(scope="module")
def document(path: Path) -> Document:
    with open_store(path, read_only=True) as store:
        return build_report(store)


@pytest.fixture
def store(path: Path) -> Store:
    return open_store(path, read_only=True)


class Elements(HTMLParser):
    """Elements and attributes of a page, and the text outside of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]


def assert_harmless_html(text: str) -> None:
    page = Elements(text)
    assert "x-evil" not in page.tags
    assert not [name for name in page.attributes if name.startswith("on") or "evil" in name]
    assert not [
        address for address in page.addresses if address.startswith("javascript:") or ".." in address[3:].split("#")[0]
    ]


def assert_harmless_markdown(text: str) -> None:
    rendered = MarkdownIt("commonmark").enable("table").render(text)
    assert_harmless_html(rendered)
    assert "<a " not in rendered
    assert "<h1>head" not in rendered


def strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in strings(each)] + [str(key) for key in value]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


def test_the_report_as_a_page(document: Document) -> None:
    text = html.write(document)
    assert_harmless_html(text)
    assert Elements(text).tags.count("script") == 3
    charts = re.search(r'id="charts">(.*?)</script>', text, re.S)
    assert charts is not None
    drawn = json.loads(charts.group(1))
    assert len(drawn) > 4
    # Plotly reads some HTML in texts; names are no HTML there either. The script sets "alt" as an attribute.
    charts_alone = [
        {name: part for name, part in each.items() if name != "alt"} for p in drawn.values() for each in p.values()
    ]
    shown = strings([list(each.values()) for each in charts_alone])
    assert any("x-evil" in each for each in shown)
    assert not any("<x-evil" in each for each in shown)


def test_the_report_as_markdown_and_latex(document: Document) -> None:
    assert_harmless_markdown(markdown.write(document))
    text = latex.write(document)
    assert "write18" in text  # shown, as text
    for command in (r"\write18", r"\input{/", "%evil"):
        assert not re.search(r"(?<!\\)" + re.escape(command), text)
    assert all(line.count("$") % 2 == 0 for line in text.replace(r"\$", "").splitlines())


def test_a_spreadsheet_computes_nothing(store: Store, tmp_path: Path) -> None:
    report = write_report(store, tmp_path / "report.csv", format="csv")
    store.export(tmp_path / "figures.csv")
    for path in (report, tmp_path / "figures.csv"):
        with path.open(encoding="utf-8", newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        formulas = [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
        assert [cell for cell in formulas if not re.fullmatch(r"-?[\d.e-]+", cell)] == []
        assert f"'{FORMULA}" in cells


@pytest.mark.parametrize("model", NAMES, ids=("element", "markup", "formula", "path", "terminal"))
def test_cards(model: str, store: Store, tmp_path: Path) -> None:
    card, data = write_card(store, model, tmp_path / "card.md")
    body = card.read_text("utf-8").split("---\n", 2)[2]
    assert_harmless_markdown(body)
    assert json.loads(data.read_text("utf-8"))["model"] == model


def test_the_site_stays_in_its_folder(store: Store, tmp_path: Path) -> None:
    folder = write_site(store_entries(store.frame()), tmp_path / "public", title=ELEMENT)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["public"]
    pages = sorted(folder.rglob("*.html"))
    assert len(pages) == 3 + len(NAMES)
    for page in pages:
        assert re.fullmatch(r"[a-z0-9-]+\.html", page.name)
        assert_harmless_html(page.read_text("utf-8"))
    data = (folder / "assets/data.js").read_text("utf-8")
    assert "<" not in data
    read = json.loads(data.removeprefix("window.GAUNTLET = ").removesuffix(";\n"))
    assert {entry["model"] for entry in read["entries"]} == set(NAMES)


def test_comparisons(store: Store) -> None:
    document = to_document(compare_models(store, ELEMENT, MARKUP))
    assert_harmless_html(html.write(document))
    assert_harmless_markdown(markdown.write(document))


def test_notebooks(store: Store) -> None:
    assert_harmless_html(store._repr_html_())
    for key in store.frame()["key"].unique():
        evaluation = store.load(key)
        assert evaluation is not None
        assert_harmless_html(evaluation._repr_html_())


def test_a_terminal_gets_no_commands(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert escape("\x1b[31m\u202e\x07") == "?[31m??"
    frame = leaderboard(store.frame())
    print_table("", ["model", "threat"], [[TERMINAL, MARKUP], *([str(cell)] * 2 for cell in frame.columns)])
    shown = capsys.readouterr().out
    assert not set(shown) & set("\x1b\x07\u202e")
    assert "[bold]evil" in shown


@pytest.mark.filterwarnings("ignore:Glyph")
def test_figures_as_files(document: Document, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    vector.write(document, tmp_path / "figures", "svg", "overview*")
    (written,) = (tmp_path / "figures").iterdir()
    assert_harmless_html(written.read_text("utf-8"))


def test_nothing_is_imported_from_a_folder_because_a_store_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted_module.py").write_text("raise SystemExit('ran')")
    monkeypatch.syspath_prepend("")  # as in a notebook
    with reloading._in_folder(str(tmp_path)), pytest.raises(ModuleNotFoundError):
        importlib.import_module("planted_module")
    assert sys.path[0] == ""
