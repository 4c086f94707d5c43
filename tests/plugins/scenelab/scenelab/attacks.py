"""An attack by a plain function that makes it, one that gives itself its name, and one that is a bare class."""

from __future__ import annotations

from typing import Any

from gauntlet.threats.attacks import Attack, register
from gauntlet.threats.attacks.algorithms.gradient import GradientAttack


def lab_step(**options: Any) -> Attack:
    """One large step."""
    return GradientAttack(**{"name": "lab-step", "epsilon": "32/255", "alpha": "32/255", "steps": 1, **options})


register("lab-pgd", GradientAttack, steps=2, loss="segpgd")


class Walk(GradientAttack):
    """A class as it is; its name is that of the entry point."""
