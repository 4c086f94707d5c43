"""Contact sheets: what corruptions do to an image, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.threats.corruptions.api import DepthRule, check_image, check_name, check_severity, corrupt
from gauntlet.threats.corruptions.catalogue import Image

GAP = 4
CAPTION_HEIGHT = 18
INK = (32, 32, 32)
PAPER = 255


def contact_sheet(
    image: Image,
    names: Sequence[str],
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    *,
    seed: int = 0,
    depth: npt.NDArray[np.float32] | None = None,
    depth_rule: DepthRule = "metric",
    tile_width: int | None = None,
) -> Image:
    """A picture of an image under corruptions, with captions.

    Several severities: one row per corruption, the image itself first. One severity: the image itself and all
    corruptions in rows of about equal number.

    Args:
        image: uint8 (H, W, 3), RGB.
        names: corruptions.
        severities: 1 to 5, in the order of the columns.
        seed: of every corruption.
        depth: metres (H, W), for those that need it.
        depth_rule: as in `corrupt`.
        tile_width: width of a tile in pixels; the image's own by default.
    """
    if not names or not severities:
        raise GauntletError("a contact sheet needs at least one corruption and one severity.")
    for severity in severities:
        check_severity(severity)
    names = [check_name(name) for name in names]
    pixels = check_image(image)
    original = _tile(pixels, "original", tile_width)

    def corrupted(name: str, severity: int) -> Image:
        out = corrupt(pixels, name, severity, seed, depth=depth, depth_rule=depth_rule)
        return _tile(out, f"{name} {severity}", tile_width)

    rows = [[corrupted(name, severity) for severity in severities] for name in names]
    if len(severities) > 1:
        return _paste([[original, *row] for row in rows])
    tiles = [original, *(row[0] for row in rows)]
    columns = math.ceil(math.sqrt(len(tiles)))
    return _paste([tiles[start : start + columns] for start in range(0, len(tiles), columns)])


def _tile(image: Image, caption: str, width: int | None) -> Image:
    """The image, scaled, under its caption."""
    import cv2

    if width is not None and width != image.shape[1]:
        height = max(1, round(image.shape[0] * width / image.shape[1]))
        method = cv2.INTER_AREA if width < image.shape[1] else cv2.INTER_NEAREST
        image = np.asarray(cv2.resize(image, (width, height), interpolation=method), np.uint8)
    strip = np.full((CAPTION_HEIGHT, image.shape[1], 3), PAPER, np.uint8)
    scale = 0.42
    (length, _), _ = cv2.getTextSize(caption, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    scale *= min(1.0, (image.shape[1] - 4) / length)
    cv2.putText(strip, caption, (2, CAPTION_HEIGHT - 5), cv2.FONT_HERSHEY_SIMPLEX, scale, INK, 1, cv2.LINE_AA)
    return np.concatenate([strip, image])


def _paste(rows: Sequence[Sequence[Image]]) -> Image:
    """Tiles of one size in rows on white paper."""
    height, width = rows[0][0].shape[:2]
    columns = max(len(row) for row in rows)
    sheet = np.full((len(rows) * (height + GAP) + GAP, columns * (width + GAP) + GAP, 3), PAPER, np.uint8)
    for i, row in enumerate(rows):
        for j, tile in enumerate(row):
            top, left = GAP + i * (height + GAP), GAP + j * (width + GAP)
            sheet[top : top + height, left : left + width] = tile
    return sheet
