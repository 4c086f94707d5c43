"""What is kept of every image in detection: its objects and all detections, exactly, in a few hundred bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes

_MAGIC, _MAGIC_2 = b"GBX1", b"GBX2"  # the second where there are places, or the area of a pixel
_HEADER = struct.Struct("<4sHHB")  # magic, objects, views, which columns the objects have
_VIEW = struct.Struct("<BI")  # what the view has, detections
_SKIPPED, _COMPUTED, _PLACED = 0, 1, 2
_CROWD, _DIFFICULT, _AREA, _PIXEL_AREA = 1, 2, 4, 8
MOST_OBJECTS = 65535


@dataclass(frozen=True)
class ObjectView:
    """Detections of an image under one threat, or in one part of the image.

    Attributes:
        detections: with scores.
        objects: (n,) which of the image's objects belong to this view.
        places: (d,) positions of the detections in the detector's list for the whole image, by which ties of scores are
            broken; None where the view has the whole list, and in counts of version 0.1.0.
    """

    detections: Boxes
    objects: npt.NDArray[np.bool_]
    places: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class ImageObjects:
    """The objects of one image and what was detected in its views.

    Attributes:
        truth: the n objects.
        views: one entry per view; None where a battery skipped the image.
    """

    truth: Boxes
    views: tuple[ObjectView | None, ...]

    def __post_init__(self) -> None:
        if len(self.truth) > MOST_OBJECTS:
            raise GauntletError(f"an image has {len(self.truth)} objects; at most {MOST_OBJECTS} can be kept.")

    def pair(self, view: int) -> tuple[Boxes, Boxes] | None:
        """Objects and detections of a view; None where it was skipped."""
        chosen = self.views[view]
        return None if chosen is None else (self.truth.select(chosen.objects), chosen.detections)

    @classmethod
    def stack(cls, parts: Sequence[ImageObjects]) -> ImageObjects:
        """The views of several results for one image, one after the other."""
        return cls(parts[0].truth, tuple(view for part in parts for view in part.views))

    def to_bytes(self) -> bytes:
        """A compact form for the store from which every number comes back as it was.

        Corners, scores and areas are float32, classes uint16, flags one byte an object, membership in a view one bit,
        places uint32.
        Column by column, floats with their bytes taken apart (the first bytes of all, then the second ones ...), so
        that zlib, level 6, can shorten what is alike.
        """
        truth = self.truth
        columns = _CROWD * (truth.crowd is not None) + _DIFFICULT * (truth.difficult is not None)
        columns += _AREA * (truth.area is not None)
        flags = np.zeros(len(truth), np.uint8)
        for bit, values in ((_CROWD, truth.crowd), (_DIFFICULT, truth.difficult)):
            if values is not None:
                flags |= bit * values.astype(np.uint8)
        columns += _PIXEL_AREA * (truth.pixel_area != 1.0)
        parts = [_floats(truth.xyxy), truth.classes.astype("<u2").tobytes(), flags.tobytes()]
        if truth.area is not None:
            parts.append(_floats(truth.area))
        if columns & _PIXEL_AREA:
            parts.append(struct.pack("<d", truth.pixel_area))
        for view in self.views:
            if view is None:
                parts.append(_VIEW.pack(_SKIPPED, 0))
                continue
            detected = view.detections
            assert detected.scores is not None
            kind = _COMPUTED if view.places is None else _PLACED
            parts += [_VIEW.pack(kind, len(detected)), np.packbits(view.objects).tobytes(), _floats(detected.xyxy)]
            parts += [_floats(detected.scores), detected.classes.astype("<u2").tobytes()]
            if view.places is not None:
                parts.append(view.places.astype("<u4").tobytes())
        is_new = columns & _PIXEL_AREA or any(view is not None and view.places is not None for view in self.views)
        header = _HEADER.pack(_MAGIC_2 if is_new else _MAGIC, len(truth), len(self.views), columns)
        return header + zlib.compress(b"".join(parts), 6)

    @classmethod
    def from_bytes(cls, data: bytes) -> ImageObjects:
        """What `to_bytes` wrote."""
        magic, count, views, columns = _HEADER.unpack_from(data)
        if magic not in (_MAGIC, _MAGIC_2):
            raise GauntletError(
                "these detections were not written by Gauntlet, or by a newer version; upgrade the package."
            )
        reader = _Reader(zlib.decompress(data[_HEADER.size :]))
        truth = Boxes(reader.floats(count, 4), reader.classes(count))
        flags = reader.array("u1", count).astype(np.uint8)
        truth = replace(
            truth,
            crowd=(flags & _CROWD) > 0 if columns & _CROWD else None,
            difficult=(flags & _DIFFICULT) > 0 if columns & _DIFFICULT else None,
            area=reader.floats(count) if columns & _AREA else None,
            pixel_area=float(reader.array("<f8", 1)[0]) if columns & _PIXEL_AREA else 1.0,
        )
        return cls(truth, tuple(reader.view(count) for _ in range(views)))


def _floats(values: npt.NDArray[np.float32]) -> bytes:
    """float32 in columns, bytes taken apart."""
    columns = np.ascontiguousarray(values.astype("<f4", copy=False).T)
    return np.ascontiguousarray(columns.reshape(-1).view(np.uint8).reshape(-1, 4).T).tobytes()


class _Reader:
    """Takes arrays off the front of a payload."""

    def __init__(self, payload: bytes) -> None:
        self._payload, self._at = payload, 0

    def array(self, dtype: str, count: int) -> npt.NDArray[np.generic]:
        values = np.frombuffer(self._payload, dtype, count, self._at)
        self._at += values.nbytes
        return values

    def floats(self, count: int, width: int | None = None) -> npt.NDArray[np.float32]:
        size = count * (width or 1)
        taken_apart = self.array("u1", 4 * size).reshape(4, size)
        columns = np.ascontiguousarray(taken_apart.T).view("<f4").astype(np.float32).reshape(width or 1, count)
        return np.ascontiguousarray(columns.T) if width else columns[0]

    def classes(self, count: int) -> npt.NDArray[np.int64]:
        return self.array("<u2", count).astype(np.int64)

    def view(self, objects: int) -> ObjectView | None:
        kind, count = _VIEW.unpack_from(self._payload, self._at)
        self._at += _VIEW.size
        if kind == _SKIPPED:
            return None
        members = np.unpackbits(self.array("u1", (objects + 7) // 8).astype(np.uint8), count=objects).astype(bool)
        boxes, scores, classes = self.floats(count, 4), self.floats(count), self.classes(count)
        places = self.array("<u4", count).astype(np.int64) if kind == _PLACED else None
        return ObjectView(Boxes(boxes, classes, scores), members, places)
