"""Evaluation: one model, one dataset, one threat; later many."""

from gauntlet.evaluation.evaluate import evaluate

__all__ = ["evaluate"]
