"""Small tidy frames in the form of the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

Figure = Callable[..., dict[str, Any]]


@pytest.fixture
def figure() -> Figure:
    """One row of a store's frame; the threat is given as its description."""

    def make(model: str, description: dict[str, Any], value: float, **columns: Any) -> dict[str, Any]:
        kind = next(iter(description))
        row = {
            "key": f"{model}|{json.dumps(description, sort_keys=True)}",
            "task": "segmentation",
            "model": model,
            "model_digest": "0" * 16,
            "dataset": "streets",
            "split": "val",
            "threat": json.dumps(description),
            "kind": kind,
            "description": json.dumps(description),
            "seed": 0,
            "view": "all",
            "metric": "mIoU",
            "class_name": "",
            "value": value,
            "low": float("nan"),
            "high": float("nan"),
            "images": 10,
            "created": "2025-01-01T00:00:00",
            "duration": 1.0,
        }
        return {**row, **columns}

    return make


@pytest.fixture
def frame_of() -> Callable[[list[dict[str, Any]]], pd.DataFrame]:
    return lambda rows: pd.DataFrame(rows)
