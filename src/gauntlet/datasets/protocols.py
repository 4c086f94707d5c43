"""Protocols as data: how the images of a dataset, and all that is known about them, are resized and cropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.datasets.contents import Told
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.samples import Boxes, Sample

Size = tuple[int, int]

INTERPOLATIONS = ("area", "bilinear")


def _pixels(value: object, name: str) -> int:
    try:
        number = int(value)  # type: ignore[call-overload]
        whole = not isinstance(value, bool) and number == float(value) and number >= 1  # type: ignore[arg-type]
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise GauntletError(f"{name} of a protocol must be a whole number of pixels, at least 1, not {value!r}.")
    return int(number)


def _pair(value: object, name: str) -> Size:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise GauntletError(f"{name} of a protocol must be a height and a width, not {value!r}.")
    return _pixels(value[0], name), _pixels(value[1], name)


@dataclass(frozen=True)
class Protocol:
    """A resize, then a crop; nothing set means full size.

    Attributes:
        longer: the longer side becomes this many pixels, the other one keeps the proportions.
        shorter: the same for the shorter side.
        at_most: an upper bound of the longer side that goes with `shorter` (mmsegmentation's and mmdetection's rule).
        size: exact (height, width), whatever the proportions.
        crop: (height, width) cut out of the centre afterwards; a side that is smaller stays as it is.
        interpolation: of images; "area" averages where an image shrinks and is bilinear where it grows, "bilinear" is
            OpenCV's four-neighbour rule for both (what mmcv does). Labels and depth take the nearest pixel.
    """

    longer: int | None = None
    shorter: int | None = None
    at_most: int | None = None
    size: Size | None = None
    crop: Size | None = None
    interpolation: str = "area"

    def __post_init__(self) -> None:
        given = [name for name in ("longer", "shorter", "size") if getattr(self, name) is not None]
        if len(given) > 1:
            raise GauntletError(f"a protocol resizes once: give one of longer, shorter and size, not {given}.")
        if self.at_most is not None and self.shorter is None:
            raise GauntletError("at_most bounds the longer side of a protocol with 'shorter'; give 'shorter' too.")
        if self.interpolation not in INTERPOLATIONS:
            raise unknown_name("interpolation", self.interpolation, INTERPOLATIONS)
        for name in ("longer", "shorter", "at_most"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _pixels(value, name))
        for name in ("size", "crop"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _pair(value, name))

    def describe(self) -> dict[str, Any]:
        """A canonical, JSON-able description, empty for full size; `as_protocol` reads it back."""
        described: dict[str, Any] = {}
        for name, value in asdict(self).items():
            if value is not None:
                described[name] = list(value) if isinstance(value, tuple) else value
        if self.resized_by is None:
            del described["interpolation"]
        return described

    @property
    def resized_by(self) -> str | None:
        """The field that says how to resize, or None."""
        return next((name for name in ("longer", "shorter", "size") if getattr(self, name) is not None), None)

    def resized_size(self, height: int, width: int) -> Size:
        """The (height, width) that an image is resized to, before the crop."""
        if self.size is not None:
            return self.size
        longest, shortest = max(height, width), min(height, width)
        if self.longer is not None:
            wanted, given = self.longer, longest
        elif self.shorter is not None:
            wanted, given = self.shorter, shortest
            # min(shorter / shortest, at_most / longest), in whole numbers.
            if self.at_most is not None and self.at_most * shortest < self.shorter * longest:
                wanted, given = self.at_most, longest
        else:
            return height, width
        return _scaled(height, wanted, given), _scaled(width, wanted, given)

    def final_size(self, height: int, width: int) -> Size:
        """The (height, width) that an image has in the end."""
        height, width = self.resized_size(height, width)
        if self.crop is None:
            return height, width
        return min(height, self.crop[0]), min(width, self.crop[1])

    def apply(self, sample: Sample) -> Sample:
        """The sample at the size of the protocol: image, labels, depth and boxes alike."""
        height, width = sample.image.shape[:2]
        resized = self.resized_size(height, width)
        if resized != (height, width):
            sample = _resize(sample, resized, self.interpolation)
        final = self.final_size(height, width)
        return sample if final == resized else _crop_centre(sample, final)


NAMED: Mapping[str, Protocol] = {
    "full": Protocol(),
    # Halmosi et al., Sec. 5 and S.8.1 name both for PASCAL VOC.
    "voc-longer-512": Protocol(longer=512),
    "voc-shorter-512": Protocol(shorter=512),
    # Croce et al., as printed: images are resized to 512x512, then 473x473 of them are used. The other reading keeps
    # the proportions; the loader in their repository resizes the shorter side to 473 at once.
    "croce-473": Protocol(size=(512, 512), crop=(473, 473)),
    "croce-473-shorter": Protocol(shorter=512, crop=(473, 473)),
    "croce-473-code": Protocol(shorter=473, crop=(473, 473)),
    # Half of Cityscapes' size, WIDTHxHEIGHT in its usual name.
    "cityscapes-1024x512": Protocol(size=(512, 1024)),
    # The test pipelines of mmsegmentation (ADE20K, VOC) and mmdetection (COCO), which SemSegBench and DetecBench use.
    "mmseg-2048x512": Protocol(shorter=512, at_most=2048, interpolation="bilinear"),
    "mmdet-1333x800": Protocol(shorter=800, at_most=1333, interpolation="bilinear"),
    "mmdet-voc-1000x600": Protocol(shorter=600, at_most=1000, interpolation="bilinear"),
}
"""Published protocols by name."""


def names() -> list[str]:
    """The names of the published protocols."""
    return list(NAMED)


def as_protocol(given: Protocol | Mapping[str, Any] | str) -> Protocol:
    """A protocol from its name, its description, or a text of settings.

    >>> as_protocol("shorter=512,crop=473x473") == as_protocol({"shorter": 512, "crop": [473, 473]})
    True

    Args:
        given: a name ("croce-473"), fields of `Protocol` as a mapping, or as text "field=value,..." with sizes written
            HEIGHTxWIDTH.
    """
    if isinstance(given, Protocol):
        return given
    if isinstance(given, str):
        if given in NAMED:
            return NAMED[given]
        if "=" not in given:
            raise unknown_name("protocol", given, NAMED)
        given = _settings(given)
    known = [field.name for field in fields(Protocol)]
    for name in given:
        if name not in known:
            raise unknown_name("field of a protocol", str(name), known)
    return Protocol(**given)


def resizes(described: Mapping[str, Any]) -> bool:
    """True if the protocol in a dataset's identity resizes images; the own size of rendered images is no protocol."""
    return "interpolation" in described


class Resized(Dataset):
    """A dataset whose samples follow a protocol.

    Args:
        dataset: where the samples come from.
        protocol: how they are resized and cropped.
    """

    def __init__(self, dataset: Dataset, protocol: Protocol) -> None:
        self._dataset = dataset
        self._protocol = protocol
        self.name, self.split = dataset.name, dataset.split
        self.class_names, self.ignore_index = dataset.class_names, dataset.ignore_index
        self.background_index, self.colors = dataset.background_index, dataset.colors
        self.box_class_names, self.has_depth = dataset.box_class_names, dataset.has_depth
        self.trusted = dataset.trusted
        self.protocol = {**dataset.protocol, **protocol.describe()}

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Sample:
        return self._protocol.apply(self._dataset[index])

    def ids(self) -> Sequence[str]:
        return self._dataset.ids()

    def source_digests(
        self, positions: Sequence[int], told: Told | None = None, samples: Sequence[Sample] | None = None
    ) -> list[str]:
        return self._dataset.image_digests(positions, told)


def _settings(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        settings[name] = value.split("x") if "x" in value else value
    return settings


def _scaled(side: int, wanted: int, given: int) -> int:
    """round(side * wanted / given), halves up, in whole numbers; at least one pixel."""
    return max(1, (2 * side * wanted + given) // (2 * given))


def _resize(sample: Sample, size: Size, interpolation: str) -> Sample:
    height, width = sample.image.shape[:2]
    shrinks = size[0] < height or size[1] < width
    method = cv2.INTER_AREA if interpolation == "area" and shrinks else cv2.INTER_LINEAR
    image = np.asarray(cv2.resize(sample.image, (size[1], size[0]), interpolation=method), dtype=np.uint8)
    rows, columns = _nearest(height, size[0])[:, None], _nearest(width, size[1])
    boxes = sample.boxes
    if boxes is not None:
        scale = np.array([size[1] / width, size[0] / height] * 2, dtype=np.float64)
        boxes = replace(
            boxes,
            xyxy=(boxes.xyxy * scale).astype(np.float32),
            area=boxes.areas.astype(np.float32),  # sizes stay those of the annotation
            pixel_area=boxes.pixel_area / float(scale[0] * scale[1]),
        )
    return Sample(
        sample.id,
        image,
        labels=None if sample.labels is None else sample.labels[rows, columns],
        boxes=boxes,
        depth=None if sample.depth is None else sample.depth[rows, columns],
    )


def _nearest(given: int, wanted: int) -> npt.NDArray[np.int64]:
    """For every pixel of the new side the old pixel its centre falls into: floor((i + 1/2) given / wanted)."""
    return (2 * np.arange(wanted, dtype=np.int64) + 1) * given // (2 * wanted)


def _crop_centre(sample: Sample, size: Size) -> Sample:
    height, width = sample.image.shape[:2]
    top, left = (height - size[0]) // 2, (width - size[1]) // 2
    window = (slice(top, top + size[0]), slice(left, left + size[1]))
    return Sample(
        sample.id,
        np.ascontiguousarray(sample.image[window]),
        labels=None if sample.labels is None else np.ascontiguousarray(sample.labels[window]),
        boxes=None if sample.boxes is None else _crop_boxes(sample.boxes, top, left, size),
        depth=None if sample.depth is None else np.ascontiguousarray(sample.depth[window]),
    )


def _crop_boxes(boxes: Boxes, top: int, left: int, size: Size) -> Boxes:
    """Boxes cut at the border of the crop; those of which nothing is left are dropped.

    The area of an object shrinks as its box does: how much of its outline is cut off is not known.
    """
    shifted = boxes.xyxy - np.array([left, top, left, top], dtype=np.float32)
    limits = np.array([size[1], size[0], size[1], size[0]], dtype=np.float32)
    cut = np.clip(shifted, 0, limits)
    kept = np.flatnonzero((cut[:, 2] > cut[:, 0]) & (cut[:, 3] > cut[:, 1]))
    whole, rest = boxes.select(kept), cut[kept]
    area = None
    if whole.area is not None:
        area = (whole.area * replace(whole, xyxy=rest, area=None).areas / replace(whole, area=None).areas).astype(
            np.float32
        )
    return replace(whole, xyxy=rest, area=area)
