"""The report behind `gauntlet data check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dataset_trees import TREES, MakeTree, write_image, write_labels
from gauntlet.datasets.check import MAX_PROBLEMS, check_dataset


@pytest.mark.parametrize("name", TREES)
def test_every_generated_tree_is_right(name: str, make_tree: MakeTree) -> None:
    report = check_dataset(name, make_tree(name))
    assert report.ok, list(report.lines())
    assert all(split.checked == split.length for split in report.splits)
    assert sum(split.length for split in report.splits) > 0
    json.dumps(report.as_dict())


def test_counts_sizes_and_frequencies(make_tree: MakeTree) -> None:
    root = make_tree("camvid")
    write_image(root / "val/0001TP_00val0.png", size=(3, 4))
    write_labels(root / "valannot/0001TP_00val0.png", [3, 3, 8, 11], size=(3, 4))
    report = check_dataset("camvid", root)
    assert [(split.split, split.length, split.published_length) for split in report.splits] == [
        ("train", 3, 367),
        ("val", 1, 101),
        ("test", 2, 233),
    ]
    val = report.splits[1]
    assert val.sizes == {"3x4": 1}
    assert val.ignored == 0.25
    assert val.frequencies["road"] == pytest.approx(2 / 3)
    assert val.frequencies["car"] == pytest.approx(1 / 3)
    assert val.notes[0] == "the published split has 101 images, this one 1"
    assert val.notes[1].startswith("classes that do not occur: sky, building, pole, pavement, tree and 4 more")


def test_problems_are_collected(make_tree: MakeTree) -> None:
    root = make_tree("camvid")
    write_labels(root / "testannot/0001TP_00test0.png", [77])
    (root / "test/0001TP_00test1.png").write_bytes(b"broken")
    report = check_dataset("camvid", root)
    assert not report.ok
    problems = report.splits[2].problems
    assert len(problems) == 2
    assert "cannot be read as an image" in problems[0]
    assert "holds the value 77" in problems[1]
    assert any("problem: " in line for line in report.lines())


def test_many_problems_are_counted(make_tree: MakeTree) -> None:
    root = make_tree("folder")
    (root / "classes.txt").write_text("a\nb\nc\n")
    for index in range(3, 40):
        write_image(root / f"images/scene/{index}.png")
        write_labels(root / f"masks/scene/{index}.png", [9])
    split = check_dataset(f"folder:{root}").splits[0]
    assert (split.problem_count, len(split.problems), split.checked) == (37, MAX_PROBLEMS, 3)


def test_one_split_is_enough_unless_it_was_asked_for(make_tree: MakeTree) -> None:
    root = make_tree("coco")
    report = check_dataset("coco", root)
    assert report.ok
    assert [split.split for split in report.splits] == ["val", "train"]
    assert "expected 'annotations/instances_train2017.json'" in report.splits[1].notes[0]
    assert not check_dataset("coco", root, split="train").ok


def test_a_wrong_folder_is_one_problem(tmp_path: Path) -> None:
    report = check_dataset("cityscapes", tmp_path)
    assert not report.ok
    assert "expected 'leftImg8bit/train'" in report.splits[0].problems[0]
    missing = check_dataset("cityscapes", tmp_path / "none")
    assert sum(split.problem_count for split in missing.splits) == 1


def test_boxes_are_counted(make_tree: MakeTree) -> None:
    report = check_dataset("coco", make_tree("coco"))
    val = report.splits[0]
    assert (val.objects, val.crowd, val.difficult, val.outside) == (3, 1, 0, 0)
    assert val.frequencies == {"person": 1 / 3, "stop sign": 1 / 3, "toothbrush": 1 / 3}


def test_boxes_that_reach_outside(make_tree: MakeTree) -> None:
    root = make_tree("voc2007")
    path = root / "VOCdevkit/VOC2007/Annotations/2008_000002.xml"
    path.write_text(path.read_text().replace("<xmax>8</xmax>", "<xmax>12</xmax>"))
    assert check_dataset("voc2007", root, split="test").splits[0].outside == 1


def test_limit_reads_less(make_tree: MakeTree) -> None:
    split = check_dataset("acdc", make_tree("acdc"), split="val", limit=2).splits[0]
    assert (split.length, split.checked) == (6, 2)


def test_options_reach_the_dataset(make_tree: MakeTree) -> None:
    split = check_dataset("acdc", make_tree("acdc"), split="val", condition="night").splits[0]
    assert (split.length, split.published_length) == (3, None)
