"""Fixtures that several tests share: a tiny model, a tiny dataset, the real data where it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gauntlet.models import SegmentationModel, wrap_model
from tiny import TinyDataset, tiny_network

SHARED = Path(__file__).resolve().parents[1].parent / "shared"

torch.set_num_threads(1)


@pytest.fixture
def tiny_dataset() -> TinyDataset:
    return TinyDataset()


@pytest.fixture
def tiny_model() -> SegmentationModel:
    return wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="tiny-net")


@pytest.fixture
def shared() -> Path:
    """The folder with real data and reference values; the test is skipped where it is missing."""
    if not SHARED.is_dir():
        pytest.skip("the shared reference data is not on this machine")
    return SHARED
