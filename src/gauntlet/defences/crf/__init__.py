"""A fully connected CRF behind a model: mean field with Gaussian kernels, as in DenseCRF, DeepLab and CRF-RNN."""

from gauntlet.defences.contract import Addressed
from gauntlet.defences.crf.model import Crf
from gauntlet.defences.crf.settings import PRESETS, CrfSettings

__all__ = ["PRESETS", "Crf", "CrfSettings", "source"]

source = Addressed(Crf)
