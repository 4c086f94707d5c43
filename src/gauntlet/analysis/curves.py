"""How a figure falls as a threat grows: severity, epsilon, ratio, steps or rounds on the x axis."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from gauntlet.analysis.frames import of_metric, one_each, unit_columns, with_clean
from gauntlet.errors import unknown_name
from gauntlet.metrics.segmentation.figures import divide
from gauntlet.numbers import format_number, parse_number
from gauntlet.results.descriptions import threat_settings

PARAMETERS = ("severity", "epsilon", "ratio", "steps", "rounds")
_KNOWN = ("norm", "epsilon", "steps", "severity", "ratio", "patch", "rounds", "source_model")
_FOLLOWERS = {"epsilon": ("alpha",), "steps": ("alpha",)}


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
    points = rows[settings[parameter].notna()]
    if points.empty:  # a setting that no threat has
        return pd.DataFrame(columns=[*keys, "series", "kind", "x", "value", "low", "high", "clean", "relative"])
    points = _with_series(points.assign(x=settings[parameter]), parameter, keys)
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


def _with_series(points: pd.DataFrame, parameter: str, keys: list[str]) -> pd.DataFrame:
    """Adds `series`: the name of the threat without the setting on the axis.

    The step size follows the budget in many attacks, so that it tells two curves apart only where one budget was run
    with two of them.
    """
    flat = {text: _flatten(json.loads(text)) for text in points["description"].unique()}
    followers = {parameter, *_FOLLOWERS.get(parameter, ())}
    groups = {text: _without(settings, followers) for text, settings in flat.items()}
    points = points.assign(series=points["description"].map(_labels(groups)))
    descriptions = points.groupby([*keys, "series", "x"], dropna=False)["description"].nunique()
    if descriptions.gt(1).any():
        groups = {text: _without(settings, {parameter}) for text, settings in flat.items()}
        points = points.assign(series=points["description"].map(_labels(groups)))
    return points


def _flatten(node: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.items():
        if isinstance(value, Mapping):
            found.update(_flatten(value, f"{path}{key}."))
        elif value not in (None, ""):
            found[f"{path}{key}"] = value
    return found


def _without(settings: Mapping[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    return {path: value for path, value in settings.items() if path.rpartition(".")[2] not in left_out}


def _labels(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Readable names, "pgd, norm linf, steps 20": what people know, and what else tells two threats apart."""
    short = {text: _label(settings, _KNOWN) for text, settings in groups.items()}
    sharing: dict[str, list[Mapping[str, Any]]] = {}
    for text, label in short.items():
        sharing.setdefault(label, []).append(groups[text])
    paths_that_differ: dict[str, set[str]] = {}
    for label, alike in sharing.items():
        paths = {path for settings in alike for path in settings}
        differ = {path for path in paths if len({json.dumps(each.get(path)) for each in alike}) > 1}
        paths_that_differ[label] = {path.rpartition(".")[2] for path in differ}
    return {
        text: _label(settings, [*_KNOWN, *sorted(paths_that_differ[short[text]] - set(_KNOWN))])
        for text, settings in groups.items()
    }


def _label(settings: Mapping[str, Any], shown: Sequence[str]) -> str:
    by_key = {path.rpartition(".")[2]: value for path, value in settings.items()}
    names = [str(value) for path, value in settings.items() if path.rpartition(".")[2] == "name"]
    parts = [f"{key} {_text(key, by_key[key])}" for key in shown if key in by_key and key != "name"]
    return ", ".join([" ".join(names), *parts])


def _text(key: str, value: Any) -> str:
    if key in ("epsilon", "alpha"):
        return format_number(parse_number(value, key))
    return f"{value:g}" if isinstance(value, float) else str(value)
