"""A small made-up store for all tests of reports: a plugin, so that no second conftest is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from synthetic_store import MODELS, SMALL, fill_store

from gauntlet.results import Store, open_store


@pytest.fixture(scope="session")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "results.db"
    with open_store(path) as store:
        fill_store(store, MODELS, SMALL, images=8)
    return path


@pytest.fixture
def small_store(store_path: Path) -> Iterator[Store]:
    with open_store(store_path, read_only=True) as store:
        yield store
