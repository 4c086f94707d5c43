"""What a page of the playground can choose from, read from the registries: attacks with their options, corruptions."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.play.state import MOST_STEPS
from gauntlet.tasks import DETECTION, SEGMENTATION
from gauntlet.threats import attacks, corruptions
from gauntlet.threats.attacks import Attack
from gauntlet.threats.attacks.engine.constraints import NORMS
from gauntlet.threats.corruptions.api import SEVERITIES
from gauntlet.threats.masks import POSITIONS, SHARES
from gauntlet.threats.options import options_of

GREATEST = {"linf": (32, 0.5), "l2": (4096, 16)}
"""End and step of the slider of epsilon, in grey levels of 255."""


def threats_offered() -> dict[str, Any]:
    """Attacks of each task, corruptions by group and regions, JSON-able."""
    return {
        "attacks": {task: _attacks(task) for task in (SEGMENTATION, DETECTION)},
        "corruptions": _corruptions(),
        "severities": list(SEVERITIES),
        "sizes": dict(SHARES),
        "positions": list(POSITIONS),
        "sliders": {norm: {"most": most, "step": step} for norm, (most, step) in GREATEST.items()},
        "mostSteps": MOST_STEPS,
    }


def _attacks(task: str) -> list[dict[str, Any]]:
    """The single attacks of a task, with the usual value of everything that a page has a control for."""
    offered = []
    for name in attacks.names(task):
        try:
            attack = attacks.build(name)
        except Exception:  # nosec B112 - another package's attack that needs options; how it says so is its own affair
            continue
        if not isinstance(attack, Attack):
            continue  # rounds of other attacks
        known = options_of(type(attack))
        usual: dict[str, Any] = {key: getattr(attack, key) for key in ("steps", "queries") if key in known}
        if getattr(attack, "epsilon", None) is not None:  # without a budget its norm says nothing to a visitor
            usual |= {"norm": attack.norm, "epsilon": _radii(name)}
        offered.append({"name": name, "usual": {key: value for key, value in usual.items() if value is not None}})
    return offered


def _radii(name: str) -> dict[str, float]:
    """The usual epsilon of an attack in grey levels of 255, for every norm that it is defined for."""
    radii = {}
    for norm in NORMS:
        with suppress(GauntletError):
            radii[norm] = round(255 * attacks.build(name, norm=norm).epsilon, 6)
    return radii


def _corruptions() -> list[dict[str, Any]]:
    """The corruptions that need nothing but the image, by group."""
    unable = () if find_spec("av") else corruptions.VIDEO  # they need PyAV
    groups: dict[str, list[str]] = {}
    for name, corruption in corruptions.registry.items():
        if not corruption.needs_depth and name not in unable:
            groups.setdefault(corruption.group, []).append(name)
    return [{"group": group, "names": names} for group, names in groups.items()]
