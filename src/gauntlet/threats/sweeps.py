"""Sweeps: one description with lists and ranges, expanded to one description per value."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.threats.contract import known_options
from gauntlet.threats.corruptions import COMMON
from gauntlet.threats.options import Option

ALL = "all"
_MAX_RANGE = 10_000


def expand(description: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every threat that a description with lists and ranges stands for, in the order they are written.

    A list ([1, 3, 5]), a range of whole numbers ("1..5") or {"range": [start, stop, step]} (stop included) may stand
    for every option that its declaration calls swept (see `options`), and "all" for the name of a corruption. So a list
    of sizes is one threat per size; a size that is no square is {"height": 32, "width": 64}.

    >>> [each["corruption"]["severity"] for each in expand({"corruption": {"name": "fog", "severity": "1..3"}})]
    [1, 2, 3]
    """
    swept = {name: option for name, option in known_options().items() if option.swept}
    return list(_expand(description, swept, ""))


def as_written(description: Mapping[str, Any]) -> dict[str, Any]:
    """What a user writes for one described threat: a rectangle, [32, 64] in a description, as height and width.

    >>> as_written({"localized": {"patch": [32, 64], "ratio": 0.5}})
    {'localized': {'patch': {'height': 32, 'width': 64}, 'ratio': 0.5}}
    """
    rectangles = {name for name, option in known_options().items() if option.rectangle}

    def written(key: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {each: written(each, inner) for each, inner in value.items()}
        if key in rectangles and isinstance(value, (list, tuple)):
            return {"height": value[0], "width": value[1]}
        return value

    return {key: written(key, value) for key, value in description.items()}


def _expand(node: Mapping[str, Any], swept: Mapping[str, Option], parent: str) -> Iterator[dict[str, Any]]:
    choices: list[list[tuple[str, Any]]] = []
    for key, value in node.items():
        values: list[Any]
        if parent and key in swept:  # without a parent it is the kind of a threat: "patch" is both
            values = _values(key, value, swept[key], parent)
        elif isinstance(value, Mapping):
            values = list(_expand(value, swept, key))
        else:
            values = [value]
        choices.append([(key, each) for each in values])
    for combination in itertools.product(*choices):
        yield dict(combination)


def _values(key: str, value: Any, option: Option, parent: str) -> list[Any]:
    if key == "name" and parent == "corruption" and value == ALL:
        return list(COMMON)
    if isinstance(value, list):
        if not value:
            raise GauntletError(f"the list of values for '{key}' is empty; write at least one.")
        return value
    if isinstance(value, Mapping):
        return [value] if (option.rectangle or option.mapping) and "range" not in value else _range(key, value)
    if isinstance(value, str) and ".." in value:
        try:
            low, high = (int(each) for each in value.split(".."))
        except ValueError:
            raise GauntletError(f"'{key}: {value}' is not a range of whole numbers such as 1..5.") from None
        return _range(key, {"range": [low, high, 1]})
    return [value]


def _range(key: str, value: Mapping[str, Any]) -> list[Any]:
    bounds = value.get("range")
    numbers = isinstance(bounds, list) and all(isinstance(each, (int, float)) for each in bounds)
    if set(value) != {"range"} or not isinstance(bounds, list) or not numbers or len(bounds) not in (2, 3):
        raise GauntletError(f"'{key}' takes a value, a list or {{range: [start, stop, step]}}, not {dict(value)}.")
    start, stop, step = (*bounds, 1)[:3]
    if step <= 0 or stop < start or (stop - start) / step > _MAX_RANGE:
        raise GauntletError(f"the range {bounds} of '{key}' must go upwards in positive steps.")
    count = int((stop - start) / step + 1e-9) + 1
    return [start + index * step for index in range(count)]
