"""Attacks and batteries by name."""

from __future__ import annotations

from typing import Any

from gauntlet.errors import unknown_name
from gauntlet.threats.attacks import (  # noqa: F401 - they register their attacks
    alma,
    apgd,
    dag,
    fmn,
    gradient,
    minimal_pgd,
    primal_dual,
    region_aware,
    tog,
)
from gauntlet.threats.attacks.attack import attacks, names_for
from gauntlet.threats.attacks.battery import battery_members, build_battery


def names(task: str | None = None) -> list[str]:
    """Every attack, or those for "segmentation" or "detection", in the order of registration."""
    return attacks.names() if task is None else names_for(task)


def batteries() -> list[str]:
    """Every battery."""
    return battery_members.names()


def build(name: str, **options: Any) -> Any:
    """An attack or a battery by its name.

    Args:
        name: see `names` and `batteries`.
        options: epsilon=, alpha=, steps=, norm="linf"|"l2", random_start=, restarts=, returns="last"|"best" and the
            attack's own; numbers may be texts such as "8/255"; None means the default. For a battery see
            `build_battery`.
    """
    if name in battery_members or "members" in options:
        return build_battery(name, **options)
    if name not in attacks:
        raise unknown_name("attack", str(name), [*attacks.names(), *battery_members.names()])
    return attacks[name](**options)
