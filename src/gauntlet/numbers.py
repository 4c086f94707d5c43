"""Numbers as people write them: 8/255, "8/255", 0.03, "2 models"."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import SupportsIndex

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
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):  # no number at all, or one of hundreds of digits
            raise GauntletError(f"{name} must be a number such as 0.03 or '8/255', not {value!r}.") from None
    if not math.isfinite(number):
        raise GauntletError(f"{name} must be finite, not {value!r}.")
    return number


def parse_count(value: object, name: str) -> int:
    """A whole number of at least 1; True is none, and neither is 2.5.

    >>> parse_count(4, "workers")
    4
    """
    is_whole = isinstance(value, SupportsIndex) and not isinstance(value, bool)
    if not is_whole or operator.index(value) < 1:  # type: ignore[arg-type]
        raise GauntletError(f"{name} must be a whole number of at least 1, not {value!r}.")
    return operator.index(value)  # type: ignore[arg-type]


def parse_fraction(value: Number, name: str = "value", *, low: float = 0.0, high: float = 1.0) -> float:
    """A float in [low, high], both included; says which bound was missed."""
    number = parse_number(value, name)
    if not low <= number <= high:
        is_percentage = (low, high) == (0, 1) and 1 < number <= 100 and number == int(number)
        percent = f"; for {number:g} % write {number / 100:g}" if is_percentage else ""
        raise GauntletError(f"{name} must lie in [{low:g}, {high:g}], not {value}{percent}.")
    return number


def format_number(value: float) -> str:
    """A short text for a pixel quantity: grey levels, or quarters of them, where plain digits are not shorter.

    >>> format_number(8 / 255), format_number(0.5 / 255), format_number(0.01), format_number(0.2)
    ('8/255', '0.5/255', '0.01', '0.2')
    """
    quarters = round(4 * 255 * value) / 4
    digits, fraction = f"{value:g}", f"{quarters:g}/255"
    if abs(quarters / 255 - value) >= 1e-12:
        return digits
    exact = abs(float(digits) - value) < 1e-12
    return digits if exact and len(digits) <= len(fraction) else fraction


def format_percent(fraction: float | None) -> str:
    """A fraction in per cent, without the sign; a dash when it is undefined.

    >>> format_percent(0.5123), format_percent(float("nan")), format_percent(None)
    ('51.2', '-', '-')
    """
    if fraction is None or math.isnan(fraction):
        return "-"
    return without_empty_sign(f"{100 * fraction:.1f}")


def without_empty_sign(text: str) -> str:
    """A number as text without the sign of a zero.

    >>> without_empty_sign("-0.0"), without_empty_sign("+0.0"), without_empty_sign("-0.1")
    ('0.0', '0.0', '-0.1')
    """
    return text if text.strip("+-0.") else text.lstrip("+-")


def format_duration(seconds: float) -> str:
    """Hours, minutes and seconds, as far as they matter.

    >>> format_duration(75), format_duration(3700), format_duration(float("nan"))
    ('1 min 15 s', '1 h 1 min', 'an unknown time')
    """
    if math.isnan(seconds):
        return "an unknown time"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def json_number(value: float) -> float | str | None:
    """A figure as JSON can hold it: null for NaN, and the text "Infinity" (a mean of -ln p over an impossible class).

    >>> json_number(0.5), json_number(float("nan")), json_number(float("inf"))
    (0.5, None, 'Infinity')
    """
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return None if math.isnan(value) else value


def counted(count: int, word: str, plural: str = "") -> str:
    """A number with its noun: "1 model", "2 models"; `plural` where that is not the word with an s."""
    return f"{count} {word if count == 1 else plural or word + 's'}"


def listed(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)
