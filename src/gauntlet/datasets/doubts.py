"""Doubts about labels: counts of pixels that a wrong reading of masks would give as well."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.datasets.contract import Dataset

MUCH_VOID = 0.25
"""Share of pixels that count for nothing above which their number is doubted."""
FEW_CLASSES = 1 / 3
"""Share of the classes that occur below which the class file is doubted."""
LOOKED_AT = 8
"""Images that are looked at before a run."""
PATIENCE = 2.0
"""Seconds after which no further image is looked at before a run."""
_OF_THE_USER = ("folder", "hf")


@dataclass
class PixelCounts:
    """Pixels of label maps by class.

    Attributes:
        classes: (K,) pixels of every class.
        void: pixels that count for nothing.
        images: label maps that were counted.
    """

    classes: npt.NDArray[np.int64]
    void: int = 0
    images: int = 0

    @classmethod
    def none(cls, dataset: Dataset) -> PixelCounts:
        """Counts of no image of a dataset."""
        return cls(np.zeros(dataset.num_classes, dtype=np.int64))

    def add(self, labels: npt.NDArray[Any], ignore_index: int | None) -> None:
        """Count a label map (H, W)."""
        count = len(self.classes)
        inside = labels[(labels >= 0) & (labels < count)].astype(np.int64)
        counts = np.bincount(inside, minlength=count)
        if ignore_index is not None and 0 <= ignore_index < count:
            counts[ignore_index] = 0
        self.classes += counts
        self.void += labels.size - int(counts.sum())
        self.images += 1

    @property
    def total(self) -> int:
        """All pixels, void ones too."""
        return int(self.classes.sum()) + self.void


def label_doubts(dataset: Dataset, counts: PixelCounts) -> list[str]:
    """Sentences on labels that may have been read wrongly, each with both readings and the option that settles it.

    Args:
        dataset: whose labels were counted.
        counts: of all its images or of some.
    """
    if not counts.images or not counts.total:
        return []
    names, void = dataset.class_names, f"the label {dataset.ignore_index}"
    source = dataset.name.partition(":")[0]
    binary = ", or binary=True for masks of 0 and 255" if source == "folder" else ""
    found = np.flatnonzero(counts.classes)
    doubts = []
    if len(names) == 1:
        doubts.append(
            f"'{names[0]}' is the only class, so that every prediction is right: name the other classes too{binary}"
        )
    elif len(found) == 1:
        doubts.append(
            f"all pixels that count are of the class '{names[found[0]]}', so that this one answer is right everywhere: "
            f"either the other classes are rare, or {void} is one of them and counts for nothing (give another "
            f"ignore_index{binary})"
        )
    if counts.void > MUCH_VOID * counts.total:
        doubts.append(
            f"{counts.void / counts.total:.0%} of the pixels count for nothing: either they are void, or {void} is a "
            f"class (give another ignore_index{binary})"
        )
    if source in _OF_THE_USER and 1 < len(found) < FEW_CLASSES * len(names):
        listed = ", ".join(f"'{names[index]}'" for index in found[:4])
        doubts.append(
            f"only {len(found)} of {len(names)} classes occur ({listed}): either the others are rare, or masks hold "
            "other numbers than the class file (classes=..., or colours in the class file)"
        )
    return doubts


def sample_doubts(dataset: Dataset) -> list[str]:
    """Doubts about the labels of a dataset after a look at a few images, for at most a few seconds."""
    if not dataset.class_names or dataset.name == "streets":  # whose labels are drawn with the images
        return []
    counts = PixelCounts.none(dataset)
    end = time.monotonic() + PATIENCE
    for index in spread(len(dataset), LOOKED_AT):
        try:
            labels = dataset[index].labels
        except Exception:  # nosec B112 # the user's code and files may fail in any way; the run tells it, with the image
            continue
        if labels is None:
            return []
        counts.add(labels, dataset.ignore_index)
        if time.monotonic() > end:
            break
    return label_doubts(dataset, counts)


def spread(length: int, count: int) -> Sequence[int]:
    """At most `count` positions at equal distances in a list of a length.

    >>> spread(10, 4)
    [0, 2, 5, 7]
    """
    count = min(count, length)
    return [index * length // count for index in range(count)]
