"""Metrics: counts per image, figures from counts."""

from gauntlet.metrics.contract import Figure, Metric
from gauntlet.metrics.detection.metric import DetectionMetric
from gauntlet.metrics.segmentation.metric import DensePrediction, SegmentationMetric

METRICS: dict[str, type[SegmentationMetric] | type[DetectionMetric]] = {
    "segmentation": SegmentationMetric,
    "detection": DetectionMetric,
}
"""The metric of every task."""

__all__ = ["METRICS", "DensePrediction", "DetectionMetric", "Figure", "Metric", "SegmentationMetric"]
