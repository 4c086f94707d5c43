"""The two scales of pixels that benchmarks mix: grey levels from 0 to 255, and [0, 1].

A value that only makes sense on the other scale is refused with both readings.
"""

from __future__ import annotations

from gauntlet.errors import GauntletError
from gauntlet.numbers import Number, parse_number

LEVELS = 255
LEAST_LEVELS = {"linf": 0.25, "l2": 1.0}
"""Budgets in grey levels below these are of no use; the smallest published are 0.25 (linf) and 64 (l2)."""
LEAST_STEP = {"linf": 0.1, "l2": 1.0}
"""Steps in grey levels below these are of no use."""


def grey_levels(value: Number, name: str, norm: str, where: str) -> float:
    """A length in grey levels, as a number; an error where it reads like one on the [0, 1] scale.

    Args:
        value: as it was given.
        name: "epsilon" or "alpha".
        norm: "linf" or "l2".
        where: the format that has it in grey levels, for the message.
    """
    number = parse_number(value, name)
    if norm == "linf" and number > LEVELS:
        raise GauntletError(f"{name} must lie in [0, 255] in {where}, which has it in grey levels, not {value}.")
    least = (LEAST_LEVELS if name == "epsilon" else LEAST_STEP)[norm]
    if 0 < number < least or (isinstance(value, str) and "/" in value):
        raise GauntletError(
            f"{name} {value!r} has two readings in {where}: {number:.3g} grey levels, as that format has it, or a "
            f"length on the [0, 1] scale of pixels, written {number * LEVELS:g} there; write the one that is meant."
        )
    return number


def unit_length(value: Number, name: str, where: str) -> float:
    """A length on the [0, 1] scale; an error where it reads like one in grey levels.

    Args:
        value: as it was given; a text with a fraction ("2.55/255") is taken by its value.
        name: "alpha".
        where: the format that has it on the [0, 1] scale, for the message.
    """
    number = parse_number(value, name)
    if number > 1 or (number == 1 and not (isinstance(value, str) and "/" in value)):
        raise GauntletError(
            f"{name} {value!r} in {where}, which has it on the [0, 1] scale, would be {number * LEVELS:g} grey levels; "
            f"as grey levels it is {number / LEVELS:.4g}: write that, or '{number:g}/255', if it is meant."
        )
    return number
