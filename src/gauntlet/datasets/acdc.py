"""ACDC: Cityscapes' classes under fog, at night, in rain and in snow."""

from __future__ import annotations

from pathlib import Path

from gauntlet.datasets.cityscapes import CLASS_NAMES, COLORS, TRAIN_IDS
from gauntlet.datasets.image_files import LabelledImages, check_split, pair_by_name
from gauntlet.datasets.tree import Tree
from gauntlet.errors import unknown_name

CONDITIONS = ("fog", "night", "rain", "snow")


class ACDC(LabelledImages):
    """ACDC: `rgb_anon/CONDITION/SPLIT/SEQUENCE/*_rgb_anon.png`, `gt/CONDITION/SPLIT/SEQUENCE/*_gt_labelTrainIds.png`.

    The id of an image begins with its condition ("fog/GOPR0475_frame_000247"), so figures per condition can be
    computed from one evaluation of all.

    Args:
        root: the folder that holds rgb_anon and gt.
        split: "train" (1600 images) or "val" (406: 106 at night, 100 each in fog, rain and snow).
        condition: one of "fog", "night", "rain", "snow", or "all", in this order.
        convert: see `ImageFiles`.
    """

    name = "acdc"
    class_names = CLASS_NAMES
    colors = COLORS
    table = TRAIN_IDS
    splits = ("train", "val")
    lengths = {"train": 1600, "val": 406}  # noqa: RUF012

    def __init__(self, root: str | Path, split: str = "val", *, condition: str = "all", convert: bool = False) -> None:
        check_split(self.name, split, self.splits)
        if condition not in (*CONDITIONS, "all"):
            raise unknown_name("condition of the dataset 'acdc'", condition, (*CONDITIONS, "all"))
        conditions = CONDITIONS if condition == "all" else (condition,)
        tree = Tree(self.name, root).below(
            "", needs=[f"{kind}/{each}/{split}" for each in conditions for kind in ("rgb_anon", "gt")]
        )
        entries = [
            entry
            for each in conditions
            for entry in pair_by_name(
                tree,
                images=f"rgb_anon/{each}/{split}",
                image_suffix="_rgb_anon.png",
                labels=f"gt/{each}/{split}",
                label_suffix="_gt_labelTrainIds.png",
                prefix=f"{each}/",
            )
        ]
        super().__init__(tree, split, entries, convert=convert)
