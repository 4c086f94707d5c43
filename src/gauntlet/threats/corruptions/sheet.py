"""Contact sheets: what corruptions do to an image, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.pictures import Tile, sheet
from gauntlet.threats.corruptions.api import check_image, check_name, check_severity, corrupt
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.settings import DepthRule

GAP = 4
CAPTION_HEIGHT = 18


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
    tiles = [_tile(pixels, "original", tile_width)]
    for name in names:
        for severity in severities:
            corrupted = corrupt(pixels, name, severity, seed, depth=depth, depth_rule=depth_rule)
            tiles.append(_tile(corrupted, f"{name} {severity}", tile_width))
    columns = math.ceil(math.sqrt(len(tiles)))
    if len(severities) > 1:
        columns = 1 + len(severities)
        rows = [tiles[start : start + len(severities)] for start in range(1, len(tiles), len(severities))]
        tiles = [tile for row in rows for tile in (tiles[0], *row)]
    return sheet(tiles, columns, gap=GAP, caption_height=CAPTION_HEIGHT)


def _tile(image: Image, caption: str, width: int | None) -> Tile:
    """The image, scaled, with its caption."""
    import cv2

    if width is not None and width != image.shape[1]:
        height = max(1, round(image.shape[0] * width / image.shape[1]))
        method = cv2.INTER_AREA if width < image.shape[1] else cv2.INTER_NEAREST
        image = np.asarray(cv2.resize(image, (width, height), interpolation=method), np.uint8)
    return Tile(caption, image)
