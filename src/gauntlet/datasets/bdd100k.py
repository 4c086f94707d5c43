"""BDD100K, semantic segmentation: Cityscapes' 19 classes on 720x1280 dashboard photographs."""

from __future__ import annotations

from pathlib import Path

from gauntlet.datasets.cityscapes import CLASS_NAMES, COLORS, TRAIN_IDS
from gauntlet.datasets.image_files import LabelledImages, check_split, pair_by_name
from gauntlet.datasets.tree import Tree


class BDD100K(LabelledImages):
    """BDD100K: `images/10k/SPLIT/ID.jpg` and `labels/sem_seg/masks/SPLIT/ID.png`.

    The first release, `seg/images/SPLIT/ID.jpg` and `seg/labels/SPLIT/ID_train_id.png`, is read as well.

    Args:
        root: the folder that holds images and labels (or seg), or the one above, with bdd100k in it.
        split: "train" (7000 images) or "val" (1000).
        convert: see `ImageFiles`.
    """

    name = "bdd100k"
    class_names = CLASS_NAMES
    colors = COLORS
    table = TRAIN_IDS
    splits = ("train", "val")
    lengths = {"train": 7000, "val": 1000}  # noqa: RUF012

    def __init__(self, root: str | Path, split: str = "val", *, convert: bool = False) -> None:
        check_split(self.name, split, self.splits)
        given = Tree(self.name, root)
        if given.has("seg/images") or given.has("bdd100k/seg/images"):
            images, labels, label_suffix = f"seg/images/{split}", f"seg/labels/{split}", "_train_id.png"
        else:
            images, labels, label_suffix = f"images/10k/{split}", f"labels/sem_seg/masks/{split}", ".png"
        tree = given.below("", "bdd100k", needs=(images, labels))
        entries = pair_by_name(tree, images=images, image_suffix=".jpg", labels=labels, label_suffix=label_suffix)
        super().__init__(tree, split, entries, convert=convert)
