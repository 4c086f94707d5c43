"""Batteries by name: which attacks are members of a battery, with which options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.numbers import Number, parse_number
from gauntlet.registry import Registry, instance_of
from gauntlet.threats.attacks.combined.battery import Battery
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.option_checks import positive
from gauntlet.threats.attacks.registration import attacks

battery_members: Registry[Mapping[str, tuple[str, Mapping[str, Any]]]] = Registry(
    "battery",
    "gauntlet.batteries",
    check=instance_of(Mapping, "a mapping from the name of a member to an attack's name and its options"),
)
"""Batteries by name: for each member, the attack's name and its options."""


def build_battery(
    name: str,
    *,
    epsilon: Number | None = None,
    budget: Number = 1.0,
    members: Mapping[str, Mapping[str, Any]] | None = None,
    skip: bool = True,
    table: bool = False,
    keep: bool = True,
    together: bool = False,
    **options: Any,
) -> Battery:
    """A battery by its name, or one of one's own.

    Args:
        name: "gauntlet" (or "lean"), "sea", "halmosi", "semsegbench", for detectors "detecbench" or "detectors", or a
            registered one; any name where `members` are given.
        epsilon: the radius, 8/255 by default; results of minimum-perturbation attacks are clipped to it.
        budget: factor on every attack's number of steps (of queries, without a gradient), 1 for the published ones.
        members: descriptions of attacks by the name that results go under, in place of a registered set.
        skip, table, keep, together: see `Battery`.
        options: given to every member.
    """
    factor = positive(budget, "budget")
    if members is None:
        name = battery_members.canonical(name)
        members = _registered(name)
    if epsilon is not None:
        options["epsilon"] = parse_number(epsilon, "epsilon")
    built = {}
    for member, own in members.items():
        if "name" not in own:
            raise GauntletError(f"the member '{member}' of the battery '{name}' needs the name of an attack.")
        built[member] = _member({**own, **options}, factor, f"the member '{member}' of the battery '{name}'")
    return Battery(name, built, skip=skip, table=table, keep=keep, together=together)


def _registered(name: str) -> dict[str, dict[str, Any]]:
    """Descriptions of the members of a registered battery, by the name that their results go under."""
    return {
        member: {"epsilon": 8 / 255, **own, "name": attack} for member, (attack, own) in battery_members[name].items()
    }


def _member(description: Mapping[str, Any], factor: float, who: str) -> Attack:
    """One attack with its number of steps, or of queries, scaled.

    Args:
        description: its name and options.
        factor: on the number of steps or queries.
        who: "the member ... of the battery ...", for messages.
    """
    options = dict(description)
    make = attacks[options.pop("name")]
    attack = make(**options)
    if not isinstance(attack, Attack):
        raise GauntletError(f"{who} is not a single attack.")
    if factor == 1:
        return attack
    described = attack.describe()
    unit = "steps" if "steps" in described else "queries"
    if described[unit] is None:
        raise GauntletError(f"{who} needs its {unit} for a budget.")
    scaled: Attack = make(**{**options, unit: max(1, round(factor * described[unit]))})
    return scaled
