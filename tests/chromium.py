"""A real Chromium for the tests of pages: Debian's package (chromium, chromium-driver), driven by Selenium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # a page that asks the network for anything fails
)


def start(profile: Path) -> Any:
    """A driver with a fresh profile; the test is skipped where there is no Chromium."""
    browser = os.environ.get("GAUNTLET_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no Chromium here; install it with: apt-get install chromium chromium-driver")
    selenium = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed: pip install selenium")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    options = selenium.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, "--window-size=1280,900", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = selenium.Chrome(options=options, service=service.Service(driver))
    made.set_script_timeout(60)
    return made


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Chromium for all tests of pages."""
    driver = start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def wait_for(driver: Any, script: str, *arguments: object) -> Any:
    """The value of a script's expression as soon as it is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 60, poll_frequency=0.1).until(
        lambda each: each.execute_script(f"return ({script})", *arguments)
    )


def errors(driver: Any) -> list[str]:
    """What the console says that is an error or a warning."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
