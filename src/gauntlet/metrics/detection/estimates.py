"""Average precision as an estimate over images: what its intervals and paired differences come from."""

from __future__ import annotations

from collections.abc import Sequence

from gauntlet.metrics.arithmetic import FloatArray
from gauntlet.metrics.detection.coco_figures import MOST_DETECTIONS, THRESHOLDS
from gauntlet.metrics.detection.table import ObjectTable, WeightedPrecision
from gauntlet.metrics.intervals import Estimate, count_without, mean_of_parts
from gauntlet.samples import Boxes


def average_precision(truths: Sequence[Boxes], detections: Sequence[Boxes], num_classes: int) -> dict[str, Estimate]:
    """mAP, mAP50 and mAP75 of N images; detections are matched once, then counted without each image.

    Args:
        truths, detections: of every image.
        num_classes: K.
    """
    table = ObjectTable.of(truths, detections, num_classes)
    present = table.counted.any(axis=0)
    precision = WeightedPrecision(table, THRESHOLDS, MOST_DETECTIONS[-1])

    def of_classes(weights: FloatArray) -> FloatArray:
        return precision(weights)[:, :, present]

    average = count_without(of_classes, len(truths))  # (1 + G, T, K)
    chosen = {"mAP": average.mean(axis=1)} | {
        f"mAP{100 * level:.0f}": average[:, THRESHOLDS.index(level)] for level in (0.5, 0.75)
    }
    return {name: mean_of_parts(values, table.counted[:, present]) for name, values in chosen.items()}
