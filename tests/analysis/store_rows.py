"""Rows of small tidy frames in the form of the store."""

from __future__ import annotations

import json
from typing import Any


def figure(model: str, description: dict[str, Any], value: float, **columns: Any) -> dict[str, Any]:
    """One row of a store's frame; the threat is given as its description."""
    row = {
        "key": f"{model}|{json.dumps(description, sort_keys=True)}",
        "task": "segmentation",
        "model": model,
        "model_digest": "0" * 16,
        "dataset": "streets",
        "split": "val",
        "threat": json.dumps(description),
        "kind": next(iter(description)),
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
