"""Common corruptions as DetecBench names them. Boxes stay where they are, also under a geometric corruption."""

from __future__ import annotations

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.threats.corruption import CorruptionThreat
from gauntlet.threats.corruptions import COMMON, registry
from gauntlet.threats.suites import SOLID


def CommonCorruption(name: str, severity: int = 3) -> CorruptionThreat:
    """One of the fifteen corruptions in 2D, at severity 1 to 5."""
    if name not in COMMON:
        raise unknown_name("common corruption", name, COMMON)
    return CorruptionThreat({"name": name, "severity": severity})


def CommonCorruption3d(name: str, severity: int = 3) -> CorruptionThreat:
    """One of the corruptions in 3D, at severity 1 to 5; needs a dataset with depth where the corruption does."""
    if name not in SOLID:
        raise unknown_name("3D common corruption", name, SOLID)
    if name not in registry:
        raise GauntletError(f"the 3D corruption '{name}' is not part of this version; 'gauntlet list corruptions'.")
    return CorruptionThreat({"name": name, "severity": severity})


def AllCommonCorruptions(severity: int = 3) -> list[CorruptionThreat]:
    """All fifteen corruptions in 2D."""
    return [CommonCorruption(name, severity) for name in COMMON]
