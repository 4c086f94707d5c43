"""Numbers as people write them: 8/255, "8/255", 0.03."""

from __future__ import annotations

import math
from fractions import Fraction

from gauntlet.errors import GauntletError

Number = float | int | str


def parse_number(value: Number, name: str = "value") -> float:
    """A float from a number or a text such as "8/255".

    >>> parse_number("8/255") == 8 / 255
    True
    """
    if isinstance(value, bool):
        raise GauntletError(f"{name} must be a number such as 0.03 or '8/255', not {value!r}.")
    if isinstance(value, str):
        try:
            numerator, _, denominator = value.partition("/")
            number = float(numerator) / float(denominator) if denominator else float(numerator)
        except (ValueError, ZeroDivisionError):
            raise GauntletError(f"{name} must be a number such as 0.03 or '8/255', not '{value}'.") from None
    else:
        number = float(value)
    if not math.isfinite(number):
        raise GauntletError(f"{name} must be finite, not {value!r}.")
    return number


def parse_fraction(value: Number, name: str = "value", *, low: float = 0.0, high: float = 1.0) -> float:
    """A float in [low, high], both included; says which bound was missed."""
    number = parse_number(value, name)
    if not low <= number <= high:
        raise GauntletError(f"{name} must lie in [{low:g}, {high:g}], not {value}.")
    return number


def format_number(value: float) -> str:
    """A short text for a pixel quantity: "8/255" when it is a whole number of grey levels, else plain digits.

    >>> format_number(8 / 255), format_number(0.01)
    ('8/255', '0.01')
    """
    levels = Fraction(value).limit_denominator(255) * 255
    if value and abs(float(levels) / 255 - value) < 1e-12 and levels.denominator == 1:
        return f"{levels.numerator}/255"
    return f"{value:g}"
