"""Images, label maps and depth after a move, with void where nothing was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.samples import Sample
from gauntlet.threats.geometry.moved_boxes import move_boxes
from gauntlet.threats.geometry.moves import Move, Size

V = TypeVar("V", bound=np.generic)
Fill = float | Literal["mean"]
"""What is drawn where nothing was: a value on the [0, 1] scale, or the mean colour of the image."""


@dataclass(frozen=True)
class Grid:
    """Where every output pixel of a move comes from.

    Attributes:
        rows, columns: (H, W) index of the source, not whole in general.
        valid: bool (H, W), whether it lies in the image: -1/2 <= row < H - 1/2, and as much for columns.
    """

    rows: npt.NDArray[np.float64]
    columns: npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, move: Move, size: Size) -> Grid:
        """The grid of a move on images of a size (height, width)."""
        height, width = size
        y, x = np.mgrid[:height, :width].astype(np.float64)
        x, y = move.source(x + 0.5 - width / 2, y + 0.5 - height / 2, size)
        rows, columns = y + height / 2 - 0.5, x + width / 2 - 0.5
        valid = (rows >= -0.5) & (rows < height - 0.5) & (columns >= -0.5) & (columns < width - 0.5)
        return cls(rows, columns, valid)

    @property
    def valid_share(self) -> float:
        """The share of the output pixels that show something."""
        return float(self.valid.mean())

    def interpolate(
        self, image: npt.NDArray[np.float64], fill: float | npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """An image (H, W, C), bilinear with its edge pixels going on, `fill` where nothing was."""
        height, width = image.shape[:2]
        rows, columns = np.clip(self.rows, 0, height - 1), np.clip(self.columns, 0, width - 1)
        top, left = np.floor(rows).astype(np.intp), np.floor(columns).astype(np.intp)
        bottom, right = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
        down, across = (rows - top)[..., None], (columns - left)[..., None]
        above = image[top, left] * (1 - across) + image[top, right] * across
        below = image[bottom, left] * (1 - across) + image[bottom, right] * across
        return np.where(self.valid[..., None], above * (1 - down) + below * down, fill)

    def nearest(self, values: npt.NDArray[V], outside: V) -> npt.NDArray[V]:
        """A map (H, W) from the nearest pixels, never mixed; `outside` where nothing was."""
        rows, columns = (
            np.where(self.valid, np.floor(index + 0.5), 0).astype(np.intp) for index in (self.rows, self.columns)
        )
        return np.where(self.valid, values[rows, columns], outside)


def move_image(image: npt.NDArray[np.uint8], grid: Grid, fill: Fill = 0.0) -> npt.NDArray[np.uint8]:
    """A uint8 image (H, W, 3) after a move; computed in float64, halves are rounded up."""
    exact = image.astype(np.float64)
    color = exact.mean(axis=(0, 1)) if fill == "mean" else 255 * float(fill)
    return np.floor(grid.interpolate(exact, color) + 0.5).astype(np.uint8)


def move_labels(labels: npt.NDArray[np.integer], grid: Grid, void: int | None) -> npt.NDArray[np.integer]:
    """A label map (H, W) after a move: nearest pixels, void where nothing was.

    Args:
        labels: the map.
        grid: of the move.
        void: the label that counts for nothing; None where the dataset has none, which is an error if it is needed.
    """
    if void is None:
        if not grid.valid.all():
            raise GauntletError(
                "after this move a part of the image shows nothing, and the dataset has no label that counts for "
                "nothing; give it an ignore_index, or use a move that fills the image, such as zoom_in."
            )
        void = 0
    limits = np.iinfo(labels.dtype)
    wide = labels if limits.min <= void <= limits.max else labels.astype(np.int64)
    return grid.nearest(wide, wide.dtype.type(void))


def move_sample(sample: Sample, move: Move, void: int | None, fill: Fill = 0.0, grid: Grid | None = None) -> Sample:
    """A sample after a move: image, labels, boxes and depth.

    Args:
        sample: what is moved.
        move: how.
        void: the label that counts for nothing.
        fill: what is drawn where nothing was.
        grid: of the move, where it is known.
    """
    height, width = sample.image.shape[:2]
    grid = grid or Grid.of(move, (height, width))
    depth = sample.depth
    if depth is not None:
        depth = grid.nearest(depth, np.float32(np.inf)) / np.float32(move.magnification)
    return Sample(
        sample.id,
        move_image(sample.image, grid, fill),
        None if sample.labels is None else move_labels(sample.labels, grid, void),
        None if sample.boxes is None else move_boxes(sample.boxes, move, (height, width)),
        depth,
    )
