"""Fitting what one threat shows to all images: universal perturbations and patches (docs/specs/beyond.md, 6 and 7)."""

from gauntlet.threats.fitted.patch import PatchRule, fit_patch
from gauntlet.threats.fitted.placing import Placement
from gauntlet.threats.fitted.universal import UniversalRule, fit_universal

__all__ = ["PatchRule", "Placement", "UniversalRule", "fit_patch", "fit_universal"]
