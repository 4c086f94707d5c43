"""A working folder with what a stranger brings along."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stranger import OWN_MODULES, bring_everything


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The working folder."""
    bring_everything(tmp_path)
    with working_in(tmp_path):
        yield tmp_path


@contextmanager
def working_in(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """A stranger's folder as the working folder; the modules in it are forgotten afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAUNTLET_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        before = list(sys.path)
        yield patch
        sys.path[:] = before
        for name in OWN_MODULES:
            sys.modules.pop(name, None)
