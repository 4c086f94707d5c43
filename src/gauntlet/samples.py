"""The data that flows through Gauntlet: one image with its ground truth, and a batch of equal-sized ones.

`Sample` and `Boxes` are the door of a user's arrays: they take a copy in C order and native byte order of one type, so
that nothing is written to a user's memory and a buffer that is filled anew changes nothing that was given before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.errors import GauntletError, NotFiniteError

_LARGEST_LABEL = 2**63 - 1


def own_array(values: Any, what: str) -> npt.NDArray[Any]:
    """A copy of an array of numbers in C order and native byte order; an error for anything else.

    Args:
        values: an array, a tensor, or a list.
        what: what it holds, for the message ("the labels of image 'a'").
    """
    if isinstance(values, np.ma.MaskedArray):
        raise GauntletError(f"{what} must not be a masked array; fill it first, for example with .filled(255).")
    try:
        array = np.array(values.numpy(force=True) if isinstance(values, torch.Tensor) else values, order="C")
    except (TypeError, ValueError, RuntimeError) as error:
        raise GauntletError(f"{what} must be an array of numbers, not a {type(values).__name__}.") from error
    if array.dtype.kind not in "biuf":
        raise GauntletError(f"{what} must be an array of numbers, not of {array.dtype}.")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def whole_numbers(values: Any, what: str) -> npt.NDArray[np.integer]:
    """A copy of whole numbers of any type: uint8 as they are, others as int64; an error where one is not whole."""
    array = own_array(values, what)
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind == "f":
        broken = array[~(np.isfinite(array) & (array == np.floor(array)))]
        if broken.size:
            raise GauntletError(f"{what} must be whole numbers, not {broken.flat[0]:g}.")
    if array.size and array.dtype.kind in "fu" and array.dtype != np.uint8 and array.max() > _LARGEST_LABEL:
        raise GauntletError(f"{what} hold {array.max()}; expected at most 2**63 - 1.")
    return array if array.dtype == np.uint8 else array.astype(np.int64, copy=False)


def _finite(values: Any, what: str) -> npt.NDArray[np.float32]:
    array = own_array(values, what).astype(np.float32, copy=False)
    if not np.isfinite(array).all():
        raise NotFiniteError(f"{what} hold NaN or infinite numbers; expected finite ones.")
    return array


def _flags(values: Any, what: str) -> npt.NDArray[np.bool_]:
    array = own_array(values, what)
    if array.dtype.kind != "b" and not np.isin(array, (0, 1)).all():
        raise GauntletError(f"{what} must be true or false, 0 or 1, not {array[~np.isin(array, (0, 1))].flat[0]}.")
    return array.astype(np.bool_, copy=False)


@dataclass(frozen=True)
class Boxes:
    """Objects of one image, ground truth or detections; n may be 0.

    Arrays of other types become these; what is not finite, not whole or no corners is refused.

    Attributes:
        xyxy: (n, 4) float32 corners x0, y0, x1, y1 in pixels, x to the right, y down.
        classes: (n,) int64 class indices.
        scores: (n,) float32 confidences of detections, or None for ground truth.
        crowd: (n,) bool, COCO's iscrowd, or None when there is none.
        difficult: (n,) bool, VOC's difficult flag, or None when there is none.
        area: (n,) float32 area of the annotated object in pixels (COCO's "area", of its outline), by which objects are
            small, medium or large; None when it is the area of the box.
        pixel_area: area of one pixel of the image in pixels of the annotated image: 1 unless a protocol resized it.
            Boxes of detections are measured with it before they are called small, medium or large.
    """

    xyxy: npt.NDArray[np.float32]
    classes: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32] | None = None
    crowd: npt.NDArray[np.bool_] | None = None
    difficult: npt.NDArray[np.bool_] | None = None
    area: npt.NDArray[np.float32] | None = None
    pixel_area: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        classes = whole_numbers(self.classes, "the classes of boxes").astype(np.int64, copy=False)
        if classes.ndim != 1:
            raise GauntletError(f"the classes of boxes must have the shape (n,), not {classes.shape}.")
        count = len(classes)
        xyxy = _finite(self.xyxy, "the corners of boxes")
        if xyxy.shape != (count, 4):
            raise GauntletError(f"boxes must have the shape ({count}, 4) for {count} classes, not {xyxy.shape}.")
        self._take("classes", classes)
        self._take("xyxy", xyxy)
        for name, made in _COLUMNS.items():
            if (values := getattr(self, name)) is not None:
                values = made(values, f"the {name} of boxes")
                if values.shape != (count,):
                    raise GauntletError(
                        f"the {name} of {count} boxes must have the shape ({count},), not {values.shape}."
                    )
                self._take(name, values)
        if self.scores is None and (swapped := (xyxy[:, 2:] < xyxy[:, :2]).any(axis=1)).any():
            corners = ", ".join(f"{value:g}" for value in xyxy[swapped][0])
            raise GauntletError(
                f"a box has the corners ({corners}); expected x0, y0, x1, y1 with x0 <= x1 and y0 <= y1, "
                "and not x, y, width, height."
            )

    def _take(self, name: str, values: npt.NDArray[Any]) -> None:
        object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.classes)

    def select(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> Boxes:
        """Some of the objects, by a mask (n,) or by their positions in the order they are wanted in."""

        def of(values: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
            return None if values is None else values[chosen]

        return Boxes(
            self.xyxy[chosen],
            self.classes[chosen],
            of(self.scores),
            of(self.crowd),
            of(self.difficult),
            of(self.area),
            pixel_area=self.pixel_area,
        )

    def as_truth(self) -> Boxes:
        """Detections as ground truth; those whose corners are swapped are no objects."""
        upright = (self.xyxy[:, 2:] >= self.xyxy[:, :2]).all(axis=1)
        return Boxes(self.xyxy[upright], self.classes[upright], pixel_area=self.pixel_area)

    @property
    def areas(self) -> npt.NDArray[np.float64]:
        """(n,) area of every object in pixels of the annotated image: the annotated one, else that of its box."""
        if self.area is not None:
            return self.area.astype(np.float64)
        corners = self.xyxy.astype(np.float64)
        return np.asarray((corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1]) * self.pixel_area)


_COLUMNS: dict[str, Callable[[Any, str], npt.NDArray[Any]]] = {
    "scores": _finite,
    "crowd": _flags,
    "difficult": _flags,
    "area": _finite,
}


@dataclass(frozen=True)
class Sample:
    """One image and what is known about it, copies of what was given.

    Attributes:
        id: unique inside its dataset and stable between machines.
        image: uint8 (H, W, 3), RGB.
        labels: (H, W) label map, uint8 or int64, or None; whole numbers of another type become int64.
        boxes: objects, or None.
        depth: float32 (H, W) distance in metres (inf where there is none), or None.
    """

    id: str
    image: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.integer] | None = None
    boxes: Boxes | None = None
    depth: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        image = own_array(self.image, f"image '{self.id}'")
        shape = image.shape
        if image.dtype != np.uint8 or len(shape) != 3 or shape[2] != 3 or 0 in shape:
            raise GauntletError(
                f"image '{self.id}' must be a non-empty uint8 RGB array (H, W, 3), not {image.dtype} {shape}."
            )
        object.__setattr__(self, "id", str(self.id))
        object.__setattr__(self, "image", image)
        for name, made in (("labels", whole_numbers), ("depth", _distances)):
            if (values := getattr(self, name)) is not None:
                values = made(values, f"the {name} of image '{self.id}'")
                if values.shape != shape[:2]:
                    raise GauntletError(
                        f"the {name} of image '{self.id}' have the shape {values.shape}, the image {shape[:2]}."
                    )
                object.__setattr__(self, name, values)
        if self.boxes is not None and not isinstance(self.boxes, Boxes):
            raise GauntletError(
                f"the boxes of image '{self.id}' must be gauntlet.samples.Boxes, not a {type(self.boxes).__name__}."
            )

    def tensor(self, device: torch.device | str = "cpu") -> torch.Tensor:
        """The image as a model takes it, without the first dimension: float32 (3, H, W), RGB in [0, 1]."""
        return images_to_tensor([self.image], device)[0]


def _distances(values: Any, what: str) -> npt.NDArray[np.float32]:
    return own_array(values, what).astype(np.float32, copy=False)


@dataclass(frozen=True)
class Batch:
    """Samples of one size, stacked for a model.

    Attributes:
        samples: the N samples.
        images: float32 (N, 3, H, W), RGB in [0, 1].
        labels: int64 (N, H, W), or None for detection.
        ignore_index: the label that counts for nothing, or None.
    """

    samples: Sequence[Sample]
    images: torch.Tensor
    labels: torch.Tensor | None = None
    ignore_index: int | None = 255

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def boxes(self) -> list[Boxes]:
        """The objects of every image; an error where an image has none given."""
        boxes = [sample.boxes for sample in self.samples]
        if any(each is None for each in boxes):
            raise GauntletError("this dataset has no boxes; detection needs a dataset with boxes.")
        return [each for each in boxes if each is not None]


def images_to_tensor(images: Sequence[npt.NDArray[np.uint8]], device: torch.device | str = "cpu") -> torch.Tensor:
    """uint8 (H, W, 3) arrays of one size as a float32 tensor (N, 3, H, W) in [0, 1]."""
    stacked = torch.from_numpy(np.stack(images)).to(device)
    return stacked.permute(0, 3, 1, 2).contiguous().to(torch.float32).div_(255)


def collate(samples: Sequence[Sample], device: torch.device | str = "cpu", ignore_index: int | None = 255) -> Batch:
    """A Batch from samples of one size."""
    sizes = {sample.image.shape[:2] for sample in samples}
    if len(sizes) != 1:
        raise GauntletError(f"a batch holds images of one size, not {sorted(sizes)}.")
    labels = None
    if all(sample.labels is not None for sample in samples):
        stacked = np.stack([np.asarray(sample.labels, dtype=np.int64) for sample in samples])
        labels = torch.from_numpy(stacked).to(device)
    return Batch(samples, images_to_tensor([sample.image for sample in samples], device), labels, ignore_index)
