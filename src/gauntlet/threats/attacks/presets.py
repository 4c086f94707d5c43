"""Attacks and batteries by name."""

from __future__ import annotations

from typing import Any

from gauntlet.errors import unknown_name
from gauntlet.threats.attacks.algorithms import (  # noqa: F401 - they register their attacks
    alma,
    apgd,
    dag,
    fmn,
    gradient,
    minimal_pgd,
    primal_dual,
    tog,
)
from gauntlet.threats.attacks.combined import region_aware  # noqa: F401 - it registers itself
from gauntlet.threats.attacks.combined.battery import battery_members, build_battery
from gauntlet.threats.attacks.engine.contract import attacks, names_for


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
