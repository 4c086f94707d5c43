"""Objects of a label map and how much of each is right, for size bias; kept on request (docs/specs/metrics.md, 9)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import BoolArray

_HEADER = struct.Struct("<III")  # views, objects, pixels of the image


@dataclass(frozen=True)
class ObjectCounts:
    """The n objects of one image in V views: 8-connected components of one class of the ground truth.

    Attributes:
        classes: (n,) int64.
        area: (n,) int64, pixels.
        right: (V, n) int64, pixels that are right; 0 in a view that was skipped.
        pixels: of the image, void ones too.
    """

    classes: npt.NDArray[np.int64]
    area: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    pixels: int

    @classmethod
    def stack(cls, parts: Sequence[ObjectCounts | None], views: Sequence[int]) -> ObjectCounts | None:
        """The views of several counts of one image; None where none has objects.

        Args:
            parts: counts, None for those of skipped views.
            views: how many views each has.
        """
        known = next((each for each in parts if each is not None), None)
        if known is None:
            return None
        rows = [
            np.zeros((count, len(known.area)), np.int64) if each is None else each.right
            for each, count in zip(parts, views, strict=True)
        ]
        return cls(known.classes, known.area, np.concatenate(rows), known.pixels)

    def to_bytes(self) -> bytes:
        """Six bytes an object, and four for every view, before they are deflated."""
        parts = (self.classes.astype("<u2"), self.area.astype("<u4"), self.right.astype("<u4"))
        return _HEADER.pack(*self.right.shape, self.pixels) + b"".join(each.tobytes() for each in parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> ObjectCounts:
        """What `to_bytes` wrote."""
        views, count, pixels = _HEADER.unpack_from(data)
        at = _HEADER.size
        classes = np.frombuffer(data, "<u2", count, at).astype(np.int64)
        area = np.frombuffer(data, "<u4", count, at + 2 * count).astype(np.int64)
        right = np.frombuffer(data, "<u4", views * count, at + 6 * count).astype(np.int64).reshape(views, count)
        return cls(classes, area, right, pixels)


def count_objects(
    labels: npt.NDArray[np.integer],
    right: Sequence[BoolArray],
    *,
    skipped: Sequence[int] = (),
) -> ObjectCounts:
    """Finds the objects of a label map, class by class, and counts their right pixels.

    Args:
        labels: (H, W) ground truth.
        right: for every view (H, W), where it is right.
        skipped: labels that are no objects: the ignored one, the background.
    """
    classes: list[int] = []
    areas, rights = [np.zeros(0, np.int64)], [np.zeros((len(right), 0), np.int64)]
    for index in np.unique(labels).tolist():
        if index in skipped:
            continue
        mask = labels == index
        count, components = cv2.connectedComponents(mask.astype(np.uint8), connectivity=8)
        inside = components[mask]
        classes += [index] * (count - 1)
        areas.append(np.bincount(inside, minlength=count)[1:])
        rights.append(np.stack([np.bincount(inside[each[mask]], minlength=count)[1:] for each in right]))
    found = np.concatenate(areas), np.concatenate(rights, axis=1)
    return ObjectCounts(np.array(classes, np.int64), *found, labels.size)
