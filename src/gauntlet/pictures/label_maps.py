"""Label maps in colour, and where a prediction is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.pictures.arrays import Color, Image

VOID_COLOR: Color = (0, 0, 0)
LIGHT_VOID_COLOR: Color = (224, 224, 192)  # where a class is black: that of PASCAL VOC's borders
RIGHT_COLOR: Color = (225, 225, 225)
WRONG_COLOR: Color = (213, 94, 0)  # vermilion: told from grey by every kind of colour vision


def palette(colors: Sequence[Color], num_classes: int) -> npt.NDArray[np.uint8]:
    """(K, 3) colours of the classes; evenly spread hues where the dataset has none of its own."""
    if len(colors) >= num_classes:
        return np.array(colors[:num_classes], dtype=np.uint8)
    hues = np.linspace(0, 179, num_classes, endpoint=False).astype(np.uint8)
    values = np.where(np.arange(num_classes) % 2, 230, 160).astype(np.uint8)
    hsv = np.stack([hues, np.full_like(hues, 190), values], axis=1)[None]
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)[0], dtype=np.uint8)


def color_labels(labels: npt.NDArray[np.integer], colors: npt.NDArray[np.uint8]) -> Image:
    """A label map in colour; labels outside the classes are black, or pale where a class is black."""
    black = bool((colors == VOID_COLOR).all(axis=1).any())
    table = np.vstack([colors, np.array([LIGHT_VOID_COLOR if black else VOID_COLOR], np.uint8)])
    inside = (labels >= 0) & (labels < len(colors))
    return np.asarray(table[np.where(inside, labels, len(colors))])


def wrong_pixels(
    prediction: npt.NDArray[np.integer], labels: npt.NDArray[np.integer], ignore_index: int | None
) -> Image:
    """Where a prediction is wrong; ignored pixels are black."""
    picture = np.where((prediction == labels)[..., None], RIGHT_COLOR, WRONG_COLOR).astype(np.uint8)
    if ignore_index is not None:
        picture[labels == ignore_index] = VOID_COLOR
    return picture
