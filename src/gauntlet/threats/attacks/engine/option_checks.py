"""Checks of an attack's options: each raises one sentence that names the option and what it must be."""

from __future__ import annotations

from collections.abc import Sequence

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.numbers import Number, parse_number


def one_of(value: str, name: str, allowed: Sequence[str]) -> None:
    """Raises unless the value is one of the allowed ones."""
    if value not in allowed:
        raise unknown_name(name, str(value), allowed)


def whole(value: int, name: str, least: int) -> None:
    """Raises unless the value is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise GauntletError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def classes(value: int | Sequence[int], name: str) -> tuple[int, ...]:
    """Class indices, from one or several, each once and rising; raises unless they are whole numbers from 0 on."""
    given = [value] if isinstance(value, int) else list(value)
    for index in given:
        whole(index, name, 0)
    return tuple(sorted(set(given)))


def positive(value: Number, name: str) -> float:
    """A number above 0."""
    number = parse_number(value, name)
    if number <= 0:
        raise GauntletError(f"{name} must be positive, not {value}.")
    return number


def radius(value: Number, norm: str) -> float:
    """An epsilon: at least 0; at most 1 for linf, since pixels lie in [0, 1]."""
    number = parse_number(value, "epsilon")
    if number < 0:
        raise GauntletError(f"epsilon must not be negative, it is {value}.")
    check_unit_scale(value, "epsilon", norm)
    return number


def step_length(value: Number, norm: str, name: str = "alpha") -> float:
    """A length of steps: above 0; at most 1 for linf."""
    number = positive(value, name)
    check_unit_scale(value, name, norm)
    return number


GREY_L2 = 16
"""From here on a whole number that bounds an l2 norm reads like grey levels; 16.0 is one on the [0, 1] scale."""


def check_unit_scale(value: Number, name: str, norm: str) -> None:
    """Raises for a length on the [0, 1] scale that reads like grey levels of 0 to 255."""
    number = parse_number(value, name)
    if norm == "linf" and number > 1:
        raise GauntletError(
            f"{name} must lie in [0, 1], it is {value}: on the [0, 1] scale of pixels it exceeds their whole range, "
            f"as grey levels it is '{number:g}/255' ({number / 255:.4g}); write that."
        )
    whole_number = (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and value.strip().isdigit()
    )
    if norm == "l2" and whole_number and number >= GREY_L2:
        raise GauntletError(
            f"{name} {value} has two readings in l2: grey levels, written '{number:g}/255' ({number / 255:.4g}), or a "
            f"length on the [0, 1] scale of pixels, written {number:.1f}; write the one that is meant."
        )
