"""Fixtures of the dataset tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from dataset_trees import TREES, bdd100k_first


@pytest.fixture
def make_tree(tmp_path: Path) -> Callable[[str], Path]:
    """Builds the tree of a dataset in a fresh folder and returns the folder."""

    def build(name: str) -> Path:
        root = tmp_path / "data" / name
        root.mkdir(parents=True)
        (bdd100k_first if name == "bdd100k-first" else TREES[name])(root)
        return root

    return build


@pytest.fixture(autouse=True)
def no_default_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GAUNTLET_DATA", raising=False)
