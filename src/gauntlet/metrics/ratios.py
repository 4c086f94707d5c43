"""Quotients of figures: IoU ratio, corruption error, relative corruption error (docs/specs/metrics.md, 4)."""

from __future__ import annotations

from gauntlet.metrics.segmentation.figures import divide


def iou_ratio(attacked: float, clean: float) -> float:
    """CmIoU under a threat over the clean CmIoU of the same model (Arnab et al.); NaN when the clean one is 0."""
    return float(divide(attacked, clean))


def corruption_error(accuracy: float, base: float) -> float:
    """CE = (A_base - A) / A_base; negative when the corrupted accuracy is higher, NaN when the base is 0.

    With the model's own clean accuracy in the same region as the base this is the relative corruption error RCE.
    Average accuracies over images and corruptions first, then form the quotient.
    """
    return float(divide(base - accuracy, base))
