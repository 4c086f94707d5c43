"""Worst case over attacks of a segmentation model, per image and per metric (docs/specs/metrics.md, 7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gauntlet.metrics.segmentation.counts import CountTable, Int64Array
from gauntlet.metrics.segmentation.figures import image_accuracy, image_iou, mean_iou
from gauntlet.metrics.selection import Choice, Selection, select

_STRICT = 1e-12
_MAX_ROUNDS = 1000


def chosen(tables: Sequence[CountTable], choice: Choice) -> CountTable:
    """The counts of the chosen candidate of every image.

    Args:
        tables: A tables of counts over the same N images.
        choice: (N,) index of the candidate.
    """
    return CountTable(*_stacked(tables)[:, choice, np.arange(len(choice))])


def worst_by_accuracy(tables: Sequence[CountTable]) -> Selection:
    """Chooses by the accuracy of the image; its image mean is SEA's worst-case aAcc."""
    return select(np.stack([image_accuracy(table) for table in tables]))


def worst_by_image_iou(tables: Sequence[CountTable]) -> Selection:
    """Chooses by the mean IoU of the image, for NmIoU and CmIoU (Halmosi et al.)."""
    return select(np.stack([image_iou(table) for table in tables]))


def freeze_floor(tables: Sequence[CountTable]) -> list[CountTable]:
    """Gives every candidate after the first one that leaves no pixel right the counts of that one.

    A battery may skip an image once nothing can lower its figure. With the later candidates frozen, a figure over
    all candidates is the same whether they were skipped or run.
    """
    stacked = _stacked(tables)  # (3, A, N, K)
    true_positives, ground_truth = stacked[0].sum(axis=2), stacked[1].sum(axis=2)  # (A, N)
    floored = (true_positives == 0) & (ground_truth > 0)
    first = np.where(floored.any(axis=0), floored.argmax(axis=0), len(tables))
    source = np.minimum(np.arange(len(tables))[:, None], first)  # (A, N)
    images = np.arange(source.shape[1])
    return [CountTable(*stacked[:, row, images]) for row in source]


def _stacked(tables: Sequence[CountTable]) -> Int64Array:
    """(3, A, N, K): true positives, ground truth and predicted pixels of A candidates."""
    return np.stack([[each.true_positives, each.ground_truth, each.predicted] for each in tables], axis=1)


def greedy_cmiou(tables: Sequence[CountTable], seed: int = 0) -> tuple[float, Choice]:
    """The smallest dataset mIoU that coordinate descent over images finds (SEA, with its comparison corrected).

    Visits the images in random order and gives each the candidate that lowers the dataset mIoU most, until a round
    changes nothing. Started from the first candidate, from the choice by accuracy, from the choice by image IoU, and
    from the best single candidate, so that the result is never above any of them; the smallest one is kept.

    Args:
        tables: A tables of counts over the same N images.
        seed: of the visiting order.

    Returns:
        The mIoU and the (N,) choice.
    """
    true_positives = np.stack([table.true_positives for table in tables])  # (A, N, K)
    union = np.stack([table.union for table in tables])
    alone = mean_iou(true_positives.sum(axis=1), union.sum(axis=1))  # (A,)
    best = int(np.argmin(np.where(np.isnan(alone), np.inf, alone)))
    images = true_positives.shape[1]
    starts = [
        np.zeros(images, np.intp),
        np.full(images, best, np.intp),
        worst_by_accuracy(tables).choice,
        worst_by_image_iou(tables).choice,
    ]
    results = [_descend(true_positives, union, start, np.random.default_rng(seed)) for start in starts]
    return min(results, key=lambda result: result[0])


def _descend(
    true_positives: Int64Array, union: Int64Array, start: Choice, generator: np.random.Generator
) -> tuple[float, Choice]:
    choice = start.copy()
    images = np.arange(len(choice))
    total_hits = true_positives[choice, images].sum(axis=0)
    total_union = union[choice, images].sum(axis=0)
    value = float(mean_iou(total_hits, total_union))
    for _ in range(_MAX_ROUNDS):
        improved = False
        for image in generator.permutation(len(choice)):
            hits = total_hits - true_positives[choice[image], image] + true_positives[:, image]  # (A, K)
            unions = total_union - union[choice[image], image] + union[:, image]
            values = mean_iou(hits, unions)  # (A,)
            best = int(np.argmin(np.where(np.isnan(values), np.inf, values)))
            if values[best] < value - _STRICT:
                value, choice[image], improved = float(values[best]), best, True
                total_hits, total_union = hits[best], unions[best]
        if not improved:
            break
    return value, choice
