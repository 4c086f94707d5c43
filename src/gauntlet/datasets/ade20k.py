"""ADE20K (the scene parsing benchmark): 150 classes of rooms, streets and landscapes."""

from __future__ import annotations

from pathlib import Path

from gauntlet.datasets.ade20k_classes import CLASS_NAMES, COLORS
from gauntlet.datasets.image_files import LabelledImages, check_split, pair_by_name
from gauntlet.datasets.label_numbers import IGNORE, LabelTable
from gauntlet.datasets.tree import Tree

_FOLDERS = {"train": "training", "val": "validation"}

# 0 in the files is "other"; it counts for nothing, and 1 to 150 become 0 to 149 (mmsegmentation: reduce_zero_label).
_ZERO_REDUCED = LabelTable({0: IGNORE} | {value: value - 1 for value in range(1, 151)}, "0 (other) to 150")


class ADE20K(LabelledImages):
    """ADE20K: `images/validation/ADE_val_00000001.jpg` and `annotations/validation/ADE_val_00000001.png`.

    Args:
        root: the folder ADEChallengeData2016 (holding images and annotations), or the one above.
        split: "train" (20210 images) or "val" (2000).
        convert: see `ImageFiles`; on by default, for the published set holds a few greyscale photographs.
    """

    name = "ade20k"
    class_names = CLASS_NAMES
    colors = COLORS
    table = _ZERO_REDUCED
    splits = ("train", "val")
    lengths = {"train": 20210, "val": 2000}  # noqa: RUF012

    def __init__(self, root: str | Path, split: str = "val", *, convert: bool = True) -> None:
        check_split(self.name, split, self.splits)
        images, labels = f"images/{_FOLDERS[split]}", f"annotations/{_FOLDERS[split]}"
        tree = Tree(self.name, root).below("", "ADEChallengeData2016", needs=(images, labels))
        entries = pair_by_name(tree, images=images, image_suffix=".jpg", labels=labels, label_suffix=".png")
        super().__init__(tree, split, entries, convert=convert)
