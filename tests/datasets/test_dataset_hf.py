"""Hugging Face datasets: with the library where it is installed, the message where it is not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gauntlet.datasets import load_dataset
from gauntlet.errors import GauntletError

pytestmark = pytest.mark.zoo


def installed_library() -> Any:
    library = pytest.importorskip("datasets")
    # Without the library, the folder of these tests imports under its name.
    if not hasattr(library, "load_dataset"):
        pytest.skip("the package 'datasets' is not installed")
    return library


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(GauntletError, match="need the package 'datasets'; install it with 'pip install datasets'"):
        load_dataset("hf:owner/name", classes=3)


class Rows:
    """What the library's Dataset offers that is used here: columns, features, length, rows as dictionaries."""

    def __init__(self, rows: list[dict[str, Any]], features: dict[str, Any] | None = None) -> None:
        self.rows = rows
        self.column_names = list(rows[0])
        self.features = features or {}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


class Library:
    """A stand-in for the library."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.asked: list[tuple[object, ...]] = []

    def load_dataset(self, name: str, config: str | None, *, split: str, revision: str | None) -> Rows:
        self.asked.append((name, config, split, revision))
        if split == "missing":
            raise RuntimeError("Bad split: missing.\nmore lines")
        return self.rows


def picture(mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (8, 6))


def mask(*values: int) -> Image.Image:
    return Image.fromarray(np.resize(np.array(values, np.uint8), (6, 8)), "L")


def install(monkeypatch: pytest.MonkeyPatch, rows: Rows) -> Library:
    library = Library(rows)
    monkeypatch.setitem(sys.modules, "datasets", library)
    return library


def test_label_images(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows([{"image": picture(), "annotation": mask(0, 1, 2)}, {"image": picture("L"), "annotation": mask(9)}])
    library = install(monkeypatch, rows)
    dataset = load_dataset(
        "hf:owner/name", split="train", classes=["a", "b"], reduce_zero_label=True, revision="v1", config="small"
    )
    assert library.asked == [("owner/name", "small", "train", "v1")]
    assert (dataset.name, dataset.split, dataset.class_names) == ("hf:owner/name", "train", ("a", "b"))
    assert dataset.protocol == {"revision": "v1", "config": "small", "reduce_zero": True}
    assert list(dataset.ids()) == ["000000", "000001"]
    labels = dataset[0].labels
    assert labels is not None
    assert labels.ravel()[:3].tolist() == [255, 0, 1]
    with pytest.raises(GauntletError, match=r"image 000001 .* has the mode L, not RGB"):
        load_dataset("hf:owner/name", classes=2, convert=False)[1]
    converted = load_dataset("hf:owner/name", classes=2)
    with pytest.raises(GauntletError, match="holds the value 9; expected 0 to 1, and 255"):
        converted[1]


def test_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    class Classes:
        names = ("coverall", "mask")

    objects = {"bbox": [[1, 2, 3, 4]], "category": [1]}
    rows = Rows([{"image": picture(), "objects": objects}], {"objects": {"category": Classes()}})
    install(monkeypatch, rows)
    dataset = load_dataset("hf:owner/name")
    assert dataset.box_class_names == ("coverall", "mask")
    boxes = dataset[0].boxes
    assert boxes is not None
    assert boxes.xyxy.tolist() == [[1, 2, 4, 6]]
    with pytest.raises(GauntletError, match="an object of the class 1; expected 0 to 0"):
        load_dataset("hf:owner/name", classes=1)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "does not say what its labels mean; give classes"),
        ({"classes": 2, "image": "photo"}, "no column of images: expected 'photo', found image, annotation"),
        ({"classes": 2, "labels": "seg"}, "no column of label images: expected 'seg'"),
        ({"classes": 2, "split": "missing"}, r"could not be loaded: Bad split: missing\.\.$"),
    ],
)
def test_errors(options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Rows([{"image": picture(), "annotation": mask(0)}]))
    with pytest.raises(GauntletError, match=message):
        load_dataset("hf:owner/name", **options)


def test_with_the_library(tmp_path: Path) -> None:
    library = installed_library()
    features = library.Features({"image": library.Image(), "label": library.Image()})
    rows = {"image": [picture(), picture()], "label": [mask(0, 1), mask(1, 255)]}
    library.DatasetDict({"validation": library.Dataset.from_dict(rows, features=features)}).save_to_disk(tmp_path / "d")
    dataset = load_dataset(f"hf:{tmp_path / 'd'}", classes=2)
    assert (dataset.name, len(dataset)) == ("hf:d", 2)
    labels = dataset[1].labels
    assert labels is not None
    assert labels.ravel()[:2].tolist() == [1, 255]
    with pytest.raises(GauntletError, match="has no split 'test'; it has validation"):
        load_dataset(f"hf:{tmp_path / 'd'}", split="test", classes=2)


def test_objects_with_the_library(tmp_path: Path) -> None:
    library = installed_library()
    boxes, kinds = library.List(library.List(library.Value("float32"))), library.ClassLabel(names=["a", "b"])
    features = library.Features({"image": library.Image(), "objects": {"bbox": boxes, "category": library.List(kinds)}})
    rows = {"image": [picture()], "objects": [{"bbox": [[0, 1, 2, 3]], "category": [1]}]}
    library.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "d")
    dataset = load_dataset(f"hf:{tmp_path / 'd'}")
    assert dataset.box_class_names == ("a", "b")
    actual = dataset[0].boxes
    assert actual is not None
    assert (actual.xyxy.tolist(), actual.classes.tolist()) == ([[0, 1, 2, 4]], [1])
