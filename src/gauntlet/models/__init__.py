"""Models: contract, wrapping, loading."""

from gauntlet.models.contract import Candidates, DetectionModel, GauntletModel, ModelIdentity, SegmentationModel
from gauntlet.models.loading import load_model, resolve_model
from gauntlet.models.wrapping import wrap_model

__all__ = [
    "Candidates",
    "DetectionModel",
    "GauntletModel",
    "ModelIdentity",
    "SegmentationModel",
    "load_model",
    "resolve_model",
    "wrap_model",
]
