"""Attacks by name."""

from __future__ import annotations

from typing import Any

from gauntlet.threats.attacks import apgd, gradient  # noqa: F401 - they register attacks
from gauntlet.threats.attacks.attack import attacks


def names() -> list[str]:
    """Every attack, in the order of registration."""
    return attacks.names()


def batteries() -> list[str]:
    """Every battery."""
    return []


def build(name: str, **options: Any) -> Any:
    """An attack by its name.

    Args:
        name: see `names`.
        options: epsilon=, alpha=, steps=, norm="linf"|"l2", random_start=, restarts=, returns="last"|"best" and the
            attack's own; numbers may be texts such as "8/255"; None means the default.
    """
    return attacks[name](**options)
