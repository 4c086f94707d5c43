"""Common corruptions as DetecBench names them. Boxes stay where they are, also under a geometric corruption."""

from __future__ import annotations

from gauntlet.errors import unknown_name
from gauntlet.threats.corruptions import COMMON, COMMON_3D, names, registry
from gauntlet.threats.kinds.corruption import CorruptionThreat


def CommonCorruption(name: str, severity: int = 3) -> CorruptionThreat:
    """One of the fifteen corruptions in 2D, at severity 1 to 5."""
    if name not in COMMON:
        raise unknown_name("common corruption", name, COMMON)
    return CorruptionThreat({"name": name, "severity": severity})


def CommonCorruption3d(name: str, severity: int = 3) -> CorruptionThreat:
    """One of the corruptions in 3D, at severity 1 to 5; needs a dataset with depth where the corruption does.

    The benchmark's images are made with estimated depth, so this is how depth is read.
    """
    if name not in names("3d"):
        raise unknown_name("3D common corruption", name, names("3d"))
    depth = {"depth_rule": "estimated"} if registry[name].needs_depth else {}
    return CorruptionThreat({"name": name, "severity": severity, **depth})


def AllCommonCorruptions(severity: int = 3) -> list[CorruptionThreat]:
    """All fifteen corruptions in 2D."""
    return [CommonCorruption(name, severity) for name in COMMON]


def AllCommonCorruptions3d(severity: int = 3) -> list[CorruptionThreat]:
    """All eight corruptions in 3D that GAM counts."""
    return [CommonCorruption3d(name, severity) for name in COMMON_3D]
