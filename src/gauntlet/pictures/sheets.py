"""Sheets of pictures: tiles in rows, each under its caption, on white."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from gauntlet.pictures.arrays import Color, Image

GAP = 6
CAPTION_HEIGHT = 22
FONT_SCALE = 0.42
INK: Color = (32, 32, 32)
PAPER = 255


@dataclass(frozen=True)
class Tile:
    """A picture with a caption."""

    caption: str
    image: Image


def sheet(tiles: Sequence[Tile], columns: int, *, gap: int = GAP, caption_height: int = CAPTION_HEIGHT) -> Image:
    """Tiles of one size in rows; a caption that is wider than its tile is written smaller.

    Args:
        tiles: row by row.
        columns: tiles in a row.
        gap: pixels around every tile.
        caption_height: pixels above every picture.
    """
    drawn = [
        np.concatenate([_caption(tile.caption, caption_height, tile.image.shape[1]), tile.image]) for tile in tiles
    ]
    height, width = drawn[0].shape[:2]
    rows = -(-len(drawn) // columns)
    canvas = np.full((rows * (height + gap) + gap, columns * (width + gap) + gap, 3), PAPER, np.uint8)
    for index, tile in enumerate(drawn):
        top, left = gap + index // columns * (height + gap), gap + index % columns * (width + gap)
        canvas[top : top + height, left : left + width] = tile
    return canvas


def _caption(text: str, height: int, width: int) -> Image:
    """A strip (height, width, 3) with a text."""
    strip = np.full((height, width, 3), PAPER, np.uint8)
    (length, _), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, FONT_SCALE, 1)
    scale = FONT_SCALE * min(1.0, (width - 4) / length) if length else FONT_SCALE
    cv2.putText(strip, text, (2, height - 5), cv2.FONT_HERSHEY_SIMPLEX, scale, INK, 1, cv2.LINE_AA)
    return strip
