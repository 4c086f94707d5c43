"""The data that flows through Gauntlet: one image with its ground truth, and a batch of equal-sized ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.errors import GauntletError


@dataclass(frozen=True)
class Boxes:
    """Objects of one image, ground truth or detections; n may be 0.

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
        count = len(self.classes)
        if self.xyxy.shape != (count, 4):
            raise GauntletError(f"boxes must have the shape ({count}, 4) for {count} classes, not {self.xyxy.shape}.")
        for name in ("scores", "crowd", "difficult", "area"):
            values = getattr(self, name)
            if values is not None and values.shape != (count,):
                raise GauntletError(f"the {name} of {count} boxes must have the shape ({count},), not {values.shape}.")

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

    @property
    def areas(self) -> npt.NDArray[np.float64]:
        """(n,) area of every object in pixels of the annotated image: the annotated one, else that of its box."""
        if self.area is not None:
            return self.area.astype(np.float64)
        corners = self.xyxy.astype(np.float64)
        return np.asarray((corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1]) * self.pixel_area)


@dataclass(frozen=True)
class Sample:
    """One image and what is known about it.

    Attributes:
        id: unique inside its dataset and stable between machines.
        image: uint8 (H, W, 3), RGB.
        labels: integer (H, W) label map, or None.
        boxes: objects, or None.
        depth: float32 (H, W) distance in metres (inf where there is none), or None.
    """

    id: str
    image: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.integer] | None = None
    boxes: Boxes | None = None
    depth: npt.NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        shape = self.image.shape
        if self.image.dtype != np.uint8 or len(shape) != 3 or shape[2] != 3 or 0 in shape:
            raise GauntletError(
                f"image '{self.id}' must be a non-empty uint8 RGB array (H, W, 3), not {self.image.dtype} {shape}."
            )
        for name in ("labels", "depth"):
            values = getattr(self, name)
            if values is not None and values.shape != shape[:2]:
                raise GauntletError(
                    f"the {name} of image '{self.id}' have the shape {values.shape}, the image {shape[:2]}."
                )

    def tensor(self, device: torch.device | str = "cpu") -> torch.Tensor:
        """The image as a model takes it, without the first dimension: float32 (3, H, W), RGB in [0, 1]."""
        return images_to_tensor([self.image], device)[0]


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
