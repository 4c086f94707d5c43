"""Objects and detections on a picture: frames in the colours of their classes, with names and scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.pictures.arrays import Color, Image, enlarge
from gauntlet.pictures.label_maps import palette
from gauntlet.samples import Boxes

if TYPE_CHECKING:
    from gauntlet.datasets.contract import Dataset

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_FONT_SCALE = 0.36
_BRIGHT = 140  # a colour of more luminance is written on in black
_LEAST = 200  # of the largest channel: a dark frame is not seen on a photograph


def box_colors(dataset: Dataset) -> npt.NDArray[np.uint8]:
    """(K, 3) colours of the object classes: those of the dataset's classes of the same name, else spread hues.

    Dark colours of label maps are made brighter, in their own hue.
    """
    names, known = list(dataset.box_class_names), dict(zip(dataset.class_names, dataset.colors, strict=False))
    if not all(name in known for name in names):
        return palette((), len(names))
    colors = palette([known[name] for name in names], len(names)).astype(np.float64)
    largest = colors.max(axis=1, keepdims=True)
    brighter = np.where(largest > 0, colors * np.maximum(_LEAST / np.maximum(largest, 1), 1), _LEAST)
    return np.round(brighter).astype(np.uint8)


def draw_boxes(
    image: Image, boxes: Boxes, names: Sequence[str] | None, colors: npt.NDArray[np.uint8], *, scale: int = 1
) -> Image:
    """The picture, `scale` times as large, with a frame, a class name and (for detections) a score per box.

    Frames of higher scores lie above the others. Crowds and difficult objects say so.

    Args:
        image: (H, W, 3).
        boxes: objects or detections in the pixels of the image.
        names: of the classes; None to leave them out, where a legend tells the colours.
        colors: (K, 3), of the classes.
        scale: whole factor by which the picture is enlarged before it is drawn on.
    """
    canvas = enlarge(image, scale)
    order = np.argsort(boxes.scores, kind="stable") if boxes.scores is not None else np.arange(len(boxes))
    for index in order:
        kind = int(boxes.classes[index])
        red, green, blue = colors[kind].tolist()
        corners = np.round(boxes.xyxy[index] * scale).astype(int)
        last = corners[2:] - 1  # a box ends before its second corner
        cv2.rectangle(canvas, corners[:2].tolist(), last.tolist(), (red, green, blue), min(scale, 2))
        text = _caption(boxes, int(index), "" if names is None else names[kind])
        if text:
            _write(canvas, text, corners, (red, green, blue))
    return canvas


def _caption(boxes: Boxes, index: int, name: str) -> str:
    parts = [name, "" if boxes.scores is None else f"{boxes.scores[index]:.2f}"]
    flags = (("crowd", boxes.crowd), ("difficult", boxes.difficult))
    parts += [f"({flag})" for flag, values in flags if values is not None and values[index]]
    return " ".join(part for part in parts if part)


def _write(canvas: Image, text: str, corners: npt.NDArray[np.int_], color: Color) -> None:
    """Writes on a plate of the box's colour above the box, below its upper edge where there is no room."""
    (width, height), under = cv2.getTextSize(text, _FONT, _FONT_SCALE, 1)
    plate = height + under + 2
    left = int(np.clip(corners[0], 0, max(canvas.shape[1] - width - 2, 0)))
    top = int(corners[1]) - plate if corners[1] >= plate else max(int(corners[1]), 0)
    cv2.rectangle(canvas, (left, top), (left + width + 2, top + plate), color, -1)
    luminance = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]
    ink = (0, 0, 0) if luminance > _BRIGHT else (255, 255, 255)
    cv2.putText(canvas, text, (left + 1, top + height + 1), _FONT, _FONT_SCALE, ink, 1, cv2.LINE_AA)
