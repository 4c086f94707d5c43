"""The pages in a real Chromium, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic_store import HOSTILE, MODELS

import gauntlet
from chromium import errors, wait_for
from gauntlet.analysis import correlate
from gauntlet.evaluation.reloading import Loaders
from gauntlet.report import Options, build_report, write_report
from gauntlet.report.document import Document, Exhibit, Gallery, Part, Picture, Section
from gauntlet.report.pages.comparison import compare_models
from gauntlet.report.pages.comparison_page import to_document
from gauntlet.report.pages.entries import Entry, published_entries, store_entries
from gauntlet.report.pages.leaderboard_site import write_site
from gauntlet.report.render import html
from gauntlet.results import Store, open_store, published
from tiny_detector import TinyBoxes, TinyDetector

pytest_plugins = ("report_fixtures",)
pytestmark = pytest.mark.slow  # a browser takes ten seconds of processor time to start and to end

BOARD = "table[id^='leaderboard-streets']"


@pytest.fixture(scope="module")
def page(store_path: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report with a gallery."""
    import cv2

    with open_store(store_path, read_only=True) as store:
        document = build_report(store, Options("Report of <b>tests</b>"))
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    picture = Picture("input", "image/png", cv2.imencode(".png", noise)[1].tobytes(), 30, 20)
    gallery = Gallery("Worst", [("road", "#804080")], [Exhibit("image <1>", "detail", [picture])])
    (part,) = document.parts
    sections = [*part.sections, Section("gallery-test", "Gallery", [gallery])]
    whole = Document(
        document.title, document.subtitle, [Part(part.id, part.title, part.subtitle, sections)], document.footer
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html.write(whole), encoding="utf-8")
    return path.as_uri()


def visit(browser: Any, address: str) -> None:
    """Opens a page anew: a change of the fragment alone would not load it."""
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(address)
    wait_for(browser, "document.readyState === 'complete'")


def column(browser: Any, table: str, index: int) -> list[str]:
    rows = "[...document.querySelectorAll(arguments[0] + ' tbody tr:not([hidden])')]"
    script = f"return {rows}.map((row) => row.cells[arguments[1]].firstChild.textContent)"
    actual: list[str] = browser.execute_script(script, table, index)
    return actual


def test_the_report_opens_and_every_plot_is_drawn(browser: Any, page: str) -> None:
    visit(browser, page)
    panels = browser.execute_script("return [...document.querySelectorAll('.plot')].map((each) => each.dataset.panel)")
    assert len(panels) >= 9
    for panel in panels:
        script = "document.querySelector(`[data-panel='${arguments[0]}']`)"
        browser.execute_script(f"{script}.scrollIntoView({{behavior: 'instant'}})", panel)
        wait_for(browser, f"{script}.dataset.drawn === 'true'", panel)
        traces = browser.execute_script(f"return {script}.data.length", panel)
        charts = "JSON.parse(document.getElementById('charts').textContent)[arguments[0]]"
        expected = browser.execute_script(f"return Object.values({charts})[0].data.length", panel)
        assert traces == expected > 0
        assert browser.execute_script(f"return {script}.querySelectorAll('svg').length", panel) > 0
    assert errors(browser) == []
    assert browser.execute_script("return window.hacked") is None
    assert browser.title == "Report of <b>tests</b>"
    assert browser.execute_script("return document.querySelector('h1').textContent") == "Report of <b>tests</b>"


def test_hostile_names_are_shown_as_text(browser: Any, page: str) -> None:
    visit(browser, page)
    assert HOSTILE in column(browser, BOARD, 0)
    assert browser.execute_script("return document.querySelectorAll('main script').length") == 0
    panel = "document.querySelector(\"[data-panel^='overview']\")"
    browser.execute_script(f"{panel}.scrollIntoView({{behavior: 'instant'}})")
    wait_for(browser, f"{panel}.dataset.drawn === 'true'")
    ticks = browser.execute_script(
        f"return [...{panel}.querySelectorAll('.ytick text')].map((each) => each.textContent)"
    )
    assert any(tick.startswith("<script>window.hacke") for tick in ticks)


def test_tables_sort_filter_and_keep_it_in_the_address(browser: Any, page: str) -> None:
    visit(browser, page)
    ascending = sorted(float(value) for value in column(browser, BOARD, 2))
    button = "document.querySelector(arguments[0] + ' thead th:nth-child(3) button')"
    browser.execute_script(f"{button}.click()", BOARD)
    assert [float(value) for value in column(browser, BOARD, 2)] == ascending[::-1]
    browser.execute_script(f"{button}.focus()", BOARD)
    from selenium.webdriver.common.keys import Keys

    browser.switch_to.active_element.send_keys(Keys.ENTER)  # by keyboard as well
    assert [float(value) for value in column(browser, BOARD, 2)] == ascending
    assert (
        browser.execute_script("return document.querySelector('th[aria-sort]').getAttribute('aria-sort')")
        == "ascending"
    )
    box = browser.find_element("css selector", "input[aria-label^='Filter the rows of Worst images']")
    box.send_keys("FOG steady")
    table = "table[id^='worst-']"
    assert set(column(browser, table, 0)) == {"fog-1", "fog-3", "fog-5"}
    assert set(column(browser, table, 1)) == {"zoo/steady"}
    address = browser.current_url
    assert "sort.leaderboard" in address
    visit(browser, address)
    assert [float(value) for value in column(browser, BOARD, 2)] == ascending
    assert set(column(browser, table, 1)) == {"zoo/steady"}
    assert errors(browser) == []


def test_another_chart_can_be_chosen_and_shared(browser: Any, page: str) -> None:
    visit(browser, page)
    panel = "document.querySelector(\"[data-panel^='classes-map']\")"
    browser.execute_script(f"{panel}.scrollIntoView({{behavior: 'instant'}})")
    wait_for(browser, f"{panel}.dataset.drawn === 'true'")
    rows = browser.execute_script(f"return {panel}.data[0].y.length")
    assert rows == 16
    menu = f"const menu = {panel}.parentElement.querySelector('select');"
    browser.execute_script(f"{menu} menu.value = 'threat: fog-3'; menu.dispatchEvent(new Event('change'));")
    wait_for(browser, f"{panel}.data[0].y.length === {len(MODELS)}")
    visit(browser, browser.current_url)
    browser.execute_script(f"{panel}.scrollIntoView({{behavior: 'instant'}})")
    wait_for(browser, f"{panel}.dataset.drawn === 'true' && {panel}.data[0].y.length === {len(MODELS)}")
    assert browser.execute_script(f"return {panel}.parentElement.querySelector('select').value") == "threat: fog-3"


def test_pictures_are_there_and_themes_change(browser: Any, page: str) -> None:
    visit(browser, page)
    browser.execute_script("document.querySelector('img').scrollIntoView({behavior: 'instant'})")
    wait_for(browser, "document.querySelector('img').complete && document.querySelector('img').naturalWidth === 30")
    background = "return getComputedStyle(document.body).backgroundColor"
    before = browser.execute_script(background)
    browser.execute_script("document.getElementById('theme').click()")
    after = browser.execute_script(background)
    assert before != after
    assert browser.execute_script("return theme.isDark()") is True
    browser.execute_script("document.getElementById('theme').click()")
    assert browser.execute_script(background) == before


def test_a_phone_scrolls_down_only_and_everything_has_a_name(browser: Any, page: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    try:
        visit(browser, page)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    nameless = browser.execute_script(
        "return [...document.querySelectorAll('button, select, input, [role=region], img')].filter((each) => "
        "!(each.getAttribute('aria-label') || each.getAttribute('alt') || each.textContent.trim())).length"
    )
    assert nameless == 0


@pytest.fixture(scope="module")
def box_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report of a detector, with a gallery of boxes."""
    detector, boxes, store = TinyDetector(), TinyBoxes(3), Store()
    for threat in ("clean", {"corruption": {"name": "gaussian_noise", "severity": 5}}):
        gauntlet.evaluate(detector, boxes, threat, store=store)
    loaders = Loaders(model=lambda address: detector, dataset=lambda name, split: boxes)
    path = tmp_path_factory.mktemp("boxes") / "report.html"
    return write_report(store, path, options=Options(gallery=1, loaders=loaders)).as_uri()


def test_a_detector_has_its_boxes_its_plots_and_room_on_a_phone(browser: Any, box_page: str) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    try:
        visit(browser, box_page)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        pictures = "[...document.querySelectorAll('.exhibit img')]"
        browser.execute_script(f"{pictures}.forEach((each) => each.loading = 'eager')")
        wait_for(browser, f"{pictures}.every((each) => each.complete && each.naturalWidth > 0)")
        widths = browser.execute_script(f"return {pictures}.map((each) => each.getBoundingClientRect().width)")
        assert len(widths) == 6
        assert min(widths) > 140  # two in a row
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    plot = "document.querySelector(`[data-panel^='spread-']`)"
    browser.execute_script(f"{plot}.scrollIntoView({{behavior: 'instant'}})")
    wait_for(browser, f"{plot}.dataset.drawn === 'true'")
    names = browser.execute_script(f"return {plot}.data.map((each) => each.name)")
    assert names == ["images", "F1_images", "mAP"]
    assert column(browser, "table[id^='boxes-figures']", 0) == ["clean", "gaussian_noise 5"]
    assert errors(browser) == []


def test_a_printed_report_is_light_and_has_all_its_plots(browser: Any, page: str) -> None:
    visit(browser, page)
    browser.execute_script("document.getElementById('theme').click()")
    browser.execute_async_script("plots.load().then(arguments[0])")
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    import base64

    assert base64.b64decode(printed).startswith(b"%PDF")
    drawn = browser.execute_script("return document.querySelectorAll('.plot[data-drawn]').length")
    assert drawn == browser.execute_script("return document.querySelectorAll('.plot').length")
    assert browser.execute_script("return theme.isDark()") is True  # as it was before printing
    browser.execute_script("document.getElementById('theme').click()")


def test_the_comparison_page_opens(browser: Any, store_path: Path, tmp_path: Path) -> None:
    with open_store(store_path, read_only=True) as store:
        document = to_document(compare_models(store, "zoo/plain", HOSTILE))
    path = tmp_path / "pair.html"
    path.write_text(html.write(document), encoding="utf-8")
    visit(browser, path.as_uri())
    browser.execute_script("document.querySelector('.plot').scrollIntoView({behavior: 'instant'})")
    wait_for(browser, "document.querySelector('.plot').dataset.drawn === 'true'")
    assert errors(browser) == []
    assert browser.execute_script("return window.hacked") is None


# The site ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ade20k() -> list[Entry]:
    return published_entries(published.frame("segmentation", "ade20k"))


@pytest.fixture(scope="module")
def site(store_path: Path, ade20k: list[Entry], tmp_path_factory: pytest.TempPathFactory) -> str:
    with open_store(store_path, read_only=True) as store:
        entries = [*store_entries(store.frame()), *ade20k]
    return write_site(entries, tmp_path_factory.mktemp("site") / "public").as_uri()


def names(browser: Any) -> list[str]:
    return column(browser, ".board", 0)


def test_the_leaderboard_filters_sorts_and_keeps_it_in_the_address(
    browser: Any, site: str, ade20k: list[Entry]
) -> None:
    visit(browser, f"{site}/index.html")
    assert sorted(names(browser)) == sorted(MODELS)  # own models first
    visit(browser, f"{site}/index.html#?dataset=ade20k")
    assert len(names(browser)) == len(ade20k)
    expected = sorted(ade20k, key=lambda entry: -entry.scores["mIoU"]["GAM_3"])
    assert names(browser)[:3] == [entry.model for entry in expected[:3]]
    browser.execute_script(
        "[...document.querySelectorAll('.board thead button')].find((each) => each.textContent === 'clean').click()"
    )
    by_clean = sorted(ade20k, key=lambda entry: -entry.scores["mIoU"]["clean"])
    assert names(browser)[:3] == [entry.model for entry in by_clean[:3]]
    box = browser.find_element("css selector", "input[type=search]")
    box.send_keys("swin")
    actual = names(browser)
    assert actual
    assert all("swin" in name for name in actual)
    visit(browser, browser.current_url)
    assert names(browser) == actual
    assert errors(browser) == []
    assert browser.execute_script("return window.hacked") is None


def test_doubtful_figures_can_be_left_out(browser: Any, site: str, ade20k: list[Entry]) -> None:
    visit(browser, f"{site}/index.html#?dataset=ade20k&sure=1")
    assert sorted(names(browser)) == sorted(entry.model for entry in ade20k if not entry.doubtful)


def test_models_are_compared(browser: Any, site: str, ade20k: list[Entry]) -> None:
    one, other = ade20k[0], ade20k[1]
    visit(browser, f"{site}/compare.html#?models={one.id},{other.id}")
    wait_for(browser, "document.getElementById('plot').dataset.drawn === 'true'")
    rows = dict(zip(column(browser, ".board", 0), column(browser, ".board", 1), strict=True))
    assert float(rows["clean"]) == pytest.approx(100 * one.scores["mIoU"]["clean"], abs=0.06)
    assert browser.execute_script("return document.getElementById('plot').data.length") == 2
    third = ade20k[2]
    menu = "const menu = document.querySelector('select[name=add]');"
    browser.execute_script(f"{menu} menu.value = arguments[0]; menu.dispatchEvent(new Event('change'));", third.id)
    assert third.id in browser.current_url
    assert browser.execute_script("return document.querySelectorAll('.board thead th').length") == 4
    assert errors(browser) == []


def test_the_correlation_explorer_agrees_with_the_analysis(browser: Any, site: str, ade20k: list[Entry]) -> None:
    visit(browser, f"{site}/correlations.html")
    wait_for(browser, "document.getElementById('plot').dataset.drawn === 'true'")
    pairs = [(entry.scores["mIoU"]["clean"], entry.scores["mIoU"]["GAM_3"]) for entry in ade20k]
    expected = correlate([x for x, _ in pairs], [y for _, y in pairs]).set_index("coefficient")["value"]
    cells = "[...document.querySelectorAll('.board tbody tr:first-child td[data-value]')]"
    shown = browser.execute_script(f"return {cells}.map((each) => Number(each.dataset.value))")
    assert shown == pytest.approx([expected["pearson"], expected["spearman"], expected["kendall"]], abs=2e-4)
    points = browser.execute_script(
        "return document.getElementById('plot').data.reduce((sum, trace) => sum + trace.x.length, 0)"
    )
    assert points == len(pairs)
    visit(browser, f"{site}/correlations.html#?x=parameters&y=clean&group=architecture")
    wait_for(browser, "document.getElementById('plot').dataset.drawn === 'true'")
    assert browser.execute_script("return document.querySelector('select[name=x]').value") == "parameters"
    assert errors(browser) == []


def test_a_model_page_opens_and_its_figures_sort(browser: Any, site: str, ade20k: list[Entry]) -> None:
    entry = ade20k[0]
    visit(browser, f"{site}/models/{entry.id}.html")
    assert len(column(browser, "#figures", 0)) == len(entry.figures)
    browser.execute_script("document.querySelector('#figures thead th:nth-child(5) button').click()")
    values = [float(value) for value in column(browser, "#figures", 4)]
    assert values == sorted(values, reverse=True)
    assert errors(browser) == []
