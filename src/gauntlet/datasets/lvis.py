"""LVIS: 1203 kinds of objects on COCO's photographs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from gauntlet.datasets.annotations import Annotations
from gauntlet.datasets.coco import COCODetection
from gauntlet.datasets.contents import text_digest
from gauntlet.datasets.image_files import Entry, check_split
from gauntlet.datasets.tree import Tree


@dataclass(frozen=True)
class Verified:
    """What LVIS's annotators looked for in an image; a detection of any other class says nothing about a detector.

    Attributes:
        absent: classes that were looked for and are not there.
        incomplete: classes that are there, but not every object of them is annotated.
    """

    absent: frozenset[int]
    incomplete: frozenset[int]


class LVIS(COCODetection):
    """LVIS v1: `annotations/lvis_v1_val.json` (or beside the image folders), images in `train2017` and `val2017` (or in
    `images/train2017` and `images/val2017`).

    The validation split has images of COCO's training folder: which file an image is follows from its coco_url.

    Args:
        root: the folder that holds annotations, train2017 and val2017.
        split: "train" (100170 images), "val" (19809) or "minival" (4809).
        convert: see `ImageFiles`; on by default, for COCO holds greyscale photographs.

    Attributes:
        verified: by image id, the classes that were verified to be absent or are annotated incompletely.
    """

    name = "lvis"
    splits = ("train", "val", "minival")
    lengths = {"train": 100170, "val": 19809, "minival": 4809}  # noqa: RUF012
    verified: Mapping[str, Verified]

    def __init__(self, root: str | Path, split: str = "val", *, convert: bool = True) -> None:
        check_split(self.name, split, self.splits)
        given = Tree(self.name, root)
        annotation_file = f"lvis_v1_{split}.json"
        if not given.has(annotation_file):
            annotation_file = f"annotations/{annotation_file}"
        tree = given.below("", needs=(annotation_file,))
        # As with COCO, the image folders lie beside the annotations, or in a folder of their own.
        image_folder = "images" if given.has("images/val2017") or given.has("images/train2017") else ""
        super().__init__(tree, split, annotation_file=annotation_file, image_folder=image_folder, convert=convert)

    def file_name(self, image: Mapping[str, Any]) -> str:
        """The last two parts of the address: ".../val2017/000000397133.jpg" is val2017/000000397133.jpg."""
        if "coco_url" not in image and "file_name" in image:
            return str(image["file_name"])
        return "/".join(PurePosixPath(str(image["coco_url"])).parts[-2:])

    def described(self, entry: Entry) -> str:
        verified = self.verified[entry.id]
        return text_digest(super().described(entry), sorted(verified.absent), sorted(verified.incomplete))

    def describe_images(self, content: Annotations) -> None:
        def classes(image: Mapping[str, Any], key: str) -> frozenset[int]:
            return frozenset(content.class_of[int(category)] for category in image.get(key, ()))

        self.verified = {
            str(PurePosixPath(self.file_name(image)).with_suffix("")): Verified(
                classes(image, "neg_category_ids"), classes(image, "not_exhaustive_category_ids")
            )
            for image in content.images
        }
