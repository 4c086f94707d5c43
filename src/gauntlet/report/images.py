"""Per-image counts of an evaluation, read once and kept as a few arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gauntlet.errors import GauntletError
from gauntlet.metrics import worst_case
from gauntlet.metrics.counts import CountTable, ImageCounts
from gauntlet.metrics.dense import REGION, WHOLE
from gauntlet.metrics.segmentation import FloatArray, image_accuracy, image_iou
from gauntlet.results import Store

_PARTS = ("true_positives", "ground_truth", "predicted")


@dataclass(frozen=True)
class Images:
    """The images of one segmentation evaluation.

    Attributes:
        ids: N image ids, in the order of the dataset.
        views: the views of the counts.
        tables: one table of N images per view.
        details: what the threat reported about every image.
    """

    ids: Sequence[str]
    views: Sequence[str]
    tables: Sequence[CountTable]
    details: Sequence[Mapping[str, Any]]

    @cached_property
    def headline(self) -> CountTable:
        """The counts behind the headline mIoU: the whole image, of a battery the worst attack of every image."""
        if tuple(self.views) == WHOLE:
            return self.tables[0]
        if tuple(self.views[: len(REGION)]) == REGION:
            inside, outside = self.tables[:2]
            return CountTable(*(getattr(inside, name) + getattr(outside, name) for name in _PARTS))
        return worst_case.chosen(self.tables, worst_case.worst_by_image_iou(self.tables).choice)

    @cached_property
    def miou(self) -> FloatArray:
        """(N,) mIoU of every image, NaN where nothing is labelled."""
        return image_iou(self.headline)

    def same_images(self, other: Images) -> bool:
        """Whether two or more images were counted, the same ones with the same labels, so that pairs can be tested."""
        return (
            len(self.ids) > 1
            and list(self.ids) == list(other.ids)
            and np.array_equal(self.headline.ground_truth, other.headline.ground_truth)
        )

    def frame(self) -> pd.DataFrame:
        """image_id, view ("all"), mIoU and accuracy of every image, with what the threat reported."""
        figures = {
            "image_id": list(self.ids),
            "view": "all",
            "mIoU": self.miou,
            "accuracy": image_accuracy(self.headline),
        }
        return pd.DataFrame(figures).join(pd.DataFrame(list(self.details)))

    def detail(self, name: str) -> FloatArray:
        """(N,) numbers that the threat reported under a name, NaN where it did not."""
        values = [each.get(name) for each in self.details]
        return np.array([np.nan if value is None else value for value in values], np.float64)


def read_images(store: Store, key: str) -> Images | None:
    """The images of a finished segmentation evaluation; None where the store has figures but no counts."""
    started = store.started(key)
    if started is None:
        raise GauntletError(f"the store {store.address} has no evaluation with the key '{key}'.")
    ids: list[str] = []
    rows: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    details: list[Any] = []
    for row in store.image_rows(started):
        confusion = ImageCounts.from_bytes(row.counts).confusion  # (V, K, K)
        diagonal = confusion.diagonal(axis1=1, axis2=2)
        rows.append(np.stack([diagonal, confusion.sum(axis=2), confusion.sum(axis=1)], axis=1))  # (V, 3, K)
        ids.append(row.image_id)
        details.append(row.details)
    if not rows or started.views is None:
        return None
    stacked = np.stack(rows)  # (N, V, 3, K)
    tables = [CountTable(*(stacked[:, view, part] for part in range(3))) for view in range(len(started.views))]
    return Images(ids, started.views, tables, details)
