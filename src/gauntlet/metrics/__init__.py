"""Metrics: counts per image, figures from counts."""

from gauntlet.metrics.contract import Figure, Metric
from gauntlet.metrics.detection.metric import DetectionMetric
from gauntlet.metrics.segmentation.metric import DensePrediction, SegmentationMetric
from gauntlet.registry import Registry, subclass_of

METRICS: dict[str, type[SegmentationMetric] | type[DetectionMetric]] = {
    "segmentation": SegmentationMetric,
    "detection": DetectionMetric,
}
"""The metric of every task."""

metrics: Registry[type[Metric]] = Registry("metric", "gauntlet.metrics", check=subclass_of(Metric))
"""Metrics by name."""

for _task, _metric in METRICS.items():
    metrics.add(_task, _metric)

__all__ = ["METRICS", "DensePrediction", "DetectionMetric", "Figure", "Metric", "SegmentationMetric", "metrics"]
