"""Label maps and their counts per image: what worst cases are chosen by."""

from __future__ import annotations

import torch

from gauntlet.errors import GauntletError


def label_map(logits: torch.Tensor) -> torch.Tensor:
    """Argmax over classes, int64 (N, H, W), the lowest class of a tie; several times faster than torch's argmax.

    Args:
        logits: (N, K, H, W).
    """
    classes = logits.shape[1]
    kind = torch.uint8 if classes < 256 else torch.int32
    falling = torch.arange(classes, 0, -1, dtype=kind, device=logits.device).view(1, -1, 1, 1)
    result = torch.empty(logits[:, 0].shape, dtype=torch.int64, device=logits.device)
    for row in range(len(logits)):
        part = logits[row : row + 1]
        largest = part.amax(1, keepdim=True)
        if torch.isnan(largest).any():
            raise GauntletError("the model returned NaN logits; check the model and its precision.")
        result[row] = classes - ((part == largest) * falling).amax(1).long()
    return result


def image_figures(
    predictions: torch.Tensor, labels: torch.Tensor, counted: torch.Tensor, classes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixel accuracy and mIoU of every image, float64 (N,) each; NaN where no pixel counts.

    The mIoU of an image is the mean of TP / U over the classes with U > 0 in it (docs/specs/metrics.md, 3, NmIoU).

    Args:
        predictions: int64 (N, H, W).
        labels: int64 (N, H, W) in 0..K-1 wherever counted.
        counted: bool (N, H, W).
        classes: K.
    """

    def counts(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        result = torch.zeros(len(values), classes, dtype=torch.float64, device=values.device)
        return result.scatter_add_(1, values.clamp(0, classes - 1).flatten(1), where.flatten(1).double())

    hits = counts(labels, counted & (predictions == labels))
    union = counts(labels, counted) + counts(predictions, counted) - hits
    accuracy = hits.sum(1) / counted.flatten(1).sum(1)
    overlap = torch.where(union > 0, hits / union, torch.full_like(union, float("nan")))
    return accuracy, overlap.nanmean(1)
