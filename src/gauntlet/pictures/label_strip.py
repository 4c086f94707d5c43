"""A strip of images over their label maps in class colours, with a legend: what was read from masks, to look at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np

from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.doubts import spread
from gauntlet.errors import GauntletError
from gauntlet.files import write_atomically
from gauntlet.pictures.arrays import Image
from gauntlet.pictures.label_maps import color_labels, palette
from gauntlet.pictures.sheets import Tile, sheet

SHOWN = 6
"""Images of a strip."""
HEIGHT = 160
"""Of an image in a strip, in pixels."""
MOST_NAMED = 24
"""Classes in the legend, the most frequent first."""
_SWATCH = 18


def write_label_strip(dataset: Dataset, path: Path, shares: Mapping[str, float]) -> Path:
    """Write a strip of some images of a dataset as PNG.

    Args:
        dataset: with label maps.
        path: of the PNG.
        shares: of the labelled pixels by class name, for the legend.
    """
    _, data = cv2.imencode(".png", cv2.cvtColor(label_strip(dataset, shares), cv2.COLOR_RGB2BGR))
    try:
        write_atomically(path, np.asarray(data).tobytes())
    except OSError as error:
        raise GauntletError(f"the strip of masks {path} cannot be written: {error.strerror}.") from None
    return path


def label_strip(dataset: Dataset, shares: Mapping[str, float]) -> Image:
    """Some images of a dataset over their label maps in class colours, and a legend with the share of each class."""
    colors = palette(dataset.colors, dataset.num_classes)
    columns: list[tuple[Image, Image, str]] = []
    for index in spread(len(dataset), SHOWN):
        try:
            sample = dataset[index]
        except GauntletError:  # told by the check
            continue
        if sample.labels is not None:
            columns.append((_small(sample.image), _small(color_labels(sample.labels, colors), nearest=True), sample.id))
    if not columns:
        raise GauntletError(f"the dataset '{dataset.name}' has no label map that can be drawn.")
    width = max(image.shape[1] for image, _, _ in columns)
    tiles = [Tile(name, _padded(image, width)) for image, _, name in columns]
    tiles += [Tile("mask as read", _padded(mask, width)) for _, mask, _ in columns]
    drawn = sheet(tiles, columns=len(columns))
    order = sorted(range(dataset.num_classes), key=lambda index: -shares.get(dataset.class_names[index], 0.0))
    legend = [
        (f"{100 * shares.get(dataset.class_names[k], 0.0):.2f} %  {dataset.class_names[k]}", colors[k]) for k in order
    ]
    return np.concatenate([drawn, _legend(legend[:MOST_NAMED], drawn.shape[1])])


def _small(image: Image, *, nearest: bool = False) -> Image:
    """An image of the strip's height."""
    width = max(1, round(image.shape[1] * HEIGHT / image.shape[0]))
    resampling = cv2.INTER_NEAREST if nearest else cv2.INTER_AREA
    return np.asarray(cv2.resize(image, (width, HEIGHT), interpolation=resampling), dtype=np.uint8)


def _padded(image: Image, width: int) -> Image:
    """An image with white at its right."""
    return np.pad(image, ((0, 0), (0, width - image.shape[1]), (0, 0)), constant_values=255)


def _legend(rows: list[tuple[str, Image]], width: int) -> Image:
    """A swatch and a text for each class, one below the other."""
    canvas = np.full(((_SWATCH + 4) * len(rows) + 4, width, 3), 255, np.uint8)
    for number, (text, color) in enumerate(rows):
        top = 4 + number * (_SWATCH + 4)
        canvas[top : top + _SWATCH, 6 : 6 + _SWATCH] = color
        place = (12 + _SWATCH, top + _SWATCH - 5)
        cv2.putText(canvas, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.45, (32, 32, 32), 1, cv2.LINE_AA)
    return canvas
