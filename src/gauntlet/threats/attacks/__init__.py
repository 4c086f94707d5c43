"""Attacks on segmentation models: one engine, a loss per pixel x a step rule x a constraint x a schedule."""

from __future__ import annotations

from gauntlet.threats.attacks.checks import Suspicion, check_attack
from gauntlet.threats.attacks.combined.battery import Battery
from gauntlet.threats.attacks.combined.battery_outcome import BatteryOutcome
from gauntlet.threats.attacks.combined.members import build_battery
from gauntlet.threats.attacks.combined.region_aware import RegionAware
from gauntlet.threats.attacks.engine.contract import Attack
from gauntlet.threats.attacks.engine.losses import PixelLoss, losses
from gauntlet.threats.attacks.engine.outcome import Outcome, Queries
from gauntlet.threats.attacks.engine.registration import attacks, register
from gauntlet.threats.attacks.engine.straight_through import straight_through
from gauntlet.threats.attacks.presets import batteries, build, names

__all__ = [
    "Attack",
    "Battery",
    "BatteryOutcome",
    "Outcome",
    "PixelLoss",
    "Queries",
    "RegionAware",
    "Suspicion",
    "attacks",
    "batteries",
    "build",
    "build_battery",
    "check_attack",
    "losses",
    "names",
    "register",
    "straight_through",
]
