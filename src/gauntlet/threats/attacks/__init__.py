"""Attacks on segmentation models: one engine, a loss per pixel x a step rule x a constraint x a schedule."""

from __future__ import annotations

from gauntlet.threats.attacks.checks import Finding, check_attack
from gauntlet.threats.attacks.combined.battery import Battery, BatteryOutcome, build_battery
from gauntlet.threats.attacks.combined.region_aware import RegionAware
from gauntlet.threats.attacks.engine.contract import Attack, attacks, register
from gauntlet.threats.attacks.engine.losses import PixelLoss, losses
from gauntlet.threats.attacks.engine.outcome import Outcome, Queries
from gauntlet.threats.attacks.engine.randomised import straight_through
from gauntlet.threats.attacks.presets import batteries, build, names

__all__ = [
    "Attack",
    "Battery",
    "BatteryOutcome",
    "Finding",
    "Outcome",
    "PixelLoss",
    "Queries",
    "RegionAware",
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
