"""Label maps and their figures per image: what worst cases are chosen by."""

from __future__ import annotations

import torch

from gauntlet.errors import NotFiniteError
from gauntlet.metrics.segmentation import figures
from gauntlet.metrics.segmentation.counts import CountTable


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
            raise NotFiniteError("the model returned NaN logits; check the model and its precision.")
        result[row] = classes - ((part == largest) * falling).amax(1).long()
    return result


def least_likely(logits: torch.Tensor) -> torch.Tensor:
    """The least likely class of every pixel that the model does not rule out by -inf, int64 (N, H, W)."""
    lowest = logits.argmin(1)
    if bool((logits.gather(1, lowest.unsqueeze(1)) == -torch.inf).any()):
        lowest = logits.masked_fill(logits == -torch.inf, torch.inf).argmin(1)
    return lowest


def image_figures(
    predictions: torch.Tensor, labels: torch.Tensor, counted: torch.Tensor, classes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Pixel accuracy and mIoU of every image, float64 (N,) on the CPU each; NaN where no pixel counts.

    They are the segmentation metric's figures of an image; only the pixels are counted here, on their device.

    Args:
        predictions: int64 (N, H, W).
        labels: int64 (N, H, W) in 0..K-1 wherever counted.
        counted: bool (N, H, W).
        classes: K.
    """

    def count(values: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        result = torch.zeros(len(values), classes, dtype=torch.int64, device=values.device)
        return result.scatter_add_(1, values.clamp(0, classes - 1).flatten(1), where.flatten(1).long())  # (N, K)

    counts = (count(labels, counted & (predictions == labels)), count(labels, counted), count(predictions, counted))
    table = CountTable(*(each.cpu().numpy() for each in counts))
    return torch.from_numpy(figures.image_accuracy(table)), torch.from_numpy(figures.image_iou(table))
