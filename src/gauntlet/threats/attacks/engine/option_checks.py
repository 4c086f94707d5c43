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
    if norm == "linf" and number > 1:
        raise GauntletError(
            f"epsilon must lie in [0, 1], it is {value}; pixels lie in [0, 1], so write 8 grey levels as '8/255'."
        )
    return number
