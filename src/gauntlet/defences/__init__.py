"""Defences: models around models. Every class takes a model and settings; every one is also a prefix of addresses."""

from gauntlet.defences.contract import Addressed, Defence, DefenceSettings
from gauntlet.defences.crf import Crf
from gauntlet.defences.ensemble import EnsembleModel
from gauntlet.defences.multiscale import MultiscaleModel
from gauntlet.defences.noise import NoisyModel
from gauntlet.defences.smoothed import SmoothedModel
from gauntlet.defences.transform import TransformedModel

__all__ = [
    "Addressed",
    "Crf",
    "Defence",
    "DefenceSettings",
    "EnsembleModel",
    "MultiscaleModel",
    "NoisyModel",
    "SmoothedModel",
    "TransformedModel",
]
