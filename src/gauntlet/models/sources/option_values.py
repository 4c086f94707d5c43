"""Options that most models take: which values make sense, said before a network fails on another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

from gauntlet.errors import GauntletError

LARGEST = 65536
"""Classes, pixels of a side; more is a typing error, and would take all memory."""


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and abs(int(value)) <= LARGEST


def _real(value: Any) -> bool:
    try:
        return not isinstance(value, (str, bool)) and abs(float(value)) < float("inf")
    except (TypeError, ValueError, OverflowError):
        return False


def _each(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def all_of(values: Any) -> bool:
        try:
            return not isinstance(values, (str, Mapping)) and len(values) > 0 and all(check(value) for value in values)
        except TypeError:
            return False

    return all_of


def _text(value: Any) -> bool:
    return isinstance(value, str)


_CHECKS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "num_classes": (_whole, f"a whole number of at most {LARGEST}"),
    "stride": (_whole, f"a whole number of at most {LARGEST}"),
    "ignore_index": (lambda value: value is None or _whole(value), "a whole number or none"),
    "mean": (_each(_real), "three numbers"),
    "std": (_each(_real), "three numbers"),
    "outputs": (_each(_whole), "whole numbers, one per class"),
    # A text has a meaning of its own for some sources ("image": as given), which read it themselves.
    "input_size": (
        lambda value: value is None or _text(value) or _each(_whole)(value),
        "a height and a width in pixels",
    ),
    "class_names": (lambda value: value is None or _each(_text)(value), "a list of names"),
    "channel_order": (_text, "RGB or BGR"),
    "binary": (
        lambda value: isinstance(value, bool) or value in ("logits", "probabilities"),
        "true, or what the one output is: logits or probabilities",
    ),
    "gives": (_text, "logits or labels"),
    "name": (lambda value: value is None or _text(value), "a text"),
    "task": (_text, "segmentation or detection"),
}


def check_values(address: str, options: Mapping[str, Any]) -> None:
    """An error for an option whose value cannot be meant."""
    for name, value in options.items():
        check, words = _CHECKS.get(name, (None, ""))
        if check is not None and not check(value) and not (value is None and name in ("mean", "std", "outputs")):
            raise GauntletError(f"{name} of the model {address} must be {words}, not {value!r}.")
