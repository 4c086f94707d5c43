"""Pictures of a sample and of what an attack made of it, as Pillow images: notebooks draw them by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from PIL import Image as pillow

from gauntlet.errors import GauntletError
from gauntlet.numbers import counted
from gauntlet.pictures.arrays import amplified_difference, enlarge, from_tensor
from gauntlet.pictures.box_frames import box_colors, draw_boxes
from gauntlet.pictures.label_maps import color_labels, palette
from gauntlet.pictures.sheets import Tile, sheet
from gauntlet.samples import Sample

if TYPE_CHECKING:
    from gauntlet.datasets.contract import Dataset

_SMALL = 300


def scale_of(width: int) -> int:
    """How many times as large an image of a width is drawn."""
    return 2 if width < _SMALL else 1


def row_of(tiles: Sequence[Tile]) -> pillow.Image:
    """Tiles of one size side by side, enlarged where they are small."""
    scale = scale_of(tiles[0].image.shape[1])
    enlarged = [Tile(tile.caption, enlarge(tile.image, scale)) for tile in tiles]
    return pillow.fromarray(sheet(enlarged, columns=len(enlarged)))


def sample_picture(dataset: Dataset, index: int) -> pillow.Image:
    """A sample of a dataset beside its label map in colour and its objects, where it has them."""
    check_index(index, len(dataset))
    sample = dataset[index % len(dataset)]
    tiles = truth_tiles(sample, dataset, scale_of(sample.image.shape[1]))
    return pillow.fromarray(sheet(tiles, columns=len(tiles)))


def attack_picture(original: torch.Tensor | None, attacked: torch.Tensor) -> pillow.Image:
    """An attacked image (3, H, W) in [0, 1]; between the original and the amplified difference where that is known."""
    after = from_tensor(attacked.detach().clamp(0, 1))
    if original is None:
        return row_of([Tile("attacked", after)])
    before = from_tensor(original.detach().clamp(0, 1))
    difference, factor = amplified_difference(before, after)
    return row_of([Tile("image", before), Tile("attacked", after), Tile(f"difference x {factor:.1f}", difference)])


def truth_tiles(sample: Sample, dataset: Dataset, scale: int, *, objects: bool = True) -> list[Tile]:
    """Tiles of a sample, `scale` times as large: the image, its label map and, with `objects`, its objects."""
    tiles = [Tile(sample.id, enlarge(sample.image, scale))]
    if sample.labels is not None:
        colors = palette(dataset.colors, dataset.num_classes)
        tiles.append(Tile("labels", enlarge(color_labels(sample.labels, colors), scale)))
    if objects and sample.boxes is not None:
        tiles.append(objects_tile(sample, dataset, scale))
    return tiles


def objects_tile(sample: Sample, dataset: Dataset, scale: int) -> Tile:
    """The objects of a sample on its image, `scale` times as large."""
    assert sample.boxes is not None
    drawn = draw_boxes(sample.image, sample.boxes, dataset.box_class_names, box_colors(dataset), scale=scale)
    return Tile(f"ground truth: {counted(len(sample.boxes), 'object')}", drawn)


def check_index(index: int, length: int) -> None:
    """An error where there is no image of an index; negative ones count from the end."""
    if not -length <= index < length:
        raise GauntletError(f"index must lie in 0 to {length - 1}, not {index}.")
