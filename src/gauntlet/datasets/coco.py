"""COCO: objects of 80 kinds, or any folder of images with annotations in COCO's JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gauntlet.datasets.annotations import EMPTY, Annotations, annotated_size, read_annotations
from gauntlet.datasets.contents import boxes_digest
from gauntlet.datasets.image_files import BoxedImages, Entry, check_split, other_size
from gauntlet.datasets.palettes import voc_palette
from gauntlet.datasets.tree import Tree, check_files_exist, check_relative
from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes


class COCODetection(BoxedImages):
    """Images whose objects stand in one JSON file.

    Args:
        tree: the folder.
        split: which part.
        annotation_file: the JSON file, relative to the folder.
        image_folder: where the images are, relative to the folder ("" for the folder itself).
        convert: see `ImageFiles`.
    """

    ignore_index = None

    def __init__(self, tree: Tree, split: str, *, annotation_file: str, image_folder: str, convert: bool) -> None:
        self.annotation_file = annotation_file
        content = read_annotations(tree.path(annotation_file))
        entries = [self._entry(tree, image, image_folder) for image in content.images]
        folders = {Path(entry.image).parent.as_posix() for entry in entries}
        present = [path for folder in folders for path in tree.files(folder, "")]
        check_files_exist(tree, [entry.image for entry in entries], present, "images")
        self.class_names = self.box_class_names = content.class_names
        self.colors = voc_palette(len(content.class_names), skip=1)
        self._boxes: Mapping[str, Boxes] = {
            entry.id: content.boxes[int(image["id"])]
            for entry, image in zip(entries, content.images, strict=True)
            if int(image["id"]) in content.boxes
        }
        sizes = ((entry.id, annotated_size(image)) for entry, image in zip(entries, content.images, strict=True))
        self._sizes = {image_id: size for image_id, size in sizes if size is not None}
        self.describe_images(content)
        super().__init__(tree, split, entries, convert=convert)

    def file_name(self, image: Mapping[str, Any]) -> str:
        """The file of an image of the JSON file, relative to the image folder."""
        return str(image["file_name"])

    def describe_images(self, content: Annotations) -> None:
        """What else a dataset of this form keeps of its annotation file; nothing by default."""

    def read_boxes(self, entry: Entry) -> Boxes:
        return self._boxes.get(entry.id, EMPTY)

    def check_size(self, entry: Entry, height: int, width: int) -> None:
        annotated = self._sizes.get(entry.id, (height, width))
        if annotated != (height, width):
            where = f"the annotation file '{self.tree.root / self.annotation_file}'"
            raise other_size(self.tree.path(entry.image), (height, width), annotated, where)

    def described(self, entry: Entry) -> str:
        return boxes_digest(self.read_boxes(entry))

    def _entry(self, tree: Tree, image: Mapping[str, Any], image_folder: str) -> Entry:
        try:
            name = self.file_name(image)
        except KeyError as error:
            raise GauntletError(
                f"an image of the annotation file '{tree.root / self.annotation_file}' lacks the field {error}."
            ) from error
        check_relative(name, f"the annotation file '{tree.root / self.annotation_file}'")
        return Entry(str(Path(name).with_suffix("").as_posix()), f"{image_folder}/{name}" if image_folder else name)


class COCO(COCODetection):
    """COCO 2017: `val2017/*.jpg` and `annotations/instances_val2017.json`, 80 classes.

    A small set of one's own, `images/` and `instances.json` (any categories), is read as the split "all".

    Args:
        root: the folder that holds annotations and val2017 (or images and instances.json).
        split: "train" (118287 images), "val" (5000) or "all"; by default the one that is there.
        convert: see `ImageFiles`; on by default, for the published set holds greyscale photographs.
    """

    name = "coco"
    splits = ("train", "val", "all")
    lengths = {"train": 118287, "val": 5000}  # noqa: RUF012

    def __init__(self, root: str | Path, split: str | None = None, *, convert: bool = True) -> None:
        given = Tree(self.name, root)
        small = given.has("instances.json", "images")
        split = split or ("all" if small else "val")
        check_split(self.name, split, ("all",) if small else ("train", "val"))
        if small:
            annotation_file, image_folder = "instances.json", "images"
        else:
            annotation_file, image_folder = f"annotations/instances_{split}2017.json", f"{split}2017"
            # The images are unpacked beside the annotations, or into a folder of their own.
            if given.has(f"images/{image_folder}"):
                image_folder = f"images/{image_folder}"
        tree = given.below("", needs=(annotation_file, image_folder))
        super().__init__(tree, split, annotation_file=annotation_file, image_folder=image_folder, convert=convert)
        if small:
            self.protocol = {"content": self.content_digest()}
