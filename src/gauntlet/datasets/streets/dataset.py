"""Streets as a dataset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gauntlet.datasets.contents import Told, text_digest
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.render import Picture, render
from gauntlet.datasets.streets.street_classes import BOX_CLASS_NAMES, BOX_CLASSES, CLASS_NAMES, COLORS, VOID
from gauntlet.datasets.streets.world import sample_scene
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.samples import Boxes, Sample

RENDERER_VERSION = 1  # raised whenever any pixel of any scene changes; part of every evaluation's key

DEFAULT_LENGTHS = {"train": 4000, "val": 200, "test": 200}
DEFAULT_SIZE = (128, 256)
SMALLEST_SIDE = 32

# An object is given a box when this much of it is seen; the others are in the label map only.
LEAST_PIXELS = 12
LEAST_SIDE = 3
LEAST_VISIBLE = 0.2


def object_boxes(picture: Picture) -> Boxes:
    """Boxes around the visible pixels of cars, pedestrians, bicyclists and signs.

    An object is left out when fewer than 12 of its pixels are seen, when its box is narrower or lower than 3 pixels,
    or when less than a fifth of its silhouette (inside the picture) is seen behind what stands before it. The area of
    an object is the number of its pixels that are seen.
    """
    corners: list[tuple[int, int, int, int]] = []
    classes: list[int] = []
    areas: list[int] = []
    rows, columns = np.nonzero(picture.instances)
    numbers = picture.instances[rows, columns]
    for number in np.unique(numbers):
        chosen = numbers == number
        y, x = rows[chosen], columns[chosen]
        x0, y0, x1, y1 = int(x.min()), int(y.min()), int(x.max()) + 1, int(y.max()) + 1
        large_enough = len(x) >= LEAST_PIXELS and min(x1 - x0, y1 - y0) >= LEAST_SIDE
        if large_enough and picture.visible[number - 1] >= LEAST_VISIBLE:
            corners.append((x0, y0, x1, y1))
            classes.append(BOX_CLASSES.index(int(picture.instance_labels[number - 1])))
            areas.append(len(x))
    xyxy: npt.NDArray[np.float32] = np.array(corners, np.float32).reshape(-1, 4)
    return Boxes(xyxy, np.array(classes, np.int64), area=np.array(areas, np.float32))


class Streets(Dataset):
    """Generated street scenes with CamVid's classes, boxes and depth; needs no download.

    Scene `index` of a split is the same on every machine, whatever the length, and shows the same world at any size.

    Args:
        split: "train", "val" or "test"; no scene is in two of them.
        length: how many scenes; 4000 of train and 200 of the others if not given.
        size: (height, width) in pixels, 32 or more each.
    """

    name = "streets"
    class_names = CLASS_NAMES
    ignore_index = VOID
    background_index = None
    colors = COLORS
    box_class_names = BOX_CLASS_NAMES
    has_depth = True

    def __init__(self, split: str = "val", length: int | None = None, size: tuple[int, int] = DEFAULT_SIZE) -> None:
        if split not in DEFAULT_LENGTHS:
            raise unknown_name("split of streets", split, DEFAULT_LENGTHS)
        if length is not None and length < 1:
            raise GauntletError(f"the length of streets must be at least 1, not {length}.")
        if len(size) != 2 or min(size) < SMALLEST_SIDE:
            raise GauntletError(
                f"the size of streets must be (height, width) with {SMALLEST_SIDE} pixels or more each, not {size}."
            )
        self.split = split
        self.size = (int(size[0]), int(size[1]))
        self._length = DEFAULT_LENGTHS[split] if length is None else int(length)
        self.protocol = {"size": list(self.size), "renderer": RENDERER_VERSION}

    def __len__(self) -> int:
        return self._length

    def ids(self) -> Sequence[str]:
        return [self._id(index) for index in range(self._length)]

    def _id(self, index: int) -> str:
        return f"streets/{self.split}/{index:06d}"

    def source_digests(
        self, positions: Sequence[int], told: Told | None = None, samples: Sequence[Sample] | None = None
    ) -> list[str]:
        """Of the scene's name, its size and the version of the renderer, by which a scene is the same everywhere."""
        return [text_digest(self._id(position), self.size, RENDERER_VERSION) for position in positions]

    def picture(self, index: int) -> Picture:
        """A scene with its instance map."""
        if not -self._length <= index < self._length:
            raise IndexError(
                f"streets/{self.split} has {self._length} scenes; index {index} is outside 0 to {self._length - 1}."
            )
        name = self._id(index % self._length)
        return render(sample_scene(Dice(name)), self.size, Dice(f"{name}|static"))

    def __getitem__(self, index: int) -> Sample:
        picture = self.picture(index)
        return Sample(
            id=self._id(index % self._length),
            image=picture.image,
            labels=picture.labels,
            boxes=object_boxes(picture),
            depth=picture.depth,
        )
