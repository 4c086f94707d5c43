"""Label encodings: what is stored, what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dataset_trees import MakeTree, write_image, write_labels, write_lines
from gauntlet.datasets import load_dataset
from gauntlet.datasets.cityscapes import CLASS_NAMES, COLORS, LABEL_IDS
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.label_numbers import LabelTable
from gauntlet.errors import GauntletError

# cityscapesScripts, helpers/labels.py: the trainId of every id from 0 to 33.
TRAIN_ID_OF_ID = [
    255, 255, 255, 255, 255, 255, 255, 0, 1, 255, 255, 2, 3, 4, 255, 255, 255,
    5, 255, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255, 255, 16, 17, 18,
]  # fmt: skip


def test_cityscapes_table_is_the_official_one(make_tree: MakeTree) -> None:
    assert len(TRAIN_ID_OF_ID) == 34
    stored = np.arange(34, dtype=np.uint8).reshape(2, 17)
    assert LABEL_IDS.apply(stored, Path("x")).ravel().tolist() == TRAIN_ID_OF_ID
    labels = load_dataset("cityscapes", root=make_tree("cityscapes"))[0].labels
    assert labels is not None
    assert labels.dtype == np.uint8
    assert labels.ravel()[:34].tolist() == TRAIN_ID_OF_ID
    assert len(CLASS_NAMES) == len(COLORS) == 19
    assert (CLASS_NAMES[0], COLORS[0]) == ("road", (128, 64, 128))
    assert (CLASS_NAMES[18], COLORS[18]) == ("bicycle", (119, 11, 32))


def test_voc_palettes_are_read_as_indices(make_tree: MakeTree) -> None:
    dataset = load_dataset("voc2012", root=make_tree("voc2012"))
    labels = dataset[0].labels
    assert labels is not None
    assert labels.ravel()[:22].tolist() == [*range(21), 255]
    assert dataset.background_index == 0
    assert dataset.num_classes == 21
    # The published palette: background, aeroplane, bicycle, ..., person (15), tvmonitor (20).
    colors = [dataset.colors[index] for index in (0, 1, 2, 15, 20)]
    assert colors == [(0, 0, 0), (128, 0, 0), (0, 128, 0), (192, 128, 128), (0, 64, 128)]


def test_voc_augmented_training_set(make_tree: MakeTree) -> None:
    root = make_tree("voc2012")
    dataset = load_dataset("voc2012", root=root, split="trainaug")
    assert list(dataset.ids()) == ["2007_000032", "2008_000002", "2009_000001"]
    assert all(sample.labels is not None and sample.labels.max() == 255 for sample in dataset)
    # A single list, and labels for all in the augmented folder, is the other common layout.
    base = root / "VOCdevkit/VOC2012"
    write_lines(base / "ImageSets/Segmentation/trainaug.txt", ["2009_000001", "2007_000032"])
    write_labels(base / "SegmentationClassAug/2007_000032.png", [3])
    dataset = load_dataset("voc2012", root=base, split="trainaug")
    assert list(dataset.ids()) == ["2009_000001", "2007_000032"]
    labels = dataset[1].labels
    assert labels is not None
    assert set(labels.ravel()) == {3}


def test_voc_reduced_validation_set_is_the_users_list(make_tree: MakeTree) -> None:
    root = make_tree("voc2012")
    with pytest.raises(GauntletError, match=r"reduced-val\.txt"):
        load_dataset("voc2012", root=root, split="reduced-val")
    everything = list(load_dataset("voc2012", root=root).ids())
    write_lines(root / "VOCdevkit/VOC2012/ImageSets/Segmentation/reduced-val.txt", everything[-1:])
    assert list(load_dataset("voc2012", root=root, split="reduced-val").ids()) == everything[-1:]


def test_ade20k_zero_is_ignored_and_the_rest_shifted(make_tree: MakeTree) -> None:
    dataset = load_dataset("ade20k", root=make_tree("ade20k"))
    labels = dataset[0].labels
    assert labels is not None
    assert labels.ravel().tolist() == [255, *range(47)]
    assert dataset.num_classes == 150
    assert (dataset.class_names[0], dataset.class_names[20], dataset.class_names[149]) == ("wall", "car", "flag")
    assert (dataset.colors[0], dataset.colors[149]) == ((120, 120, 120), (92, 0, 255))
    # The greyscale photograph of the tree comes as RGB.
    assert (np.ptp(dataset[2].image.astype(int), axis=2) == 0).all()


def test_camvid_void_is_ignored(make_tree: MakeTree) -> None:
    dataset = load_dataset("camvid", root=make_tree("camvid"))
    labels = dataset[0].labels
    assert labels is not None
    assert labels.ravel()[:12].tolist() == [*range(11), 255]
    assert (dataset.num_classes, dataset.class_names[3], dataset.colors[10]) == (11, "road", (0, 128, 192))


def test_acdc_conditions(make_tree: MakeTree) -> None:
    root = make_tree("acdc")
    night = load_dataset("acdc", root=root, condition="night", split="train")
    assert [name.split("/")[0] for name in night.ids()] == ["night"] * 3
    labels = night[0].labels
    assert labels is not None
    assert labels.ravel()[:20].tolist() == [*range(19), 255]


def test_bdd100k_first_release(make_tree: MakeTree) -> None:
    dataset = load_dataset("bdd100k", root=make_tree("bdd100k-first"))
    assert list(dataset.ids()) == ["0004a4c0-d4dff0ad", "00054602-3bf57337"]
    labels = dataset[1].labels
    assert labels is not None
    assert labels.ravel()[:20].tolist() == [*range(19), 255]


@pytest.mark.parametrize(
    ("name", "file", "value", "expected"),
    [
        ("cityscapes", "gtFine/val/munster/munster_000001_000019_gtFine_labelIds.png", 34, "labelIds 0 to 33"),
        ("acdc", "gt/snow/val/GOPR00/GOPR00_frame_000000_gt_labelTrainIds.png", 19, "0 to 18, and 255"),
        ("bdd100k", "labels/sem_seg/masks/val/00054602-3bf57337.png", 99, "0 to 18, and 255"),
        ("ade20k", "ADEChallengeData2016/annotations/validation/ADE_val_00000003.png", 151, r"0 \(other\) to 150"),
        ("camvid", "testannot/0001TP_00test0.png", 12, r"0 to 10 and 11 \(void\)"),
        ("voc2012", "VOCdevkit/VOC2012/SegmentationClass/2007_000033.png", 21, "0 to 20, and 255"),
        ("folder", "masks/scene/2.png", 3, "0 to 2, and 255"),
    ],
)
def test_a_label_outside_the_classes_names_file_and_value(
    name: str, file: str, value: int, expected: str, make_tree: MakeTree
) -> None:
    root = make_tree(name)
    write_labels(root / file, [0, value])
    dataset = load_dataset(name, root=root)
    with pytest.raises(GauntletError, match=rf"{Path(file).name}' holds the value {value}; expected .*{expected}"):
        dataset[-1]


def test_label_images_with_colours_are_refused(make_tree: MakeTree) -> None:
    root = make_tree("camvid")
    write_image(root / "testannot/0001TP_00test0.png")
    with pytest.raises(GauntletError, match="has the mode RGB; expected one channel of class indices"):
        load_dataset("camvid", root=root)[1]


def test_labels_of_another_size_than_the_image(make_tree: MakeTree) -> None:
    root = make_tree("camvid")
    write_labels(root / "testannot/0001TP_00test0.png", [0], size=(6, 7))
    with pytest.raises(GauntletError, match=r"labels of image '0001TP_00test0' have the shape \(6, 7\)"):
        load_dataset("camvid", root=root)[1]


@settings(deadline=None, max_examples=60)
@given(
    classes=st.integers(1, 300),
    ignore=st.sampled_from([None, 0, 254, 255, 65535]),
    reduce=st.booleans(),
    value=st.integers(-3, 70000),
)
def test_plain_tables(classes: int, ignore: int | None, reduce: bool, value: int) -> None:
    first = int(reduce)
    if ignore is not None and first <= ignore < classes + first:
        with pytest.raises(GauntletError, match=f"ignore_index {ignore} is the value of a class in these masks"):
            LabelTable.plain(classes, ignore_index=ignore, reduce_zero_label=reduce)
        return
    table = LabelTable.plain(classes, ignore_index=ignore, reduce_zero_label=reduce)
    stored = np.array([[value]], dtype=np.int64)
    void = ignore if ignore is not None else 255 if classes + first <= 255 else 65535
    if first <= value < classes + first:
        expected = value - first
    elif value == void or (reduce and value == 0):
        expected = table.void
        assert expected >= classes
        assert expected in (void, 255, 65535)
    else:
        with pytest.raises(GauntletError, match=f"holds the value {value};"):
            table.apply(stored, Path("mask.png"))
        return
    assert table.apply(stored, Path("mask.png")).tolist() == [[expected]]


class TestFolder:
    def test_class_file(self, make_tree: MakeTree) -> None:
        dataset = load_dataset("folder", root=make_tree("folder"))
        assert dataset.class_names == ("sky", "sign symbol", "road")
        assert dataset.name == "folder:folder"
        labels = dataset[0].labels
        assert labels is not None
        assert labels.ravel()[:4].tolist() == [0, 1, 2, 255]

    def test_classes_counted_in_the_masks_without_a_class_file(self, make_tree: MakeTree) -> None:
        root = make_tree("folder")
        (root / "classes.txt").unlink()
        write_labels(root / "masks/scene/2.png", [6, 255])
        assert load_dataset("folder", root=root).class_names == tuple(f"class {index}" for index in range(7))
        assert load_dataset("folder", root=root, classes="9").num_classes == 9
        assert load_dataset("folder", root=root, classes=list("abcdefg")).class_names == tuple("abcdefg")
        with pytest.raises(GauntletError, match="must be different names or a number from 1, not 'many'"):
            load_dataset("folder", root=root, classes="many")

    def test_reduce_zero_label_and_ignore_index(self, make_tree: MakeTree) -> None:
        root = make_tree("folder")
        dataset = load_dataset("folder", root=root, reduce_zero_label=True, classes=2)
        labels = dataset[0].labels
        assert labels is not None
        assert labels.ravel()[:4].tolist() == [255, 0, 1, 255]
        other = load_dataset("folder", root=root, ignore_index=2, classes=2)
        write_labels(root / "masks/scene/0.png", [0, 1, 2])
        labels = other[0].labels
        assert labels is not None
        assert (labels.ravel()[:3].tolist(), other.ignore_index) == ([0, 1, 2], 2)
        assert dataset.identity != other.identity

    def test_splits_in_both_layouts(self, tmp_path: Path) -> None:
        for place in ("images/val", "val/images"):
            root = tmp_path / place.replace("/", "-")
            write_image(root / place / "a.png")
            write_labels(root / place.replace("images", "labels") / "a.png", [0, 1])
            dataset = load_dataset("folder", root=root, split="val")
            assert (dataset.split, list(dataset.ids()), dataset.num_classes) == ("val", ["a"], 2)

    def test_colour_masks_by_the_class_file(self, make_tree: MakeTree) -> None:
        root = make_tree("folder")
        for index in range(3):
            pixels = np.zeros((6, 8, 3), np.uint8)
            pixels[0] = (128, 64, 128)
            pixels[1] = (70, 130, 180)
            Image.fromarray(pixels, "RGB").save(root / f"masks/scene/{index}.png")
        with pytest.raises(GauntletError, match="is a colour image; expected class indices, or a class file"):
            load_dataset("folder", root=root)
        write_lines(root / "classes.txt", ["road 128 64 128", "sky, 70, 130, 180"])
        with pytest.raises(GauntletError, match=r"0.png' holds the colour \(0, 0, 0\).*'ignore 0 0 0'"):
            load_dataset("folder", root=root)[0]
        write_lines(root / "classes.txt", ["ignore 0 0 0", "road 128 64 128", "sky, 70, 130, 180"])
        dataset = load_dataset("folder", root=root)
        assert (dataset.class_names, dataset.colors) == (("road", "sky"), ((128, 64, 128), (70, 130, 180)))
        labels = dataset[0].labels
        assert labels is not None
        assert labels[:3, 0].tolist() == [0, 1, 255]

    def test_json_class_file(self, make_tree: MakeTree) -> None:
        root = make_tree("folder")
        (root / "classes.txt").unlink()
        (root / "classes.json").write_text('["a", {"name": "b"}, "c"]')
        assert load_dataset("folder", root=root).class_names == ("a", "b", "c")
        (root / "classes.json").write_text('{"a": 0}')
        with pytest.raises(GauntletError, match="holds a dict; expected a list of names"):
            load_dataset("folder", root=root)

    @pytest.mark.parametrize("lines", [["a", "a"], ["a 1 2 3", "b"], ["a 1 2 3", "b 1 2 3"], ["a 1 2 300"]])
    def test_contradicting_class_files(self, lines: list[str], make_tree: MakeTree) -> None:
        root = make_tree("folder")
        write_lines(root / "classes.txt", lines)
        with pytest.raises(GauntletError, match=r"the class file '.*classes.txt' must"):
            load_dataset("folder", root=root)

    def test_two_images_with_one_name(self, make_tree: MakeTree) -> None:
        root = make_tree("folder")
        write_image(root / "images/scene/1.bmp")
        with pytest.raises(GauntletError, match="two images with the id 'scene/1'"):
            load_dataset("folder", root=root)


class TestVoidIsNoClass:
    """Void has a label outside the classes, whatever the masks call it (issue 39, 6)."""

    @staticmethod
    def folder(root: Path, values: list[int], **options: Any) -> Dataset:
        write_image(root / "images/a.png", size=(1, len(values)))
        (root / "masks").mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.array([values], np.uint16)).save(root / "masks/a.png")
        return load_dataset("folder", root=root, **options)

    def test_more_than_255_classes(self, tmp_path: Path) -> None:
        dataset = self.folder(tmp_path, [0, 255, 299, 65535], classes=300)
        assert dataset[0].labels is not None
        assert dataset[0].labels.tolist() == [[0, 255, 299, 65535]]
        assert dataset.ignore_index == 65535
        assert dataset.protocol["labels"]["ignore"] == 65535  # results of the old reading have another key
        counted = load_dataset("folder", root=tmp_path)
        assert (counted.num_classes, counted.ignore_index) == (300, 65535)
        with pytest.raises(GauntletError, match=r"ignore_index 255 is the value of a class .*\(0 to 299\)"):
            self.folder(tmp_path, [0], classes=300, ignore_index=255)

    def test_zero_as_void_beside_classes_from_one(self, tmp_path: Path) -> None:
        dataset = self.folder(tmp_path, [0, 1, 2, 0], classes=2, reduce_zero_label=True, ignore_index=0)
        assert dataset[0].labels is not None
        assert dataset[0].labels.tolist() == [[255, 0, 1, 255]]  # was [[0, 0, 1, 0]]: void was the first class
        assert dataset.ignore_index == 255
        assert dataset.protocol["labels"] == {"classes": 2, "ignore": 0, "void": 255, "reduce_zero": True}
        with pytest.raises(GauntletError, match="say reduce_zero_label=True where 0 counts for nothing"):
            self.folder(tmp_path, [0, 1, 2, 0], classes=3, ignore_index=0)

    def test_what_was_right_keeps_its_identity(self, tmp_path: Path) -> None:
        given = self.folder(tmp_path, [0, 1, 9], classes=2, ignore_index=9)
        assert given.protocol["labels"] == {"classes": 2, "ignore": 9, "reduce_zero": False}
        assert given.ignore_index == 9
        usual = self.folder(tmp_path, [0, 1, 255], classes=2)
        assert usual.protocol["labels"] == {"classes": 2, "ignore": 255, "reduce_zero": False}

    def test_colours_that_count_for_nothing(self, tmp_path: Path) -> None:
        write_image(tmp_path / "images/a.png", size=(1, 3))
        (tmp_path / "masks").mkdir()
        mask = np.array([[[9, 0, 0], [0, 9, 0], [0, 0, 9]]], np.uint8)
        Image.fromarray(mask).save(tmp_path / "masks/a.png")
        write_lines(tmp_path / "classes.txt", ["car 9 0 0", "ignore 0 9 0", "road 0 0 9"])
        dataset = load_dataset("folder", root=tmp_path, ignore_index=7)
        assert dataset[0].labels is not None
        assert dataset[0].labels.tolist() == [[0, 7, 1]]
        with pytest.raises(GauntletError, match="ignore_index 0 is the value of a class"):
            load_dataset("folder", root=tmp_path, ignore_index=0)
