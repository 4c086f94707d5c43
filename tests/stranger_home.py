"""A working folder with what a stranger brings along."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stranger import OWN_MODULES, bring_everything


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder; the modules in it are forgotten afterwards."""
    bring_everything(tmp_path)
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before
    for name in OWN_MODULES:
        sys.modules.pop(name, None)
