"""How a figure falls as a threat grows: severity, epsilon, ratio, steps or rounds on the x axis."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from gauntlet.analysis.frames import of_metric, one_each, with_clean
from gauntlet.errors import unknown_name
from gauntlet.metrics.segmentation import divide
from gauntlet.results.published.summaries import unit_columns
from gauntlet.results.published.threats import threat_settings

PARAMETERS = ("severity", "epsilon", "ratio", "steps", "rounds")


def curve(
    frame: pd.DataFrame, parameter: str, metric: str | None = None, *, from_clean: bool = True, least: int = 2
) -> pd.DataFrame:
    """Figures along one setting of a threat, all other settings fixed.

    Args:
        frame: tidy figures; the setting is read from `description`.
        parameter: "severity", "epsilon", "ratio", "steps" or "rounds".
        metric: by default mIoU for segmentation and mAP for detection.
        from_clean: start every curve with the clean figure at 0, where it is known.
        least: series with fewer different settings are left out.

    Returns:
        Tidy: the unit, metric, series (the threat without the setting), kind, x (epsilon on [0, 1]), value, low, high,
        clean, and relative (value over clean).
    """
    if parameter not in PARAMETERS:
        raise unknown_name("parameter of a curve", parameter, PARAMETERS)
    rows = of_metric(frame, metric)
    keys = [*unit_columns(rows), "metric"]
    settings = threat_settings(rows)
    points = rows[settings[parameter].notna()].assign(x=settings[parameter])
    descriptions = points["description"].unique()
    names = {text: _series(text, parameter) for text in descriptions}
    points = points.assign(series=points["description"].map(names))
    points = one_each(points, [*keys, "series", "x"])
    sizes = points.groupby([*keys, "series"], dropna=False)["x"].transform("nunique")
    points = with_clean(points[sizes >= least], rows, keys)
    columns = [*keys, "series", "kind", "x", "value", "low", "high", "clean"]
    points = points.reindex(columns=columns)
    if from_clean:
        starts = points.dropna(subset="clean").drop_duplicates([*keys, "series"])
        starts = starts.assign(x=0.0, value=starts["clean"], low=float("nan"), high=float("nan"))
        points = pd.concat([starts, points]).drop_duplicates([*keys, "series", "x"], keep="last")
    points = points.assign(relative=divide(points["value"], points["clean"]))
    return points.sort_values([*keys, "series", "x"], kind="stable").reset_index(drop=True)


def _series(description: str, parameter: str) -> str:
    """A readable name of a threat without one of its settings: "pgd, norm linf, steps 20"."""
    parts: list[str] = []

    def walk(node: Mapping[str, Any], path: str) -> None:
        for key, value in node.items():
            if isinstance(value, Mapping):
                walk(value, f"{path}{key} " if path or key not in ("attack", "corruption", "battery") else "")
            elif key == parameter:
                continue
            elif key == "name":
                parts.insert(0, str(value))
            elif value not in (None, ""):
                parts.append(f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}")

    walk(json.loads(description), "")
    return ", ".join(parts)
