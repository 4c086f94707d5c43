"""Common corruptions of images: `corrupt(image, "fog", severity=3, seed=0)`."""

from gauntlet.threats.corruptions.api import SEVERITIES, corrupt, names
from gauntlet.threats.corruptions.catalogue import (
    C_BAR,
    COMMON,
    COMMON_3D,
    EXTRA,
    VIDEO,
    Corruption,
    register,
    registry,
)
from gauntlet.threats.corruptions.sheet import contact_sheet
from gauntlet.threats.corruptions.writing import WrittenCopy, write_corrupted

__all__ = [
    "COMMON",
    "COMMON_3D",
    "C_BAR",
    "EXTRA",
    "SEVERITIES",
    "VIDEO",
    "Corruption",
    "WrittenCopy",
    "contact_sheet",
    "corrupt",
    "names",
    "register",
    "registry",
    "write_corrupted",
]
