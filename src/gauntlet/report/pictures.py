"""Pictures of samples: labels in colour, wrong pixels, amplified differences, panels with captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Color = tuple[int, int, int]

VOID_COLOR: Color = (0, 0, 0)
RIGHT_COLOR: Color = (225, 225, 225)
WRONG_COLOR: Color = (213, 94, 0)  # vermilion: told from grey by every kind of colour vision
_CAPTION_HEIGHT = 22
_GAP = 6


@dataclass(frozen=True)
class Panel:
    """A picture with a caption."""

    caption: str
    image: Image


def palette(colors: Sequence[Color], num_classes: int) -> npt.NDArray[np.uint8]:
    """(K, 3) colours of the classes; evenly spread hues where the dataset has none of its own."""
    if len(colors) >= num_classes:
        return np.array(colors[:num_classes], dtype=np.uint8)
    hues = np.linspace(0, 179, num_classes, endpoint=False).astype(np.uint8)
    values = np.where(np.arange(num_classes) % 2, 230, 160).astype(np.uint8)
    hsv = np.stack([hues, np.full_like(hues, 190), values], axis=1)[None]
    return np.asarray(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)[0], dtype=np.uint8)


def color_labels(labels: npt.NDArray[np.integer], colors: npt.NDArray[np.uint8]) -> Image:
    """A label map in colour; labels outside the classes are black."""
    table = np.vstack([colors, np.array([VOID_COLOR], np.uint8)])
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


def amplified_difference(image: Image, other: Image) -> tuple[Image, float]:
    """The difference of two images around grey, scaled so that its largest value is visible; and the factor."""
    difference = other.astype(np.float32) - image.astype(np.float32)
    largest = float(np.abs(difference).max())
    factor = 127 / largest if largest else 1.0
    return np.clip(128 + factor * difference, 0, 255).astype(np.uint8), factor


def sheet(panels: Sequence[Panel], columns: int) -> Image:
    """Panels in rows of `columns`, each under its caption, on white."""
    height, width = panels[0].image.shape[:2]
    cell_height, cell_width = height + _CAPTION_HEIGHT + _GAP, width + _GAP
    rows = -(-len(panels) // columns)
    canvas = np.full((rows * cell_height + _GAP, columns * cell_width + _GAP, 3), 255, np.uint8)
    for index, panel in enumerate(panels):
        top, left = (index // columns) * cell_height + _GAP, (index % columns) * cell_width + _GAP
        cv2.putText(
            canvas, panel.caption, (left, top + 15), cv2.FONT_HERSHEY_SIMPLEX, 0.42, (40, 40, 40), 1, cv2.LINE_AA
        )
        top += _CAPTION_HEIGHT
        canvas[top : top + height, left : left + width] = panel.image
    return canvas


def enlarge(image: Image, factor: int) -> Image:
    """A small picture made larger without smoothing."""
    return np.ascontiguousarray(np.repeat(np.repeat(image, factor, axis=0), factor, axis=1))
