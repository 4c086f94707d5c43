"""Per-image counts: what is kept of every image, enough for any figure without running the model again."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.metrics.segmentation.confidence_counts import ConfidenceCounts
from gauntlet.metrics.segmentation.object_counts import ObjectCounts

Int64Array = npt.NDArray[np.int64]
_HEADER = struct.Struct("<4sIIII")
_MAGIC = b"GCN1"
_SECTION = struct.Struct("<4sI")  # what follows the scalars: name, length; versions that know no section skip it
_CONFIDENCE, _COARSE_CONFIDENCE, _OBJECTS = b"CNF2", b"CONF", b"OBJS"  # the second: 256 bins, of older versions
SCALARS = ("confidence", "entropy", "importance_correct", "importance_total")


@dataclass(frozen=True)
class ImageCounts:
    """What was counted on one image, in V views (the whole image; inside and outside a region; one per attack).

    Attributes:
        confusion: (V, K, K) int64, ground truth in rows, ignored pixels left out.
        scalars: (V, 4) float64, sums over the valid pixels of a view: largest class probability, entropy in nats,
            importance weight of the right pixels, importance weight of all pixels; NaN where not measured.
        confidence: histograms of confidence and correctness; None where none were kept (version 0.1.0, or label maps
            that a threat made).
        objects: the objects of the image and how much of each is right; None unless asked for.
    """

    confusion: Int64Array
    scalars: npt.NDArray[np.float64]
    confidence: ConfidenceCounts | None = None
    objects: ObjectCounts | None = None

    def __post_init__(self) -> None:
        views = self.confusion.shape[0]
        if self.scalars.shape != (views, len(SCALARS)):
            raise GauntletError(f"scalars of {views} views must have the shape ({views}, {len(SCALARS)}).")

    def to_bytes(self) -> bytes:
        """A compact, exact form for the store: the non-zero cells, deflated."""
        views, classes, _ = self.confusion.shape
        flat = self.confusion.reshape(-1)
        cells = np.flatnonzero(flat)
        payload = cells.astype("<u4").tobytes() + flat[cells].astype("<u8").tobytes()
        payload += np.ascontiguousarray(self.scalars, dtype="<f8").tobytes()
        for name, part in ((_CONFIDENCE, self.confidence), (_OBJECTS, self.objects)):
            if part is not None:
                section = part.to_bytes()
                payload += _SECTION.pack(name, len(section)) + section
        return _HEADER.pack(_MAGIC, views, classes, len(cells), len(SCALARS)) + zlib.compress(payload, 6)

    @classmethod
    def from_bytes(cls, data: bytes) -> ImageCounts:
        """The counts that `to_bytes` wrote."""
        magic, views, classes, cells, scalars = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise GauntletError(
                "these counts were not written by Gauntlet, or by a newer version; upgrade the package."
            )
        payload = zlib.decompress(data[_HEADER.size :])
        index = np.frombuffer(payload, "<u4", cells)
        values = np.frombuffer(payload, "<u8", cells, 4 * cells)
        confusion = np.zeros(views * classes * classes, dtype=np.int64)
        confusion[index] = values.astype(np.int64)
        rest = np.frombuffer(payload, "<f8", views * scalars, 12 * cells).reshape(views, scalars)
        sections = _read_sections(payload[12 * cells + 8 * views * scalars :])
        coarse = _CONFIDENCE not in sections
        confidence, objects = sections.get(_COARSE_CONFIDENCE if coarse else _CONFIDENCE), sections.get(_OBJECTS)
        return cls(
            confusion.reshape(views, classes, classes),
            rest.astype(np.float64),
            None if confidence is None else ConfidenceCounts.from_bytes(confidence, coarse=coarse),
            None if objects is None else ObjectCounts.from_bytes(objects),
        )

    @classmethod
    def stack(cls, views: Sequence[ImageCounts]) -> ImageCounts:
        """The views of several counts of one image, one after the other."""
        confidence = None
        if any(each.confidence is not None for each in views):
            parts = [each.confidence or ConfidenceCounts.empty(len(each.confusion), np.nan) for each in views]
            confidence = ConfidenceCounts.stack(parts)
        return cls(
            np.concatenate([each.confusion for each in views]),
            np.concatenate([each.scalars for each in views]),
            confidence,
            ObjectCounts.stack([each.objects for each in views], [len(each.confusion) for each in views]),
        )


def _read_sections(data: bytes) -> dict[bytes, bytes]:
    """The named sections behind the scalars; none in counts of version 0.1.0."""
    sections, at = {}, 0
    while at < len(data):
        name, length = _SECTION.unpack_from(data, at)
        at += _SECTION.size
        sections[name] = data[at : at + length]
        at += length
    return sections


@dataclass(frozen=True)
class CountTable:
    """Counts of N images in one view, reduced to what IoU and accuracy need.

    Attributes:
        true_positives: (N, K) pixels of class k that were predicted as k.
        ground_truth: (N, K) pixels of class k.
        predicted: (N, K) valid pixels predicted as k.
    """

    true_positives: Int64Array
    ground_truth: Int64Array
    predicted: Int64Array

    @property
    def union(self) -> Int64Array:
        """(N, K): ground truth + predicted - true positives."""
        return self.ground_truth + self.predicted - self.true_positives

    @property
    def valid(self) -> Int64Array:
        """(N,): pixels that count."""
        return np.asarray(self.ground_truth.sum(axis=1))

    def __len__(self) -> int:
        return len(self.ground_truth)

    def select(self, images: npt.NDArray[np.intp]) -> CountTable:
        """The rows of some images, repeated as often as they are named."""
        return CountTable(self.true_positives[images], self.ground_truth[images], self.predicted[images])

    def weighted(self, weights: npt.NDArray[np.float64]) -> CountTable:
        """Sums over the images, in one row per row of weights (R, N): how often each image is counted."""
        parts = (self.true_positives, self.ground_truth, self.predicted)
        return CountTable(*((weights @ part.astype(np.float64)).astype(np.int64) for part in parts))  # exact in float64

    def __add__(self, other: CountTable) -> CountTable:
        """Counts of two parts of the same images together."""
        return CountTable(
            self.true_positives + other.true_positives,
            self.ground_truth + other.ground_truth,
            self.predicted + other.predicted,
        )

    @classmethod
    def of(cls, confusions: Iterable[Int64Array], num_classes: int, background: int | None = None) -> CountTable:
        """Reduces (K, K) confusions, one per image.

        Args:
            confusions: one (K, K) matrix per image.
            num_classes: K.
            background: when given, pixels whose ground truth is this class are treated as void: they leave the
                ground truth and the predictions of every class (docs/specs/metrics.md, 3, "background ignored").
        """
        rows = []
        for matrix in confusions:
            if background is not None:
                matrix = matrix.copy()
                matrix[background] = 0
            rows.append((matrix.diagonal(), matrix.sum(axis=1), matrix.sum(axis=0)))
        if not rows:
            empty = np.zeros((0, num_classes), dtype=np.int64)
            return cls(empty, empty, empty)
        stacked = np.asarray(rows, dtype=np.int64)  # (N, 3, K)
        return cls(stacked[:, 0], stacked[:, 1], stacked[:, 2])

    def without_class(self, index: int) -> CountTable:
        """The table without one class: it leaves every mean over classes."""
        return CountTable(
            *(np.delete(part, index, axis=1) for part in (self.true_positives, self.ground_truth, self.predicted))
        )
