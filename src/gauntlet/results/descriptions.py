"""What a threat's description says, as columns: the same for stored and for published figures."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from gauntlet.numbers import parse_number

TEXT_SETTINGS = ("attack", "norm", "corruption", "battery", "condition", "source_model")
NUMBER_SETTINGS = ("epsilon", "alpha", "steps", "queries", "severity", "ratio", "patch", "rounds")
_NAMED = ("attack", "corruption", "battery")
_AIMS = ("target", "region", "fooling_region")


def read_description(description: str) -> dict[str, Any]:
    """The settings inside a threat's JSON description, flat; an outer setting wins over an inner one of its name.

    >>> read_description('{"localized": {"corruption": {"name": "fog", "severity": 3}, "ratio": 0.5}}')
    {'corruption': 'fog', 'severity': 3.0, 'ratio': 0.5}
    """
    settings: dict[str, Any] = {}
    _collect(json.loads(description) if description else {}, settings)
    return settings


def _collect(node: Mapping[str, Any], settings: dict[str, Any]) -> None:
    for key, value in node.items():
        if key in _NAMED:
            name = value.get("name", "") if isinstance(value, Mapping) else str(value)
            settings.setdefault(key, name)
        if isinstance(value, Mapping):
            _collect(value, settings)
        elif key in NUMBER_SETTINGS and value is not None:
            settings.setdefault(key, _number_or_text(key, value))
        elif key in TEXT_SETTINGS and value is not None:
            settings.setdefault(key, str(value))


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


def is_plain(description: Mapping[str, Any]) -> bool:
    """Whether a threat acts on the whole image and away from the truth, as published attacks do.

    A targeted attack, or one that may change (or is judged in) a part of the image, is another attack of the same name.
    """
    options = description.get("attack")
    if not isinstance(options, Mapping):
        return True
    return not any(options.get(name) is not None and options[name] is not False for name in _AIMS)


def grey_levels(fraction: float) -> float:
    """A pixel quantity on the 0 to 255 scale, free of rounding noise: 8/255 is exactly 8."""
    return round(fraction * 255, 6)


def split_transfer(name: str, source: str) -> tuple[str, str]:
    """The attack's own name in that of a transferred one, and the size of the source; "" where it has none.

    Args:
        name: of the threat.
        source: the model that it was made on, "" for one that is not transferred.

    >>> split_transfer("pgd linf 8/255 x20 at 64x128 from streets/enet", "streets/enet")
    ('pgd linf 8/255 x20', '64x128')
    >>> split_transfer("pgd linf 8/255 x20 from streets/enet", "streets/enet")
    ('pgd linf 8/255 x20', '')
    """
    attack = name.removesuffix(f" from {source}") if source else name
    sized = re.fullmatch(r"(.+) at (\d+x\d+)", attack) if attack != name else None
    return (attack, "") if sized is None else (sized[1], sized[2])
