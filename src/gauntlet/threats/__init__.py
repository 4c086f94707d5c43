"""Threats: what happens to an image before the model sees it."""

from gauntlet.threats import attack as _attack  # noqa: F401 - registers itself
from gauntlet.threats.build import build_threat
from gauntlet.threats.contract import Candidate, Perturbed, Threat, threats

__all__ = ["Candidate", "Perturbed", "Threat", "build_threat", "threats"]
