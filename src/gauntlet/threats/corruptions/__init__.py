"""Common corruptions of images: `corrupt(image, "fog", severity=3, seed=0)`."""

from gauntlet.threats.corruptions.api import SEVERITIES, corrupt, names
from gauntlet.threats.corruptions.catalogue import COMMON, EXTRA, Corruption, register, registry

__all__ = ["COMMON", "EXTRA", "SEVERITIES", "Corruption", "corrupt", "names", "register", "registry"]
