"""Training: clean, adversarial with any attack of the engine, divide-and-conquer; resumable to the bit."""

from __future__ import annotations

from gauntlet.training.config import TrainingConfig, load_config
from gauntlet.training.trainer import TrainingResult, train

__all__ = ["TrainingConfig", "TrainingResult", "load_config", "train"]
