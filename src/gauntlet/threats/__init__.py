"""Threats: what happens to an image before the model sees it."""

from gauntlet.threats.build import build_threat, build_threats, rebuild_threat
from gauntlet.threats.contract import Candidate, Perturbed, Threat, threats
from gauntlet.threats.kinds import attack as _attack  # noqa: F401 - these register themselves
from gauntlet.threats.kinds import certify as _certify  # noqa: F401
from gauntlet.threats.kinds import corruption as _corruption  # noqa: F401
from gauntlet.threats.kinds import geometric as _geometric  # noqa: F401
from gauntlet.threats.kinds import geometric_worst as _geometric_worst  # noqa: F401
from gauntlet.threats.kinds import localized as _localized  # noqa: F401
from gauntlet.threats.kinds import patch as _patch  # noqa: F401
from gauntlet.threats.kinds import transfer as _transfer  # noqa: F401
from gauntlet.threats.kinds import universal as _universal  # noqa: F401
from gauntlet.threats.passes import Passes

__all__ = [
    "Candidate",
    "Passes",
    "Perturbed",
    "Threat",
    "build_threat",
    "build_threats",
    "rebuild_threat",
    "threats",
]
