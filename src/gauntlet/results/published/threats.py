"""Threat descriptions as columns, and columns as descriptions: what the store and the published figures share."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from gauntlet.numbers import format_number, parse_number

TEXT_SETTINGS = ("attack", "norm", "corruption", "battery", "condition", "source_model")
NUMBER_SETTINGS = ("epsilon", "alpha", "steps", "severity", "ratio", "patch", "rounds")
_NAMED = ("attack", "corruption", "battery")


def read_description(description: str) -> dict[str, Any]:
    """The settings inside a threat's JSON description, flat; an outer setting wins over an inner one of its name.

    >>> read_description('{"localized": {"corruption": {"name": "fog", "severity": 3}, "ratio": 0.5}}')
    {'corruption': 'fog', 'severity': 3.0, 'ratio': 0.5}
    """
    found: dict[str, Any] = {}
    _collect(json.loads(description) if description else {}, found)
    return found


def _collect(node: Mapping[str, Any], found: dict[str, Any]) -> None:
    for key, value in node.items():
        if key in _NAMED:
            name = value.get("name", "") if isinstance(value, Mapping) else str(value)
            found.setdefault(key, name)
        if isinstance(value, Mapping):
            _collect(value, found)
        elif key in NUMBER_SETTINGS and value is not None:
            found.setdefault(key, _number_or_text(key, value))
        elif key in TEXT_SETTINGS and value is not None:
            found.setdefault(key, str(value))


def _number_or_text(key: str, value: Any) -> float | str:
    """A number; a text for the size of a patch in words ("quarter") or as a rectangle."""
    sized = key == "patch" and not isinstance(value, (int, float))
    return str(value) if sized else parse_number(value, key)


def threat_settings(frame: pd.DataFrame) -> pd.DataFrame:
    """One row of settings per row of a tidy frame, on the same index.

    Args:
        frame: has the column `description`.

    Returns:
        TEXT_SETTINGS ("" where not set) and NUMBER_SETTINGS (NaN where not set or no number, such as a patch of a
        "quarter"); epsilon and alpha on [0, 1].
    """
    codes, unique = pd.factorize(frame["description"])
    settings = pd.DataFrame([read_description(text) for text in unique])
    settings = settings.reindex(columns=[*TEXT_SETTINGS, *NUMBER_SETTINGS])
    settings[list(TEXT_SETTINGS)] = settings[list(TEXT_SETTINGS)].astype(object).fillna("")
    numbers = settings[list(NUMBER_SETTINGS)].apply(pd.to_numeric, errors="coerce")
    settings[list(NUMBER_SETTINGS)] = numbers.astype(float)
    return settings.take(codes).set_axis(frame.index)


def grey_levels(fraction: float) -> float:
    """A pixel quantity on the 0 to 255 scale, free of rounding noise: 8/255 is exactly 8."""
    return round(fraction * 255, 6)


def write_description(kind: str, name: str, settings: Mapping[str, float | str]) -> dict[str, Any]:
    """The description of a published threat, in the form that `gauntlet.build_threat` reads where it can.

    Args:
        kind: "clean", "attack", "corruption", "weather", "localized", "battery" or "summary".
        name: of the attack, the corruption, the condition or the battery.
        settings: further settings; empty texts and NaN are left out.
    """
    given = {key: value for key, value in settings.items() if not _is_missing(value)}
    if kind == "localized":
        outer = {key: given.pop(key) for key in ("ratio", "patch") if key in given}
        return {"localized": {"corruption": {"name": name, **given}, **outer}}
    if kind == "weather":
        return {"weather": {"dataset": "acdc", "condition": name}}
    if kind in ("clean", "summary"):
        return {kind: {}}
    return {kind: {"name": name, **given}}


def short_name(kind: str, name: str, settings: Mapping[str, float | str]) -> str:
    """A readable name: "pgd linf 8/255 x20", "fog 3", "acdc fog", "clean"."""
    given = {key: value for key, value in settings.items() if not _is_missing(value)}
    if kind in ("clean", "summary"):
        return name
    if kind == "weather":
        return f"acdc {name}"
    parts = [name]
    if "norm" in given:
        parts.append(str(given["norm"]))
    if "epsilon" in given:
        parts.append(format_number(float(given["epsilon"])))
    if "steps" in given:
        parts.append(f"x{float(given['steps']):g}")
    if "severity" in given:
        parts.append(f"{float(given['severity']):g}")
    if "ratio" in given:
        parts.append(f"on {float(given['ratio']):g}")
    return " ".join(parts)


def _is_missing(value: float | str) -> bool:
    return value == "" if isinstance(value, str) else math.isnan(value)
