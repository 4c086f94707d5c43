"""Metrics: counts per image, figures from counts."""

from gauntlet.metrics.boxes import DetectionMetric
from gauntlet.metrics.contract import Figure, Metric
from gauntlet.metrics.dense import DensePrediction, SegmentationMetric

METRICS: dict[str, type[SegmentationMetric] | type[DetectionMetric]] = {
    "segmentation": SegmentationMetric,
    "detection": DetectionMetric,
}
"""The metric of every task."""

__all__ = ["METRICS", "DensePrediction", "DetectionMetric", "Figure", "Metric", "SegmentationMetric"]
