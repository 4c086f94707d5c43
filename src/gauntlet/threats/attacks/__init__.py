"""Attacks on segmentation models: one engine, a loss per pixel x a step rule x a constraint x a schedule."""

from __future__ import annotations

from gauntlet.threats.attacks.attack import Attack, attacks, register
from gauntlet.threats.attacks.battery import Battery, BatteryOutcome, build_battery
from gauntlet.threats.attacks.catalogue import batteries, build, names
from gauntlet.threats.attacks.honesty import Finding, check_attack
from gauntlet.threats.attacks.losses import PixelLoss, losses
from gauntlet.threats.attacks.outcome import Outcome, Queries
from gauntlet.threats.attacks.randomised import straight_through
from gauntlet.threats.attacks.region_aware import RegionAware

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
