"""The real CamVid and the small part of COCO, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gauntlet.datasets import load_dataset
from gauntlet.datasets.check import check_dataset

REAL = Path(__file__).resolve().parents[2] / "../shared/realdata"

needs_camvid = pytest.mark.skipif(not (REAL / "camvid").is_dir(), reason="../shared/realdata is not here")
needs_coco = pytest.mark.skipif(not (REAL / "coco_val").is_dir(), reason="../shared/realdata is not here")


@needs_camvid
@pytest.mark.parametrize(("split", "length"), [("train", 367), ("val", 101), ("test", 233)])
def test_camvid_splits(split: str, length: int) -> None:
    dataset = load_dataset("camvid", root=REAL / "camvid", split=split)
    assert len(dataset) == len(set(dataset.ids())) == length
    sample = dataset[0]
    assert sample.image.shape == (360, 480, 3)
    assert sample.labels is not None
    assert set(np.unique(sample.labels)) <= {*range(11), 255}


@needs_camvid
def test_camvid_order_is_that_of_the_list() -> None:
    listed = (REAL / "camvid/test.txt").read_text().split()
    ids = load_dataset("camvid", root=REAL / "camvid").ids()
    assert ids == [Path(image).stem for image in listed[::2]]


@needs_camvid
def test_camvid_check() -> None:
    report = check_dataset("camvid", REAL / "camvid", limit=20)
    assert report.ok
    # Most of a road image is road, building, sky and trees.
    frequencies = report.splits[2].frequencies
    assert sum(frequencies[name] for name in ("road", "building", "sky", "tree")) > 0.7


@needs_coco
def test_coco_part() -> None:
    dataset = load_dataset("coco", root=REAL / "coco_val")
    assert (len(dataset), len(dataset.box_class_names)) == (177, 80)
    assert (dataset.box_class_names[0], dataset.box_class_names[79]) == ("person", "toothbrush")
    objects = crowd = 0
    for sample in dataset:
        assert sample.boxes is not None
        objects += len(sample.boxes)
        crowd += 0 if sample.boxes.crowd is None else int(sample.boxes.crowd.sum())
        limits = np.array([sample.image.shape[1], sample.image.shape[0]] * 2)
        assert (sample.boxes.xyxy >= 0).all()
        assert (sample.boxes.xyxy <= limits + 1).all()
    assert (objects, crowd) == (1284, 10)
