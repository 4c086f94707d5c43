"""Names and descriptions of published threats, from the columns of the packaged file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gauntlet.numbers import format_number


def write_description(kind: str, name: str, settings: Mapping[str, float | str]) -> dict[str, Any]:
    """The description of a published threat, in the form that `gauntlet.build_threat` reads where it can.

    Args:
        kind: "clean", "attack", "corruption", "weather", "localized", "battery" or "summary".
        name: of the attack, the corruption, the condition or the battery.
        settings: further settings; empty texts and NaN are left out.
    """
    given = _given(settings)
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
    given = _given(settings)
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


def _given(settings: Mapping[str, float | str]) -> dict[str, float | str]:
    """The settings without empty texts and NaN."""
    return {key: value for key, value in settings.items() if not _is_missing(value)}


def _is_missing(value: float | str) -> bool:
    return value == "" if isinstance(value, str) else math.isnan(value)
