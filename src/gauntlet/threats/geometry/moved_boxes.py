"""Boxes after a move: the hull of where their outline goes, cut at the edge of the image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import divide
from gauntlet.samples import Boxes
from gauntlet.threats.geometry.moves import Move, Size

LEAST_VISIBLE = 0.25
"""The share of a hull that must lie in the image for the object to count."""
LEAST_SIDE = 2.0
"""The shortest side of an object that counts, in pixels."""
_STEPS_PER_SIDE = 8

Corners = npt.NDArray[np.float64]


def hulls(xyxy: npt.NDArray[np.floating], move: Move, size: Size) -> Corners:
    """(n, 4) axis-parallel hulls of moved boxes, x0, y0, x1, y1 in pixels, as far outside of the image as they go.

    The four corners say it where straight lines stay straight; else points at every eighth of a side.

    Args:
        xyxy: (n, 4) boxes.
        move: where their content goes.
        size: height and width of the image.
    """
    height, width = size
    steps = np.linspace(0, 1, 1 + (1 if move.straight else _STEPS_PER_SIDE))
    ends = np.concatenate([np.zeros_like(steps), np.ones_like(steps)])
    along = np.concatenate([steps, steps])
    across, down = np.concatenate([along, ends]), np.concatenate([ends, along])  # points of the unit square's outline
    x0, y0, x1, y1 = np.asarray(xyxy, np.float64).reshape(-1, 4).T[..., None]
    x, y = move.target(x0 + across * (x1 - x0) - width / 2, y0 + down * (y1 - y0) - height / 2, size)
    x, y = x + width / 2, y + height / 2
    return np.stack([x.min(axis=1), y.min(axis=1), x.max(axis=1), y.max(axis=1)], axis=1)


def clip(corners: Corners, size: Size) -> Corners:
    """Boxes (n, 4) cut at the edge of the image; empty ones have no area."""
    height, width = size
    return np.clip(corners, 0, [width, height, width, height])


def areas(corners: Corners) -> Corners:
    """(n,) areas of boxes in square pixels."""
    return np.asarray((corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1]))


def move_boxes(boxes: Boxes, move: Move, size: Size) -> Boxes:
    """Objects, or detections, after a move.

    An object of which less than a quarter is still visible, or with a side below two pixels, becomes a crowd: it is
    neither to be found nor wrong to be found. What left the image altogether is gone.

    Args:
        boxes: before.
        move: where their content goes.
        size: height and width of the image.
    """
    before = np.asarray(boxes.xyxy, np.float64)
    hull = hulls(before, move, size)
    inside = clip(hull, size)
    visible = np.nan_to_num(divide(areas(inside), areas(hull)))
    sides = inside[:, 2:] - inside[:, :2]
    ignored = (visible < LEAST_VISIBLE) | (sides < LEAST_SIDE).any(axis=1)
    crowd = ignored if boxes.crowd is None else boxes.crowd | ignored
    growth = np.nan_to_num(divide(areas(hull), areas(before)))
    moved = replace(
        boxes,
        xyxy=inside.astype(np.float32),
        crowd=None if boxes.crowd is None and not ignored[visible > 0].any() else crowd,
        area=None if boxes.area is None else (boxes.area * growth).astype(np.float32),
    )
    return moved.select(visible > 0)


def move_detections(detections: Boxes, move: Move, size: Size) -> Boxes:
    """What a detector would say of the moved image if it had seen it before; what would not count is left out."""
    moved = move_boxes(detections, move, size)
    if moved.crowd is not None:
        moved = moved.select(~moved.crowd)
    return replace(moved, crowd=None)
