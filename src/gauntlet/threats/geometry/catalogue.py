"""Moves by name: with parameters of one's own, and as series of growing severity."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.threats.geometry.moves import Move, Perspective, Radial, Rotation, Scale, Shear, Size, Translation

MOVES: dict[str, type[Any]] = {
    "rotation": Rotation,
    "translation": Translation,
    "scale": Scale,
    "shear": Shear,
    "radial": Radial,
    "perspective": Perspective,
}
"""Moves whose parameters are given; the fields of the class are the parameters."""

Drawn = Callable[[float, Size, np.random.Generator], Move]


def _signed(move: Callable[[float], Move]) -> Drawn:
    """A move to either side, whichever the image draws."""
    return lambda value, size, generator: move(value if generator.random() < 0.5 else -value)


def _directed(move: Callable[[float, float, Size], Move]) -> Drawn:
    """A move in the direction that the image draws."""

    def drawn(value: float, size: Size, generator: np.random.Generator) -> Move:
        angle = 2 * math.pi * generator.random()
        return move(value * math.cos(angle), value * math.sin(angle), size)

    return drawn


@dataclass(frozen=True)
class Series:
    """A move at growing severities.

    Attributes:
        values: its size at severity 1, 2, ...
        unit: of the values, in words.
        draw: the move of a value for an image.
    """

    values: tuple[float, ...]
    unit: str
    draw: Drawn


SERIES: dict[str, Series] = {
    "rotation": Series((2, 5, 10, 20, 30), "degrees, either way", _signed(Rotation)),
    "translation": Series(
        (0.02, 0.05, 0.1, 0.15, 0.2),
        "of the side, in any direction",
        _directed(lambda x, y, size: Translation(x * size[1], y * size[0])),
    ),
    "zoom_in": Series((1.1, 1.25, 1.5), "times as large", lambda value, size, generator: Scale(value)),
    "zoom_out": Series((0.8, 0.6), "times as large", lambda value, size, generator: Scale(value)),
    "shear": Series((0.05, 0.1, 0.2, 0.3, 0.4), "sideways per row, either way", _signed(Shear)),
    "barrel": Series((0.05, 0.1, 0.2, 0.3, 0.4), "k1", lambda value, size, generator: Radial(value)),
    "pincushion": Series((-0.05, -0.1, -0.15, -0.2, -0.25), "k1", lambda value, size, generator: Radial(value)),
    "perspective": Series(
        (0.05, 0.1, 0.2, 0.3, 0.4), "turn and tilt, any way", _directed(lambda x, y, size: Perspective(x, y))
    ),
}
"""Series by name (docs/specs/beyond.md, 8; those of shear and perspective are ours)."""


def names() -> list[str]:
    """Every name of a move."""
    return list(dict.fromkeys([*MOVES, *SERIES]))


def check_severity(name: str, severity: int) -> None:
    """An error for a severity that a series does not have."""
    if name not in SERIES:
        series = {"scale": "zoom_in and zoom_out", "radial": "barrel and pincushion"}[name]
        raise GauntletError(f"'{name}' has no severities, but {series} have; or give its own parameters.")
    most = len(SERIES[name].values)
    if isinstance(severity, bool) or not isinstance(severity, int) or not 1 <= severity <= most:
        raise GauntletError(f"the severity of '{name}' must be a whole number from 1 to {most}, not {severity!r}.")


def parameters(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a move in their order, those that were not given with their defaults; an error otherwise.

    Args:
        name: one of `MOVES`.
        given: parameters by name.
    """
    own = {each.name: each.default for each in fields(MOVES[name])}
    for key in given:
        if key not in own:
            raise unknown_name(f"parameter of the move '{name}'", key, own)
    complete = {key: given.get(key, default) for key, default in own.items()}
    for key, value in complete.items():
        if not isinstance(value, (int, float, str)):
            raise GauntletError(f"the move '{name}' needs '{key}', or a severity.")
    return complete
