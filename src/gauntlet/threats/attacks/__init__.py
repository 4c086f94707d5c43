"""Attacks on segmentation models: one engine, a loss per pixel x a step rule x a constraint x a schedule."""

from __future__ import annotations

from gauntlet.threats.attacks.attack import Attack, attacks
from gauntlet.threats.attacks.catalogue import batteries, build, names
from gauntlet.threats.attacks.outcome import Outcome, Queries

__all__ = ["Attack", "Outcome", "Queries", "attacks", "batteries", "build", "names"]
