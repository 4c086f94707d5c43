"""PASCAL VOC: segmentation of 2012 (with the augmented training set), detection of 2007 and 2012."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np

from gauntlet.datasets.image_files import BoxedImages, Entry, LabelledImages, check_split, other_size
from gauntlet.datasets.images import is_turned
from gauntlet.datasets.label_numbers import LabelTable
from gauntlet.datasets.palettes import voc_palette
from gauntlet.datasets.tree import Tree, check_files_exist, check_relative
from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes

OBJECT_NAMES = (
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "diningtable",
    "dog",
    "horse",
    "motorbike",
    "person",
    "pottedplant",
    "sheep",
    "sofa",
    "train",
    "tvmonitor",
)


class VOCSegmentation(LabelledImages):
    """PASCAL VOC 2012, 21 classes: `JPEGImages/ID.jpg`, `SegmentationClass/ID.png`, `ImageSets/Segmentation/SPLIT.txt`.

    The augmented training set (the Semantic Boundaries Dataset) is the split "trainaug": label images in
    SegmentationClassAug (else SegmentationClass) for the ids of trainaug.txt, or of train.txt and aug.txt together.
    "reduced-val" is what Arnab et al. evaluate on: validation images that no training set of the Semantic Boundaries
    Dataset has. Nobody publishes a rule that gives their list, so it is read from the user's own reduced-val.txt.

    Args:
        root: the folder VOC2012, or one that holds VOCdevkit/VOC2012.
        split: "train" (1464 images), "val" (1449), "trainval" (2913), "trainaug" (10582) or "reduced-val"
            (346).
        convert: see `ImageFiles`.
    """

    name = "voc2012"
    class_names = ("background", *OBJECT_NAMES)
    background_index = 0
    colors = voc_palette(21)
    table = LabelTable.plain(21)
    splits = ("train", "val", "trainval", "trainaug", "reduced-val")
    lengths = {"train": 1464, "val": 1449, "trainval": 2913, "trainaug": 10582, "reduced-val": 346}  # noqa: RUF012

    def __init__(self, root: str | Path, split: str = "val", *, convert: bool = False) -> None:
        check_split(self.name, split, self.splits)
        augmented = split == "trainaug"
        labels = "SegmentationClassAug" if augmented else "SegmentationClass"
        tree = _devkit(self.name, root, "VOC2012", ("JPEGImages", labels, "ImageSets/Segmentation"))
        available = tree.files("SegmentationClass", ".png") + (tree.files(labels, ".png") if augmented else [])
        # The augmented folder, listed last, wins: it holds a label image for the ids of train.txt as well.
        label_of = {Path(path).stem: path for path in available}
        ids = _ids(tree, _segmentation_lists(tree, split))
        entries = [Entry(each, f"JPEGImages/{each}.jpg", label_of.get(each, f"{labels}/{each}.png")) for each in ids]
        check_files_exist(tree, [entry.image for entry in entries], tree.files("JPEGImages", ".jpg"), "images")
        check_files_exist(tree, [entry.labels or "" for entry in entries], available, "label files")
        super().__init__(tree, split, entries, convert=convert)


class VOCDetection(BoxedImages):
    """PASCAL VOC, 20 kinds of objects: `JPEGImages/ID.jpg`, `Annotations/ID.xml`, `ImageSets/Main/SPLIT.txt`.

    The files count pixels from 1 and include both corners; boxes become corners of the covered area, counted from 0:
    (xmin - 1, ymin - 1, xmax, ymax), which keeps VOC's own widths xmax - xmin + 1.

    Args:
        root: the folder of the year (VOC2007), or one that holds VOCdevkit/VOC2007.
        split: the name of a list in ImageSets/Main.
        convert: see `ImageFiles`.
    """

    class_names = OBJECT_NAMES
    box_class_names = OBJECT_NAMES
    ignore_index = None
    colors = voc_palette(20, skip=1)
    year: str

    def __init__(self, root: str | Path, split: str, *, convert: bool = False) -> None:
        check_split(self.name, split, self.splits)
        listing = f"ImageSets/Main/{split}.txt"
        tree = _devkit(self.name, root, self.year, ("JPEGImages", "Annotations", listing))
        ids = _ids(tree, [listing])
        entries = [Entry(each, f"JPEGImages/{each}.jpg", f"Annotations/{each}.xml") for each in ids]
        check_files_exist(tree, [entry.image for entry in entries], tree.files("JPEGImages", ".jpg"), "images")
        wanted = [entry.labels or "" for entry in entries]
        check_files_exist(tree, wanted, tree.files("Annotations", ".xml"), "annotation files")
        super().__init__(tree, split, entries, convert=convert)

    def read_boxes(self, entry: Entry) -> Boxes:
        path = self.tree.path(entry.labels or "")
        boxes, classes, difficult = [], [], []
        for item in _parse(path).iter("object"):
            name = (item.findtext("name") or "").strip()
            if name not in OBJECT_NAMES:
                raise GauntletError(f"the annotation '{path}' names the class '{name}'; expected one of VOC's twenty.")
            boxes.append(_corners(item, path))
            classes.append(OBJECT_NAMES.index(name))
            difficult.append(_is_difficult(item, path))
        return Boxes(
            np.array(boxes, dtype=np.float32).reshape(-1, 4),
            np.array(classes, dtype=np.int64),
            difficult=np.array(difficult, dtype=np.bool_),
        )

    def check_size(self, entry: Entry, height: int, width: int) -> None:
        """An error where the annotation says another size.

        A size with its sides exchanged is let pass where the file has no camera tag and every box lies in the image.
        """
        path = self.tree.path(entry.labels or "")
        content = _parse(path)
        annotated = _annotated_size(content, path)
        if annotated is None or annotated == (height, width):
            return
        image = self.tree.path(entry.image)
        corners = [_corners(item, path) for item in content.iter("object")]
        inside = all(right <= width and bottom <= height for _, _, right, bottom in corners)
        if annotated != (width, height) or is_turned(image) or not inside:
            raise other_size(image, (height, width), annotated, f"the annotation '{path}'")


class VOC2007(VOCDetection):
    """PASCAL VOC 2007, detection; see `VOCDetection`. Splits train, val, trainval (5011 images) and test (4952)."""

    name = "voc2007"
    year = "VOC2007"
    splits = ("train", "val", "trainval", "test")
    lengths = {"train": 2501, "val": 2510, "trainval": 5011, "test": 4952}  # noqa: RUF012

    def __init__(self, root: str | Path, split: str = "test", *, convert: bool = False) -> None:
        super().__init__(root, split, convert=convert)


class VOC2012Detection(VOCDetection):
    """PASCAL VOC 2012, detection; see `VOCDetection`. Splits train (5717 images), val (5823), trainval (11540)."""

    name = "voc2012-detection"
    folder = "voc2012"
    year = "VOC2012"
    splits = ("train", "val", "trainval")
    lengths = {"train": 5717, "val": 5823, "trainval": 11540}  # noqa: RUF012

    def __init__(self, root: str | Path, split: str = "val", *, convert: bool = False) -> None:
        super().__init__(root, split, convert=convert)


def _devkit(name: str, root: str | Path, year: str, needs: tuple[str, ...]) -> Tree:
    return Tree(name, root).below("", year, f"VOCdevkit/{year}", needs=needs)


def _segmentation_lists(tree: Tree, split: str) -> list[str]:
    folder = "ImageSets/Segmentation"
    if split == "trainaug" and not tree.has(f"{folder}/trainaug.txt"):
        lists = [f"{folder}/train.txt", f"{folder}/aug.txt"]
    else:
        lists = [f"{folder}/{split}.txt"]
    if not tree.has(*lists):
        raise tree.wrong_layout(lists, instead=f"{tree.summary(folder)} in '{folder}'")
    return lists


def _ids(tree: Tree, lists: list[str]) -> list[str]:
    """The ids of some lists, one a line; "ID 1" as in the lists per class is an error."""
    ids = []
    for listing in lists:
        for line in tree.lines(listing):
            check_relative(line, f"the list '{tree.root / listing}'")
            if len(line.split()) != 1 or "/" in line:
                raise GauntletError(f"the list '{tree.root / listing}' has the line '{line}'; expected one id a line.")
            ids.append(line)
    return ids


def _parse(path: Path) -> ElementTree.Element:
    try:
        content = path.read_bytes()
        # Entities are the way to make a small file expand without end; VOC's annotations have none.
        if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
            raise GauntletError(f"the annotation '{path}' has a document type; expected plain VOC XML.")
        return ElementTree.fromstring(content)  # nosec B314 # loads nothing; entities are checked above
    except (OSError, ElementTree.ParseError) as error:
        raise GauntletError(f"the annotation '{path}' cannot be read as XML: {error}.") from error


def _annotated_size(content: ElementTree.Element, path: Path) -> tuple[int, int] | None:
    """Height and width in an annotation; None where it says none, or 0."""
    texts = [content.findtext(f"size/{name}") or "0" for name in ("height", "width")]
    try:
        height, width = (int(float(text)) for text in texts)
    except (ValueError, OverflowError):
        raise GauntletError(
            f"the annotation '{path}' has the size {' x '.join(texts)}; expected whole numbers in size/height and "
            "size/width."
        ) from None
    return (height, width) if height and width else None


def _is_difficult(item: ElementTree.Element, path: Path) -> bool:
    """The flag "difficult" of an object: 1 or true; further tools write 2 for "very"."""
    text = (item.findtext("difficult") or "0").strip().lower()
    if text in ("true", "false"):
        return text == "true"
    if not text.isdigit():
        raise GauntletError(f"an object of the annotation '{path}' has difficult '{text}'; expected 0 or 1.")
    return int(text) > 0


def _corners(item: ElementTree.Element, path: Path) -> tuple[float, float, float, float]:
    try:
        left, top, right, bottom = (
            float(item.findtext(f"bndbox/{name}") or "") for name in ("xmin", "ymin", "xmax", "ymax")
        )
    except ValueError:
        raise GauntletError(
            f"an object of the annotation '{path}' has no box; expected numbers in bndbox/xmin, ymin, xmax, ymax."
        ) from None
    if not (left <= right and top <= bottom):
        raise GauntletError(
            f"the annotation '{path}' has the box ({left:g}, {top:g}, {right:g}, {bottom:g}); "
            "expected xmin <= xmax and ymin <= ymax."
        )
    return left - 1, top - 1, right, bottom
