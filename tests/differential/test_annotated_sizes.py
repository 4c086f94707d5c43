"""Annotations that do not fit their photographs: other sizes, doubled ids, flags in other words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataset_trees import HEIGHT, VOC_XML, WIDTH, MakeTree, coco_content, write_image, write_lines
from gauntlet.datasets import load_dataset
from gauntlet.datasets.check import check_dataset
from gauntlet.errors import GauntletError

ORIENTATION = 0x0112


def own_coco(root: Path, change: Callable[[dict[str, Any]], object] = lambda content: None) -> Path:
    for name in ("000000000139", "000000000285"):
        write_image(root / f"images/{name}.jpg")
    content: dict[str, Any] = coco_content()
    change(content)
    (root / "instances.json").write_text(json.dumps(content))
    return root


def turned(path: Path) -> None:
    """Saves a photograph as a camera held upright does: the pixels lie, and a tag says so."""
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    Image.fromarray(np.full((WIDTH, HEIGHT, 3), 90, np.uint8)).save(path, exif=exif)


def test_a_photograph_that_its_tag_turns_is_refused(tmp_path: Path) -> None:
    root = own_coco(tmp_path)
    turned(root / "images/000000000139.jpg")
    dataset = load_dataset("coco", root=root)
    with pytest.raises(GauntletError, match=r"139.jpg' has 6x8 pixels .* says 8x6, .* \(EXIF\) turns it"):
        dataset[0]
    assert dataset[1].boxes is not None


def test_a_shrunk_photograph_is_refused_and_found_by_the_check(tmp_path: Path) -> None:
    root = own_coco(tmp_path)
    write_image(root / "images/000000000285.jpg", size=(HEIGHT // 2, WIDTH // 2))
    report = check_dataset("coco", root)
    assert [split.problem_count for split in report.splits if split.checked] == [1]
    assert "has 4x3 pixels (width x height), and the annotation file" in report.splits[-1].problems[0]


def test_a_size_that_is_not_said_is_not_compared(tmp_path: Path) -> None:
    def forget(content: dict[str, Any]) -> None:
        for image in content["images"]:
            del image["width"]

    root = own_coco(tmp_path, forget)
    write_image(root / "images/000000000139.jpg", size=(HEIGHT // 2, WIDTH // 2))
    assert load_dataset("coco", root=root)[0].boxes is not None


@pytest.mark.parametrize("what", ["images", "categories"])
def test_doubled_ids_are_refused(what: str, tmp_path: Path) -> None:
    def double(content: dict[str, Any]) -> None:
        content[what][1]["id"] = content[what][0]["id"]

    with pytest.raises(GauntletError, match=f"two {what} of the annotation file .* have the id"):
        load_dataset("coco", root=own_coco(tmp_path, double))


def voc_annotation(make_tree: MakeTree, old: str, new: str) -> Path:
    root = make_tree("voc2007")
    name = "2008_000002"
    assert old in VOC_XML
    write_lines(root / f"VOCdevkit/VOC2007/Annotations/{name}.xml", [VOC_XML.format(name=name).replace(old, new)])
    return root


@pytest.mark.parametrize(
    ("text", "expected"), [("True", True), ("2", True), ("1", True), ("false", False), ("0", False), ("", False)]
)
def test_difficult_in_other_words(text: str, expected: bool, make_tree: MakeTree) -> None:
    root = voc_annotation(make_tree, "<difficult>0</difficult>", f"<difficult>{text}</difficult>")
    boxes = load_dataset("voc2007", root=root)[0].boxes
    assert boxes is not None
    assert boxes.difficult is not None
    assert boxes.difficult.tolist() == [expected, True]


def test_a_difficult_that_is_no_flag_is_refused(make_tree: MakeTree) -> None:
    root = voc_annotation(make_tree, "<difficult>0</difficult>", "<difficult>perhaps</difficult>")
    with pytest.raises(GauntletError, match="difficult 'perhaps'; expected 0 or 1"):
        load_dataset("voc2007", root=root)[0]


def test_sizes_of_voc_are_compared(make_tree: MakeTree) -> None:
    root = voc_annotation(make_tree, "<width>8</width>", "<width>16</width>")
    with pytest.raises(GauntletError, match=r"has 8x6 pixels .* says 16x6"):
        load_dataset("voc2007", root=root)[0]


@pytest.mark.parametrize(("right", "passes"), [("8", True), ("9", False)])
def test_exchanged_sides_in_voc_pass_where_every_box_lies_inside(
    right: str,
    passes: bool,
    make_tree: MakeTree,
) -> None:
    root = voc_annotation(make_tree, "<xmax>8</xmax>", f"<xmax>{right}</xmax>")
    path = root / "VOCdevkit/VOC2007/Annotations/2008_000002.xml"
    path.write_text(
        path.read_text().replace("<width>8</width><height>6</height>", "<width>6</width><height>8</height>")
    )
    dataset = load_dataset("voc2007", root=root)
    if passes:
        assert dataset[0].boxes is not None
        return
    with pytest.raises(GauntletError, match=r"has 8x6 pixels .* says 6x8"):
        dataset[0]
