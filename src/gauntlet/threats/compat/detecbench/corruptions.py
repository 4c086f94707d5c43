"""Common corruptions as DetecBench names them. Boxes stay where they are, also under a geometric corruption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gauntlet.errors import unknown_name
from gauntlet.threats.compat.semsegbench import describe_corruption
from gauntlet.threats.corruptions import COMMON, COMMON_3D, VIDEO, names, registry
from gauntlet.threats.kinds.corruption import CorruptionThreat

ALL = "all"
PREFIX_3D = "cc3d_"
"""With it the paper prints names of corruptions in 3D ('cc3d_near_focus'); its list has them without."""


def CommonCorruption(name: str, severity: int = 3) -> Any:
    """One of the fifteen corruptions in 2D, at severity 1 to 5; for "all" the list of every one of them.

    The paper's spellings (frosted_glass_blur, elastic, jpeg) are understood; a name with `cc3d_` is one in 3D.
    """
    if name.startswith(PREFIX_3D):
        return CommonCorruption3d(name, severity)
    return _named(name, severity, "common corruption", COMMON, COMMON)


def CommonCorruption3d(name: str, severity: int = 3) -> Any:
    """One of the corruptions in 3D, at severity 1 to 5; for "all" the list of GAM's eight. Some need depth.

    The benchmark's images are made with estimated depth, so this is how depth is read.
    """
    known = [*names("3d"), *VIDEO]
    return _named(name.removeprefix(PREFIX_3D), severity, "3D common corruption", known, COMMON_3D)


def AllCommonCorruptions(severity: int = 3) -> list[CorruptionThreat]:
    """All fifteen corruptions in 2D."""
    return [_threat(each, severity) for each in COMMON]


def AllCommonCorruptions3d(severity: int = 3) -> list[CorruptionThreat]:
    """All eight corruptions in 3D that GAM counts."""
    return [_threat(each, severity) for each in COMMON_3D]


def _named(
    name: str, severity: int, kind: str, known: Sequence[str], family: Sequence[str]
) -> CorruptionThreat | list[CorruptionThreat]:
    if name == ALL:
        return [_threat(each, severity) for each in family]
    canonical = registry.canonical(name) if name in registry else name
    if canonical not in known:
        raise unknown_name(kind, name, known)
    return _threat(canonical, severity)


def _threat(name: str, severity: int) -> CorruptionThreat:
    return CorruptionThreat(describe_corruption(name, severity)["corruption"])
