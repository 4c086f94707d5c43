"""Evaluation: models on datasets under threats, and what can be certified of them."""

from gauntlet.evaluation.certification import certify
from gauntlet.evaluation.evaluate import evaluate

__all__ = ["certify", "evaluate"]
