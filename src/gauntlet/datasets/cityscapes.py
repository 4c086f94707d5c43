"""Cityscapes: 19 classes of street scenes, 1024x2048, and the label tables that its relatives share."""

from __future__ import annotations

from pathlib import Path

from gauntlet.datasets.contract import Color
from gauntlet.datasets.image_files import LabelledImages, check_split, pair_by_name
from gauntlet.datasets.label_numbers import IGNORE, LabelTable
from gauntlet.datasets.tree import Tree

# (name, id in *_labelIds.png, colour), in the order of the trainIds 0 to 18; every other id up to 33 is ignored
# (cityscapesScripts, helpers/labels.py).
_CLASSES: tuple[tuple[str, int, Color], ...] = (
    ("road", 7, (128, 64, 128)),
    ("sidewalk", 8, (244, 35, 232)),
    ("building", 11, (70, 70, 70)),
    ("wall", 12, (102, 102, 156)),
    ("fence", 13, (190, 153, 153)),
    ("pole", 17, (153, 153, 153)),
    ("traffic light", 19, (250, 170, 30)),
    ("traffic sign", 20, (220, 220, 0)),
    ("vegetation", 21, (107, 142, 35)),
    ("terrain", 22, (152, 251, 152)),
    ("sky", 23, (70, 130, 180)),
    ("person", 24, (220, 20, 60)),
    ("rider", 25, (255, 0, 0)),
    ("car", 26, (0, 0, 142)),
    ("truck", 27, (0, 0, 70)),
    ("bus", 28, (0, 60, 100)),
    ("train", 31, (0, 80, 100)),
    ("motorcycle", 32, (0, 0, 230)),
    ("bicycle", 33, (119, 11, 32)),
)
CLASS_NAMES = tuple(name for name, _, _ in _CLASSES)
COLORS = tuple(color for _, _, color in _CLASSES)

LABEL_IDS = LabelTable(
    dict.fromkeys([*range(34), 255], IGNORE) | {label_id: index for index, (_, label_id, _) in enumerate(_CLASSES)},
    "labelIds 0 to 33 (and 255 for the licence plate, id -1)",
)
"""The 34 ids of Cityscapes to the 19 trainIds; 255 is how 8 bits store the id -1."""

TRAIN_IDS = LabelTable.plain(len(CLASS_NAMES))
"""Files that hold trainIds already (ACDC, BDD100K)."""


class Cityscapes(LabelledImages):
    """Cityscapes, fine annotations: `leftImg8bit/SPLIT/CITY/*_leftImg8bit.png`, `gtFine/SPLIT/CITY/*_labelIds.png`.

    Args:
        root: the folder that holds leftImg8bit and gtFine.
        split: "train" (2975 images) or "val" (500); the labels of "test" are not public.
        convert: see `ImageFiles`.
    """

    name = "cityscapes"
    class_names = CLASS_NAMES
    colors = COLORS
    table = LABEL_IDS
    splits = ("train", "val")
    lengths = {"train": 2975, "val": 500}  # noqa: RUF012

    def __init__(self, root: str | Path, split: str = "val", *, convert: bool = False) -> None:
        check_split(self.name, split, self.splits)
        tree = Tree(self.name, root).below("", needs=(f"leftImg8bit/{split}", f"gtFine/{split}"))
        entries = pair_by_name(
            tree,
            images=f"leftImg8bit/{split}",
            image_suffix="_leftImg8bit.png",
            labels=f"gtFine/{split}",
            label_suffix="_gtFine_labelIds.png",
        )
        super().__init__(tree, split, entries, convert=convert)
