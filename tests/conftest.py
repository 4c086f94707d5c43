"""Fixtures that several tests share: a tiny model, a tiny dataset, the real data where it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from gauntlet.models import SegmentationModel, wrap_model
from paths import SHARED
from tiny import TinyDataset, tiny_network

pytest_plugins = [
    "chromium",
    "compiling_once",
    "dataset_trees",
    "fresh_python",
    "program",
    "stranger_home",
    "web_server",
]

torch.set_num_threads(1)
# A test of properties that does not say how many examples it needs takes these, not a hundred; nor is it timed.
settings.register_profile("frugal", max_examples=25, deadline=None)
settings.load_profile("frugal")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with the most slow tests first: what takes long must not begin last, when other workers have ended."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.fixture(autouse=True)
def no_default_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not depend on the datasets of the person who runs them."""
    monkeypatch.delenv("GAUNTLET_DATA", raising=False)


@pytest.fixture
def tiny_dataset() -> TinyDataset:
    return TinyDataset()


@pytest.fixture
def tiny_model() -> SegmentationModel:
    return wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="tiny-net")


@pytest.fixture
def shared() -> Path:
    """The folder with real images and checkpoints; a test that asks for it is skipped where it is missing."""
    if not (SHARED / "realdata").is_dir():
        pytest.skip("the real images and checkpoints are not on this machine")
    return SHARED


@pytest.fixture(scope="session", autouse=True)
def own_preparations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Choices of preparations are remembered for the tests only, not in the home of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAUNTLET_CACHE", str(tmp_path_factory.mktemp("gauntlet-cache")))
        yield
