"""Errors a user can act on: one sentence that names the thing, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST = 1600
"""Letters of a message; more is a name that nobody reads."""


class GauntletError(ValueError):
    """Bad input or a broken expectation, said in one sentence; the command line prints it and exits with 2."""


class DamageError(GauntletError):
    """A part of a store is not as it was written."""


class UnknownNameError(GauntletError):
    """A name that no registry knows, with the nearest known names."""


class NotFiniteError(GauntletError):
    """NaN or infinity from a model, in the middle of an attack."""


def as_sentence(error: BaseException) -> str:
    """What an error says, on one line that a terminal can show, whatever names are in it."""
    line = " ".join(str(error).split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in line)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST // 2]} ... {shown[-_LONGEST // 2 :]}"


def first_line(error: BaseException) -> str:
    """The first line of a library's error, or its type where it says nothing, as a sentence with one full stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".") + "."


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is not registered; suggests close misspellings, else lists what there is.

    Args:
        kind: what the name stands for, in the singular ("attack", "corruption").
        name: what the user wrote.
        known: every name that would have been right.
    """
    names = sorted(known)
    by_lower = {each.lower(): each for each in names}
    close = [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
    if close:
        hint = "did you mean " + " or ".join(f"'{match}'" for match in close) + "?"
    elif len(names) > 24:
        hint = f"there are {len(names)} names; 'gauntlet list' shows them."
    else:
        hint = "known: " + (", ".join(names) if names else "none") + "."
    return UnknownNameError(f"unknown {kind} '{name}'; {hint}")
