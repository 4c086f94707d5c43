"""The page of the playground in a real Chromium, on a real server of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from chromium import errors, wait_for
from gauntlet.play.server import bind
from play_cases import tiny_playground

pytestmark = pytest.mark.slow  # a browser takes ten seconds of processor time to start and to end

DONE = "document.body.dataset.phase === 'done'"
ACCURACY = "document.getElementById('right-now').textContent"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a playground with tiny models."""
    bound = bind(tiny_playground(), "127.0.0.1", 0)
    server = bound.server()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound.listener]}, daemon=True)
    thread.start()
    yield bound.addresses[0]
    server.should_exit = True
    thread.join(10)


def visit(browser: Any, address: str) -> None:
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(address)
    wait_for(browser, DONE)


def move(browser: Any, control: str, value: object) -> None:
    """Gives a control a value as a visitor would, and waits for what comes of it."""
    script = "const it = document.getElementById(arguments[0]); it.value = arguments[1];"
    browser.execute_script(f"{script} it.dispatchEvent(new Event('input', {{bubbles: true}}))", control, str(value))
    wait_for(browser, DONE)


def value(browser: Any, expression: str) -> Any:
    return browser.execute_script(f"return {expression}")


def test_moving_epsilon_changes_the_figures_and_the_address_restores_them(browser: Any, address: str) -> None:
    visit(browser, address)
    assert value(browser, "document.getElementById('threat').value") == "pgd"
    assert value(browser, "document.querySelectorAll('#course .right').length") == 2  # a line and its end
    weak = value(browser, ACCURACY)
    move(browser, "epsilon-number", 40)
    strong = value(browser, ACCURACY)
    assert float(strong.split()[0]) < float(weak.split()[0])
    move(browser, "epsilon-number", 0)
    assert value(browser, ACCURACY) == value(browser, "document.getElementById('right-clean').textContent")
    move(browser, "epsilon-number", 40)
    move(browser, "steps-number", 5)
    move(browser, "region", "box")
    shared, told = browser.current_url, value(browser, ACCURACY)
    assert "epsilon=40&steps=5" in shared
    assert "region=box%3A8%2C12%2C24%2C36" in shared
    visit(browser, address)
    assert value(browser, ACCURACY) == weak
    visit(browser, shared)
    assert value(browser, ACCURACY) == told
    assert value(browser, "document.getElementById('steps').value") == "5"
    assert value(browser, "document.getElementById('marked').hidden") is False
    assert value(browser, "document.querySelector('#recipe-picture code').textContent").startswith("gauntlet show ")
    assert value(browser, "document.getElementById('note').hidden") is True
    visit(browser, f"{address}#?model=streets/enet&threat=clean")
    said = "The address asks for streets/enet, which is not here; you see tiny-net. "
    assert value(browser, "document.getElementById('note').textContent") == said
    assert errors(browser) == []


def test_a_detector_a_corruption_and_a_photograph(browser: Any, address: str, tmp_path: Path) -> None:
    visit(browser, f"{address}#?model=tiny-detector&threat=fog&severity=2")
    assert value(browser, "document.getElementById('right-name').textContent") == "F1 of the boxes"
    assert value(browser, "document.getElementById('tile-errors').hidden") is True
    move(browser, "severity", 5)
    assert "severity=5" in browser.current_url
    move(browser, "model", "tiny-net")
    assert value(browser, "document.getElementById('tile-errors').hidden") is False
    photo = tmp_path / "photo.png"
    cv2.imwrite(str(photo), np.random.default_rng(2).integers(0, 256, (40, 48, 3), dtype=np.uint8))
    browser.find_element("id", "upload").send_keys(str(photo))
    wait_for(browser, f"location.hash.includes('upload-') && {DONE}")
    assert value(browser, "document.getElementById('right-name').textContent") == "Agreement with the clean prediction"
    assert value(browser, "document.getElementById('right-clean').textContent") == "100.0 %"
    assert value(browser, "document.getElementById('note').hidden") is False
    move(browser, "image", 2)
    assert "image=2" in browser.current_url
    assert errors(browser) == []


def test_a_phone_scrolls_down_only_and_everything_has_a_name(browser: Any, address: str) -> None:
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        for state in ("", "#?threat=square&region=square:half:top-left", "#?threat=clean&model=tiny-detector"):
            visit(browser, address + state)
            assert value(browser, "document.documentElement.scrollWidth") <= 390
        nameless = "!each.labels?.length && !each.getAttribute('aria-label') && !each.textContent.trim()"
        controls = "[...document.querySelectorAll('button, select, input, a.button')]"
        assert value(browser, f"{controls}.filter((each) => {nameless}).map((each) => each.id)") == []
        assert value(browser, "[...document.images].filter((each) => !each.alt).length") == 0
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert errors(browser) == []


def test_a_fault_is_said_and_a_rectangle_can_be_drawn(browser: Any, address: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    visit(browser, f"{address}#?model=tiny-net&threat=bim&steps=2")
    canvas = browser.find_element("id", "canvas")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
    ActionChains(browser).move_to_element(canvas).click_and_hold().move_by_offset(60, 40).release().perform()
    wait_for(browser, f"location.hash.includes('region=box') && {DONE}")
    corners = value(browser, "[0, 1, 2, 3].map((index) => Number(document.getElementById(`box-${index}`).value))")
    assert corners[:2] == pytest.approx([16, 24], abs=1)
    script = "const it = document.getElementById('steps-number'); it.value = 5000;"
    browser.execute_script(f"{script} it.dispatchEvent(new Event('input', {{bubbles: true}}))")
    wait_for(browser, "document.body.dataset.phase === 'failed'")
    assert value(browser, "document.getElementById('status').textContent").startswith("'steps' is '5000'")
    move(browser, "steps-number", 3)
    assert "after 3 steps" in value(browser, "document.getElementById('status').textContent")
