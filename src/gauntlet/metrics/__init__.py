"""Metrics: counts per image, figures from counts."""

from gauntlet.metrics.certification.metric import CertificationMetric
from gauntlet.metrics.contract import VERSION, Figure, Metric, build_metric, metrics
from gauntlet.metrics.detection.metric import DetectionMetric
from gauntlet.metrics.segmentation.metric import DensePrediction, SegmentationMetric
from gauntlet.metrics.views import REGION, WHOLE, ViewKind, Views

__all__ = [
    "REGION",
    "VERSION",
    "WHOLE",
    "CertificationMetric",
    "DensePrediction",
    "DetectionMetric",
    "Figure",
    "Metric",
    "SegmentationMetric",
    "ViewKind",
    "Views",
    "build_metric",
    "metrics",
]
