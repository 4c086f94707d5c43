"""FGSM, BIM and PGD as DetecBench names them: epsilon and alpha in grey levels (docs/specs/attacks.md, 15).

Where its code and its paper differ, these are the paper's: gradients are those of what the detector sees, and class 0
is a class. Kept as in the code: FGSM moves by alpha only, PGD starts at the image unless told otherwise, and "two"
takes sign steps inside an l2 ball. `target=True` is its class 42.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gauntlet.errors import unknown_name
from gauntlet.numbers import Number
from gauntlet.threats.compat.scales import LEVELS, grey_levels
from gauntlet.threats.kinds.attack import AttackThreat

NORMS = {"inf": "linf", "two": "l2"}
WHERE = "DetecBench's call"


def PGD(
    epsilon: Number = 8,
    alpha: Number = 2.55,
    steps: int = 20,
    target: bool | int | str | Path = False,
    random_start: bool = False,
    norm: str = "inf",
) -> AttackThreat:
    """Projected gradient descent.

    Args:
        epsilon, alpha: radius and step, in grey levels.
        steps: gradient steps.
        target: False; True for class 42; a class; or the path of a .pt or .npz file with classes and boxes.
        random_start: from a random point of the ball.
        norm: "inf" or "two".
    """
    return _threat("pgd", epsilon, alpha, target, norm, steps=steps, random_start=random_start)


def BIM(
    epsilon: Number = 8,
    alpha: Number = 2.55,
    steps: int = 20,
    target: bool | int | str | Path = False,
    norm: str = "inf",
) -> AttackThreat:
    """The basic iterative method; arguments as for `PGD`."""
    return _threat("bim", epsilon, alpha, target, norm, steps=steps)


def FGSM(
    epsilon: Number = 8, alpha: Number = 2.55, target: bool | int | str | Path = False, norm: str = "inf"
) -> AttackThreat:
    """One step of the fast gradient sign method, of length alpha; arguments as for `PGD`."""
    return _threat("fgsm", epsilon, alpha, target, norm)


def _threat(name: str, epsilon: Number, alpha: Number, target: Any, norm: str, **options: Any) -> AttackThreat:
    if norm not in NORMS:
        raise unknown_name("norm", str(norm), NORMS)
    if NORMS[norm] == "l2":
        options["rule"] = "sign"
    if target is not False and target is not None:
        options["target"] = str(target) if isinstance(target, Path) else target
    sizes = {
        "epsilon": unit_scale(grey_levels(epsilon, "epsilon", NORMS[norm], WHERE)),
        "alpha": unit_scale(grey_levels(alpha, "alpha", NORMS[norm], WHERE)),
    }
    return AttackThreat({"name": name, "norm": NORMS[norm], **sizes, **options})


def unit_scale(levels: float) -> float:
    """Grey levels on the [0, 1] scale; 2.55 is 0.01 and not its neighbour, so that equal work has one description.

    >>> unit_scale(2.55), unit_scale(8) == 8 / 255
    (0.01, True)
    """
    value = levels / LEVELS
    short = round(value, 6)
    return short if abs(value - short) < 1e-15 else value
