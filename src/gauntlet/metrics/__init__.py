"""Metrics: counts per image, figures from counts."""

from gauntlet.metrics.contract import Figure, Metric
from gauntlet.metrics.dense import DensePrediction, SegmentationMetric

__all__ = ["DensePrediction", "Figure", "Metric", "SegmentationMetric"]
