"""A plugin that tells what tests cost in processor time, also on a busy machine (CONTRIBUTING.md has the command).

Processes that a test started count from when they ended and were waited for.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest

NAME = "processor seconds"
SHOWN = 50

_at = 0.0
"""Processor time of this process and its children when the last phase of a test ended."""


def _now() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    global _at
    _at = _now()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    global _at
    report = yield
    before, _at = _at, _now()
    report.user_properties.append((NAME, _at - before))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The tests and the files that took most, in seconds."""
    tests: dict[str, float] = defaultdict(float)
    for report in (each for group in terminalreporter.stats.values() for each in group):
        for name, value in getattr(report, "user_properties", ()):
            if name == NAME:
                tests[report.nodeid] += value
    files: dict[str, float] = defaultdict(float)
    for test, seconds in tests.items():
        files[test.partition("::")[0]] += seconds
    terminalreporter.section(f"processor time, {sum(tests.values()):.0f} s")
    for rows in (files, tests):
        for seconds, place in sorted(((seconds, place) for place, seconds in rows.items()), reverse=True)[:SHOWN]:
            terminalreporter.write_line(f"{seconds:8.2f} s  {place}")
