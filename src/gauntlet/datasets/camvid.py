"""CamVid in the 11-class release of the SegNet authors: 701 road images, 360x480."""

from __future__ import annotations

from pathlib import Path

from gauntlet.camvid_classes import CLASS_NAMES, COLORS
from gauntlet.datasets.image_files import Entry, LabelledImages, check_split
from gauntlet.datasets.label_numbers import IGNORE, LabelTable
from gauntlet.datasets.tree import IMAGE_SUFFIXES, Tree, check_files_exist, check_relative
from gauntlet.errors import GauntletError

# The lists of the release were written for one machine; its prefix stands for the folder of the lists.
_RELEASE_PREFIX = "/SegNet/CamVid/"

_VOID = 11


class CamVid(LabelledImages):
    """CamVid: `train/`, `val/`, `test/` with images, `trainannot/` ... with label images, `train.txt` ... with pairs.

    A line of a list is "IMAGE LABEL", relative to the root, or with the prefix /SegNet/CamVid/ of the release. Without
    a list, the images of the folder are paired with the label images of the same name.

    Args:
        root: the folder that holds train, trainannot and so on, or one with CamVid in it.
        split: "train" (367 images), "val" (101) or "test" (233).
        convert: see `ImageFiles`.
    """

    name = "camvid"
    class_names = CLASS_NAMES
    colors = COLORS
    table = LabelTable({value: value for value in range(11)} | {_VOID: IGNORE, IGNORE: IGNORE}, "0 to 10 and 11 (void)")
    splits = ("train", "val", "test")
    lengths = {"train": 367, "val": 101, "test": 233}  # noqa: RUF012

    def __init__(self, root: str | Path, split: str = "test", *, convert: bool = False) -> None:
        check_split(self.name, split, self.splits)
        tree = Tree(self.name, root).below("", "CamVid", needs=(split, f"{split}annot"))
        listing = f"{split}.txt"
        images, labels = tree.files(split, IMAGE_SUFFIXES), tree.files(f"{split}annot", ".png")
        pairs = _listed(tree, listing) if tree.has(listing) else _paired(images, split)
        check_files_exist(tree, [image for image, _ in pairs], images, "images")
        check_files_exist(tree, [label for _, label in pairs], labels, "label files")
        entries = [Entry(Path(image).stem, image, label) for image, label in pairs]
        super().__init__(tree, split, entries, convert=convert)


def _listed(tree: Tree, listing: str) -> list[tuple[str, str]]:
    pairs = []
    for line in tree.lines(listing):
        fields = [field.removeprefix(_RELEASE_PREFIX) for field in line.split()]
        if len(fields) != 2:
            raise GauntletError(f"the list '{tree.root / listing}' has the line '{line}'; expected 'IMAGE LABEL'.")
        for field in fields:
            check_relative(field, f"the list '{tree.root / listing}'")
        pairs.append((fields[0], fields[1]))
    return pairs


def _paired(images: list[str], split: str) -> list[tuple[str, str]]:
    return [(image, f"{split}annot/{Path(image).stem}.png") for image in images]
