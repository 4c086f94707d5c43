"""Worst case over attacks, per image and per metric (docs/specs/metrics.md, 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.metrics.segmentation.figures import FloatArray, divide, image_accuracy, image_iou, nan_mean

Choice = npt.NDArray[np.intp]
_STRICT = 1e-12
_MAX_ROUNDS = 1000


@dataclass(frozen=True)
class Selection:
    """Which candidate was chosen for every image, and how often each one was.

    Attributes:
        choice: (N,) index of the candidate.
        share: (A,) share of images on which a candidate was chosen; ties go to the lowest index.
        credit: (A,) the same with ties shared equally.
    """

    choice: Choice
    share: FloatArray
    credit: FloatArray


def select(values: FloatArray) -> Selection:
    """The candidate with the smallest value per image; ties go to the lowest index.

    Args:
        values: (A, N) a figure of every candidate on every image; NaN for an image that counts for nothing.
    """
    filled = np.where(np.isnan(values), np.inf, values)
    smallest = filled.min(axis=0)
    counted = np.isfinite(smallest)
    choice = filled.argmin(axis=0)
    hits = (filled == smallest) & counted
    images = max(int(counted.sum()), 1)
    first = np.arange(len(values))[:, None] == choice
    return Selection(
        choice, (first & counted).sum(axis=1) / images, (hits / np.maximum(hits.sum(axis=0), 1)).sum(axis=1) / images
    )


def chosen(tables: Sequence[CountTable], choice: Choice) -> CountTable:
    """The counts of the chosen candidate of every image."""
    images = np.arange(len(choice))
    parts = [
        np.stack([getattr(table, name) for table in tables])[choice, images]
        for name in ("true_positives", "ground_truth", "predicted")
    ]
    return CountTable(*parts)


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
    names = ("true_positives", "ground_truth", "predicted")
    stacked = {name: np.stack([getattr(table, name) for table in tables]) for name in names}  # (A, N, K)
    floored = (stacked["true_positives"].sum(axis=2) == 0) & (stacked["ground_truth"].sum(axis=2) > 0)  # (A, N)
    first = np.where(floored.any(axis=0), floored.argmax(axis=0), len(tables))
    source = np.minimum(np.arange(len(tables))[:, None], first)  # (A, N)
    images = np.arange(source.shape[1])
    return [CountTable(*(stacked[name][row, images] for name in names)) for row in source]


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
    alone = nan_mean(divide(true_positives.sum(axis=1), union.sum(axis=1)), axis=1)  # (A,)
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
    true_positives: npt.NDArray[np.int64], union: npt.NDArray[np.int64], start: Choice, generator: np.random.Generator
) -> tuple[float, Choice]:
    choice = start.copy()
    images = np.arange(len(choice))
    total_hits = true_positives[choice, images].sum(axis=0)
    total_union = union[choice, images].sum(axis=0)
    value = float(nan_mean(divide(total_hits, total_union)))
    for _ in range(_MAX_ROUNDS):
        improved = False
        for image in generator.permutation(len(choice)):
            hits = total_hits - true_positives[choice[image], image] + true_positives[:, image]  # (A, K)
            unions = total_union - union[choice[image], image] + union[:, image]
            values = nan_mean(divide(hits, unions), axis=1)
            best = int(np.argmin(np.where(np.isnan(values), np.inf, values)))
            if values[best] < value - _STRICT:
                value, choice[image], improved = float(values[best]), best, True
                total_hits, total_union = hits[best], unions[best]
        if not improved:
            break
    return value, choice
