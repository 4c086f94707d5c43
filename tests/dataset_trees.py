"""Small trees that copy the layout of each public dataset exactly, and the fixture that builds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

HEIGHT, WIDTH = 6, 8


def write_image(path: Path, mode: str = "RGB", size: tuple[int, int] = (HEIGHT, WIDTH), seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {"L": (), "RGB": (3,), "RGBA": (4,), "CMYK": (4,)}[mode]
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, *channels), dtype=np.uint8)
    Image.fromarray(pixels, mode).save(path)


def write_labels(path: Path, values: Sequence[int], size: tuple[int, int] = (HEIGHT, WIDTH)) -> None:
    """A greyscale label image that repeats the values, row by row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.resize(np.array(values, dtype=np.uint8), size), "L").save(path)


def write_palette_labels(path: Path, values: Sequence[int]) -> None:
    """A palette label image as VOC publishes them, with colours that are not the indices."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.resize(np.array(values, dtype=np.uint8), (HEIGHT, WIDTH)), "P")
    image.putpalette([(7 * index + 3) % 256 for index in range(768)])
    image.save(path)


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def cityscapes(root: Path) -> None:
    for split, city in (("train", "aachen"), ("val", "frankfurt"), ("val", "munster")):
        for frame in ("000000_000019", "000001_000019"):
            stem = f"{city}/{city}_{frame}"
            write_image(root / f"leftImg8bit/{split}/{stem}_leftImg8bit.png")
            write_labels(root / f"gtFine/{split}/{stem}_gtFine_labelIds.png", range(34))
            for other in ("color.png", "instanceIds.png"):
                write_image(root / f"gtFine/{split}/{stem}_gtFine_{other}")
            (root / f"gtFine/{split}/{stem}_gtFine_polygons.json").write_text("{}")


def acdc(root: Path) -> None:
    for condition, count in (("fog", 1), ("night", 3), ("rain", 1), ("snow", 1)):
        for split in ("train", "val"):
            for frame in range(count):
                stem = f"{condition}/{split}/GOPR0{frame}/GOPR0{frame}_frame_{frame:06d}"
                write_image(root / f"rgb_anon/{stem}_rgb_anon.png")
                reference = stem.replace(f"/{split}/", f"/{split}_ref/")
                write_image(root / f"rgb_anon/{reference}_rgb_ref_anon.png")
                write_labels(root / f"gt/{stem}_gt_labelTrainIds.png", [*range(19), 255])
                write_labels(root / f"gt/{stem}_gt_labelIds.png", range(34))
                write_labels(root / f"gt/{stem}_gt_invIds.png", [0])


def bdd100k(root: Path) -> None:
    for split in ("train", "val"):
        for name in ("0004a4c0-d4dff0ad", "00054602-3bf57337"):
            write_image(root / f"images/10k/{split}/{name}.jpg")
            write_labels(root / f"labels/sem_seg/masks/{split}/{name}.png", [*range(19), 255])
    write_image(root / "images/10k/test/ffff.jpg")


def bdd100k_first(root: Path) -> None:
    for name in ("0004a4c0-d4dff0ad", "00054602-3bf57337"):
        write_image(root / f"bdd100k/seg/images/val/{name}.jpg")
        write_labels(root / f"bdd100k/seg/labels/val/{name}_train_id.png", [*range(19), 255])
        write_image(root / f"bdd100k/seg/color_labels/val/{name}_train_color.png")


def ade20k(root: Path) -> None:
    base = root / "ADEChallengeData2016"
    for folder, short in (("training", "train"), ("validation", "val")):
        for number in (1, 2, 3):
            write_image(base / f"images/{folder}/ADE_{short}_{number:08d}.jpg", "L" if number == 3 else "RGB")
            write_labels(base / f"annotations/{folder}/ADE_{short}_{number:08d}.png", range(48))
    (base / "objectInfo150.txt").write_text("Idx\tRatio\n")


def camvid(root: Path) -> None:
    for split, count in (("train", 3), ("val", 1), ("test", 2)):
        names = [f"0001TP_00{split}{index}" for index in range(count)]
        for name in names:
            write_image(root / f"{split}/{name}.png")
            write_labels(root / f"{split}annot/{name}.png", range(12))
        # The release's own lists, in an order that is not that of the names.
        lines = [f"/SegNet/CamVid/{split}/{name}.png /SegNet/CamVid/{split}annot/{name}.png" for name in names[::-1]]
        write_lines(root / f"{split}.txt", lines)


VOC_XML = """<annotation>
  <folder>VOC2007</folder><filename>{name}.jpg</filename><size><width>8</width><height>6</height></size>
  <object><name>dog</name><pose>Left</pose><truncated>1</truncated><difficult>0</difficult>
    <bndbox><xmin>1</xmin><ymin>2</ymin><xmax>8</xmax><ymax>6</ymax></bndbox>
    <part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part></object>
  <object><name>tvmonitor</name><difficult>1</difficult>
    <bndbox><ymax>3</ymax><xmax>2.0</xmax><xmin>2</xmin><ymin>3</ymin></bndbox></object>
</annotation>"""


def voc(root: Path) -> None:
    for year in ("VOC2007", "VOC2012"):
        base = root / "VOCdevkit" / year
        ids = ["2007_000032", "2007_000033", "2008_000002", "2009_000001"]
        for name in ids:
            write_image(base / f"JPEGImages/{name}.jpg")
            write_lines(base / f"Annotations/{name}.xml", [VOC_XML.format(name=name)])
        for split, members in (("train", ids[:1]), ("val", ids[1:2]), ("trainval", ids[:2]), ("test", ids[2:3])):
            write_lines(base / f"ImageSets/Main/{split}.txt", members)
        if year == "VOC2007":
            continue
        for name in ids[:2]:
            write_palette_labels(base / f"SegmentationClass/{name}.png", [*range(21), 255])
        for split, members in (("train", ids[:1]), ("val", ids[1:2]), ("trainval", ids[:2])):
            write_lines(base / f"ImageSets/Segmentation/{split}.txt", members)
        for name in ids[2:]:
            write_labels(base / f"SegmentationClassAug/{name}.png", [*range(21), 255])
        write_lines(base / "ImageSets/Segmentation/aug.txt", ids[2:])


def coco_content() -> dict[str, object]:
    return {
        "info": {},
        "images": [
            {"id": 139, "file_name": "000000000139.jpg", "height": HEIGHT, "width": WIDTH},
            {"id": 285, "file_name": "000000000285.jpg", "height": HEIGHT, "width": WIDTH},
        ],
        # Out of order, with a gap, as COCO's ids 1 to 90 have gaps.
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 1, "name": "person"}, {"id": 13, "name": "stop sign"}],
        "annotations": [
            {"id": 1, "image_id": 139, "category_id": 90, "bbox": [1.5, 2, 3, 2.25], "iscrowd": 0, "area": 5},
            {"id": 2, "image_id": 139, "category_id": 1, "bbox": [0, 0, 8, 6], "iscrowd": 1, "area": 48},
            {"id": 3, "image_id": 139, "category_id": 13, "bbox": [2, 2, 0, 1], "iscrowd": 0, "area": 0},
        ],
    }


def coco(root: Path) -> None:
    for name in ("000000000139", "000000000285"):
        write_image(root / f"val2017/{name}.jpg", "L" if name.endswith("285") else "RGB")
    (root / "annotations").mkdir()
    (root / "annotations/instances_val2017.json").write_text(json.dumps(coco_content()))


def lvis(root: Path) -> None:
    content = coco_content()
    address = "http://images.cocodataset.org"
    content["images"] = [
        {
            "id": 139,
            "coco_url": f"{address}/train2017/000000000139.jpg",
            "neg_category_ids": [13],
            "not_exhaustive_category_ids": [90, 1],
        },
        {"id": 285, "coco_url": f"{address}/val2017/000000000285.jpg", "neg_category_ids": []},
    ]
    write_image(root / "train2017/000000000139.jpg")
    write_image(root / "val2017/000000000285.jpg")
    (root / "annotations").mkdir()
    (root / "annotations/lvis_v1_val.json").write_text(json.dumps(content))


def folder(root: Path) -> None:
    for index, suffix in enumerate((".jpg", ".png", ".JPG")):
        write_image(root / f"images/scene/{index}{suffix}")
        write_labels(root / f"masks/scene/{index}.png", [0, 1, 2, 255])
    write_lines(root / "classes.txt", ["sky", "sign symbol", "road"])


TREES: dict[str, Callable[[Path], None]] = {
    "cityscapes": cityscapes,
    "acdc": acdc,
    "bdd100k": bdd100k,
    "ade20k": ade20k,
    "camvid": camvid,
    "voc2012": voc,
    "voc2007": voc,
    "voc2012-detection": voc,
    "coco": coco,
    "lvis": lvis,
    "folder": folder,
}

MakeTree = Callable[[str], Path]


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """Builds the tree of a dataset in a fresh folder and returns the folder."""

    def build(name: str) -> Path:
        root = tmp_path / "data" / name
        root.mkdir(parents=True)
        (bdd100k_first if name == "bdd100k-first" else TREES[name])(root)
        return root

    return build
