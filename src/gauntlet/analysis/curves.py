"""How a figure falls as a threat grows: severity, epsilon, steps or another number of it on the x axis."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pandas as pd

from gauntlet.analysis.frames import of_metric, one_each, unit_columns, with_clean
from gauntlet.errors import unknown_name
from gauntlet.metrics.arithmetic import divide
from gauntlet.numbers import parse_number
from gauntlet.threats.contract import known_options
from gauntlet.threats.options import PLAIN, Option


def curve_options() -> dict[str, Option]:
    """The options that curves are drawn along, by name."""
    return {name: option for name, option in known_options().items() if option.axis}


def curve(
    frame: pd.DataFrame, parameter: str, metric: str | None = None, *, from_clean: bool = True, least: int = 2
) -> pd.DataFrame:
    """Figures along one setting of a threat, all other settings fixed.

    Args:
        frame: tidy figures; the setting is read from `description`.
        parameter: one of `curve_options`: "severity", "epsilon", "ratio", "steps", "rounds" and those of other
            packages.
        metric: by default mIoU for segmentation and mAP for detection.
        from_clean: start every curve with the clean figure at 0, where it is known and 0 means the clean image.
        least: series with fewer different settings are left out.

    Returns:
        Tidy: the unit, metric, series (the threat without the setting), kind, x (epsilon on [0, 1]), value, low, high,
        clean, and relative (value over clean).
    """
    if parameter not in curve_options():
        raise unknown_name("parameter of a curve", parameter, curve_options())
    rows = of_metric(frame, metric)
    keys = [*unit_columns(rows), "metric"]
    x = settings(rows, parameter)
    points = rows[x.notna()]
    if points.empty:  # a setting that no threat has
        return pd.DataFrame(columns=[*keys, "series", "kind", "x", "value", "low", "high", "clean", "relative"])
    points = _with_series(points.assign(x=x), parameter, keys)
    points = one_each(points, [*keys, "series", "x"])
    sizes = points.groupby([*keys, "series"], dropna=False)["x"].transform("nunique")
    points = with_clean(points[sizes >= least], rows, keys)
    columns = [*keys, "series", "kind", "x", "value", "low", "high", "clean"]
    points = points.reindex(columns=columns)
    if from_clean and curve_options()[parameter].from_clean:
        starts = points.dropna(subset="clean").drop_duplicates([*keys, "series"])
        starts = starts.assign(x=0.0, value=starts["clean"], low=float("nan"), high=float("nan"))
        points = pd.concat([starts, points]).drop_duplicates([*keys, "series", "x"], keep="last")
    points = points.assign(relative=divide(points["value"], points["clean"]))
    return points.sort_values([*keys, "series", "x"], kind="stable").reset_index(drop=True)


def settings(frame: pd.DataFrame, parameter: str) -> pd.Series[float]:
    """The value of one option in every row of a tidy frame, on its index; NaN where the threat does not have it."""
    values = {text: _number(_parsed(text), parameter) for text in frame["description"].unique()}
    return frame["description"].map(values).astype(float)


@lru_cache(maxsize=4096)  # a report asks for every option of every threat
def _parsed(text: str) -> Mapping[str, Any]:
    description: Mapping[str, Any] = json.loads(text)
    return description


def _number(node: Mapping[str, Any], parameter: str) -> float:
    """A number of a description, the outer one of two; NaN without any."""
    value = node.get(parameter)
    if value is not None and not isinstance(value, Mapping):
        return parse_number(value, parameter)
    inner = (_number(each, parameter) for each in node.values() if isinstance(each, Mapping))
    return next((number for number in inner if not math.isnan(number)), math.nan)


def _with_series(points: pd.DataFrame, parameter: str, keys: list[str]) -> pd.DataFrame:
    """Adds `series`: the name of the threat without the setting on the axis.

    The step size follows the budget in many attacks, so that it tells two curves apart only where one budget was run
    with two of them.
    """
    flat = {text: _flatten(_parsed(text)) for text in points["description"].unique()}
    followers = {parameter, *(name for name, option in known_options().items() if parameter in option.follows)}
    groups = {text: _without(settings, followers) for text, settings in flat.items()}
    points = points.assign(series=points["description"].map(_labels(groups)))
    descriptions = points.groupby([*keys, "series", "x"], dropna=False)["description"].nunique()
    if descriptions.gt(1).any():
        groups = {text: _without(settings, {parameter}) for text, settings in flat.items()}
        points = points.assign(series=points["description"].map(_labels(groups)))
    return points


def _flatten(node: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in node.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{path}{key}."))
        elif value not in (None, ""):
            flat[f"{path}{key}"] = value
    return flat


def _without(settings: Mapping[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    return {path: value for path, value in settings.items() if path.rpartition(".")[2] not in left_out}


def _labels(groups: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Readable names, "pgd, norm linf, steps 20": what is always in a name, and what else tells two threats apart."""
    options = known_options()
    always = [*(name for name, option in options.items() if option.named == "always"), "source_model"]
    short = {text: _label(settings, always, options) for text, settings in groups.items()}
    sharing: dict[str, list[Mapping[str, Any]]] = {}
    for text, label in short.items():
        sharing.setdefault(label, []).append(groups[text])
    paths_that_differ: dict[str, set[str]] = {}
    for label, alike in sharing.items():
        paths = {path for settings in alike for path in settings}
        differ = {path for path in paths if len({json.dumps(each.get(path)) for each in alike}) > 1}
        paths_that_differ[label] = {path.rpartition(".")[2] for path in differ}
    return {
        text: _label(settings, [*always, *sorted(paths_that_differ[short[text]] - set(always))], options)
        for text, settings in groups.items()
    }


def _label(settings: Mapping[str, Any], shown: Sequence[str], options: Mapping[str, Option]) -> str:
    by_key = {path.rpartition(".")[2]: value for path, value in settings.items()}
    names = [str(value) for path, value in settings.items() if path.rpartition(".")[2] == "name"]
    parts = [options.get(key, PLAIN).label(key, by_key[key]) for key in shown if key in by_key and key != "name"]
    return ", ".join([" ".join(names), *parts])
