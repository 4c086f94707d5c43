"""Wrong layouts, missing and broken files, and paths that try to leave the root."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dataset_trees import MakeTree, coco_content, write_image, write_lines
from gauntlet.datasets import load_dataset
from gauntlet.datasets.images import read_image, read_indices
from gauntlet.datasets.tree import LayoutError, check_relative
from gauntlet.errors import GauntletError


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cityscapes", "'leftImg8bit/val' and 'gtFine/val'"),
        ("acdc", "'rgb_anon/fog/val', 'gt/fog/val', "),
        ("bdd100k", "'images/10k/val' and 'labels/sem_seg/masks/val'"),
        ("ade20k", "'images/validation' and 'annotations/validation'"),
        ("camvid", "'test' and 'testannot'"),
        ("voc2012", "'JPEGImages', 'SegmentationClass' and 'ImageSets/Segmentation'"),
        ("voc2007", "'JPEGImages', 'Annotations' and 'ImageSets/Main/test.txt'"),
        ("coco", "'annotations/instances_val2017.json' and 'val2017'"),
        ("lvis", "'annotations/lvis_v1_val.json'"),
        ("folder", "'images' and 'masks'"),
    ],
)
def test_wrong_layout_says_what_was_expected_and_found(name: str, expected: str, tmp_path: Path) -> None:
    for other in ("b", "a"):
        (tmp_path / other).mkdir()
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(LayoutError) as caught:
        load_dataset(name, root=tmp_path)
    message = str(caught.value)
    assert f"expected {expected}" in message
    assert message.endswith("found a/, b/, notes.txt.")
    assert "\n" not in message


def test_a_root_that_is_not_a_folder(tmp_path: Path) -> None:
    with pytest.raises(GauntletError, match="found nothing at"):
        load_dataset("camvid", root=tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(GauntletError, match="found a file at"):
        load_dataset("camvid", root=tmp_path / "file")


def test_only_what_is_missing_is_expected(make_tree: MakeTree) -> None:
    root = make_tree("cityscapes")
    shutil.rmtree(root / "gtFine/val")
    with pytest.raises(LayoutError, match=r"expected 'gtFine/val', found gtFine/, leftImg8bit/\.$"):
        load_dataset("cityscapes", root=root)


def test_images_without_labels_are_counted(make_tree: MakeTree) -> None:
    root = make_tree("cityscapes")
    for path in (root / "gtFine/val/munster").glob("*_labelIds.png"):
        path.unlink()
    with pytest.raises(
        GauntletError, match=r"2 of 4 label files of the dataset 'cityscapes' are missing .* 'gtFine/val/munster/"
    ):
        load_dataset("cityscapes", root=root)


def test_folders_without_images(make_tree: MakeTree) -> None:
    root = make_tree("bdd100k")
    for path in (root / "images/10k/val").iterdir():
        path.rename(path.with_suffix(".png"))
    with pytest.raises(LayoutError, match=r"expected 'images/10k/val/\*\*/\*.jpg', found 0004a4c0-d4dff0ad.png"):
        load_dataset("bdd100k", root=root)


class TestImages:
    @pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK"])
    def test_other_modes_are_converted_with_one_note(
        self, mode: str, make_tree: MakeTree, caplog: pytest.LogCaptureFixture
    ) -> None:
        root = make_tree("folder")
        shutil.rmtree(root / "images")
        for index in range(3):
            write_image(root / f"images/scene/{index}.tif", mode)
        with pytest.raises(GauntletError, match=f"has the mode {mode}, not RGB; convert the file, or .*convert=True"):
            load_dataset("folder", root=root, convert=False)[0]
        assert not caplog.messages
        expected = np.array(Image.open(root / "images/scene/0.tif").convert("RGB"))
        assert (load_dataset("folder", root=root, convert=True)[0].image == expected).all()
        assert not caplog.messages
        samples = list(load_dataset("folder", root=root))
        assert (samples[0].image == expected).all()
        (note,) = caplog.messages
        assert "they are turned into RGB" in note

    def test_the_orientation_tag_is_not_applied(self, tmp_path: Path) -> None:
        pixels = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
        exif = Image.Exif()
        exif[0x0112] = 6  # rotate by 90 degrees to look at it
        Image.fromarray(pixels, "RGB").save(tmp_path / "x.png", exif=exif)
        assert (read_image(tmp_path / "x.png") == pixels).all()
        Image.fromarray(pixels, "RGB").save(tmp_path / "x.jpg", exif=exif)
        assert read_image(tmp_path / "x.jpg").shape == (6, 8, 3)

    @pytest.mark.parametrize("suffix", ["png", "jpg", "bmp"])
    def test_pixels_are_those_that_pillow_reads(self, suffix: str, tmp_path: Path) -> None:
        path = tmp_path / f"bild ö.{suffix}"
        write_image(path, size=(37, 53))
        assert (read_image(path) == np.array(Image.open(path))).all()
        # Bytes after the end of the image are no harm.
        path.write_bytes(path.read_bytes() + b"\0\0")
        assert (read_image(path) == np.array(Image.open(path))).all()

    @pytest.mark.parametrize("suffix", ["png", "jpg"])
    def test_files_that_were_cut_off_are_not_half_read(self, suffix: str, tmp_path: Path) -> None:
        write_image(tmp_path / f"x.{suffix}", size=(64, 64))
        content = (tmp_path / f"x.{suffix}").read_bytes()
        (tmp_path / f"x.{suffix}").write_bytes(content[: 3 * len(content) // 4])
        with pytest.raises(GauntletError, match="cannot be read as an image"):
            read_image(tmp_path / f"x.{suffix}")

    def test_sixteen_bits_are_not_squeezed_into_eight(self, tmp_path: Path) -> None:
        Image.fromarray(np.full((4, 4), 1000, np.uint16)).save(tmp_path / "x.png")
        with pytest.raises(GauntletError, match="expected 8-bit RGB"):
            read_image(tmp_path / "x.png", convert=True)
        assert read_indices(tmp_path / "x.png").max() == 1000

    def test_broken_files(self, make_tree: MakeTree) -> None:
        root = make_tree("camvid")
        content = (root / "test/0001TP_00test1.png").read_bytes()
        (root / "test/0001TP_00test1.png").write_bytes(content[: len(content) // 2])
        with pytest.raises(GauntletError, match=r"0001TP_00test1.png' cannot be read as an image"):
            load_dataset("camvid", root=root)[0]
        (root / "test/0001TP_00test0.png").write_text("<html>not found</html>")
        with pytest.raises(GauntletError, match=r"0001TP_00test0.png' cannot be read as an image"):
            load_dataset("camvid", root=root)[1]


class TestEscapes:
    ESCAPES = ("../secret.png", "/etc/passwd", "train/../../secret.png", "C:/x.png", "..\\secret.png", "\\x.png")

    @pytest.mark.parametrize("path", ESCAPES)
    def test_camvid_list(self, path: str, make_tree: MakeTree) -> None:
        root = make_tree("camvid")
        write_image(root.parent / "secret.png")
        write_lines(root / "test.txt", [f"test/0001TP_00test0.png {path}"])
        with pytest.raises(GauntletError, match="leads out of its folder; paths must be relative"):
            load_dataset("camvid", root=root)

    @pytest.mark.parametrize("path", ESCAPES)
    def test_coco_file_name(self, path: str, make_tree: MakeTree) -> None:
        root = make_tree("coco")
        content = coco_content()
        content["images"] = [{"id": 139, "file_name": path}]
        (root / "annotations/instances_val2017.json").write_text(json.dumps(content))
        with pytest.raises(GauntletError, match="leads out of its folder"):
            load_dataset("coco", root=root)

    @pytest.mark.parametrize("line", ["../2007_000033", "/x", "a/2007_000033", "2007_000033 1"])
    def test_voc_list(self, line: str, make_tree: MakeTree) -> None:
        root = make_tree("voc2012")
        write_lines(root / "VOCdevkit/VOC2012/ImageSets/Segmentation/val.txt", [line])
        with pytest.raises(GauntletError, match=r"leads out of its folder|expected one id a line"):
            load_dataset("voc2012", root=root)

    def test_links_that_lead_out(self, make_tree: MakeTree) -> None:
        root = make_tree("camvid")
        write_image(root.parent / "secret.png")
        (root / "test/0001TP_00test1.png").unlink()
        (root / "test/0001TP_00test1.png").symlink_to(root.parent / "secret.png")
        with pytest.raises(GauntletError, match="is a link that leads out of"):
            load_dataset("camvid", root=root)[0]

    def test_folders_that_are_links(self, make_tree: MakeTree, tmp_path: Path) -> None:
        root = make_tree("camvid")
        (root / "test").rename(tmp_path / "elsewhere")
        (root / "test").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(GauntletError, match="is a link that leads out of"):
            load_dataset("camvid", root=root)[0]
        # The root itself may be a link, and links inside of it may point to its inside.
        (root / "test").unlink()
        (tmp_path / "elsewhere").rename(root / "pictures")
        (root / "test").symlink_to(root / "pictures")
        (tmp_path / "link").symlink_to(root)
        assert load_dataset("camvid", root=tmp_path / "link")[0].image.shape == (6, 8, 3)

    def test_circles_of_links_end(self, make_tree: MakeTree) -> None:
        root = make_tree("folder")
        (root / "images/scene/again").symlink_to(root / "images")
        (root / "images/scene/here").symlink_to(root / "images/scene")
        assert list(load_dataset("folder", root=root).ids()) == ["scene/0", "scene/1", "scene/2"]

    @settings(deadline=None, max_examples=60)
    @given(st.lists(st.sampled_from(["..", ".", "a", "b.png", "", "/", "\\", "C:"]), min_size=1, max_size=6))
    def test_an_accepted_path_stays_inside(self, parts: list[str]) -> None:
        path = "/".join(parts)
        try:
            check_relative(path, "the list")
        except GauntletError:
            return
        inside = os.path.normpath(os.path.join("/root/data", path.replace("\\", "/")))
        assert inside == "/root/data" or inside.startswith("/root/data/")


class TestDetection:
    def test_voc_boxes(self, make_tree: MakeTree) -> None:
        dataset = load_dataset("voc2007", root=make_tree("voc2007"))
        boxes = dataset[0].boxes
        assert boxes is not None
        # (xmin - 1, ymin - 1, xmax, ymax): widths xmax - xmin + 1, as VOC counts; the dog's head is no object.
        assert boxes.xyxy.tolist() == [[0, 1, 8, 6], [1, 2, 2, 3]]
        assert [dataset.box_class_names[index] for index in boxes.classes] == ["dog", "tvmonitor"]
        assert boxes.difficult is not None
        assert boxes.difficult.tolist() == [False, True]
        assert boxes.crowd is None

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("<name>dog</name>", "<name>wolf</name>", "names the class 'wolf'"),
            ("<xmin>1</xmin><ymin>2", "<xmin>one</xmin><ymin>2", "has no box"),
            ("<xmax>8</xmax>", "<xmax>0</xmax>", r"has the box \(1, 2, 0, 6\); expected xmin <= xmax"),
            ("</annotation>", "", "cannot be read as XML"),
            ("<annotation>", '<!DOCTYPE a [<!ENTITY b "b">]><annotation>', "has a document type"),
        ],
    )
    def test_broken_voc_annotations(self, old: str, new: str, message: str, make_tree: MakeTree) -> None:
        root = make_tree("voc2007")
        path = root / "VOCdevkit/VOC2007/Annotations/2008_000002.xml"
        path.write_text(path.read_text().replace(old, new))
        with pytest.raises(GauntletError, match=message):
            load_dataset("voc2007", root=root)[0]

    def test_coco_boxes(self, make_tree: MakeTree) -> None:
        dataset = load_dataset("coco", root=make_tree("coco"))
        assert dataset.box_class_names == dataset.class_names == ("person", "stop sign", "toothbrush")
        boxes = dataset[0].boxes
        assert boxes is not None
        assert boxes.xyxy.tolist() == [[1.5, 2, 4.5, 4.25], [0, 0, 8, 6], [2, 2, 2, 3]]
        assert boxes.classes.tolist() == [2, 0, 1]
        assert boxes.crowd is not None
        assert boxes.crowd.tolist() == [False, True, False]
        assert boxes.areas.tolist() == [5, 48, 0]  # as annotated, not 3 x 2.25
        # An image without objects has none, not None; and a greyscale photograph, as COCO has some, comes as RGB.
        assert dataset[1].boxes is not None
        assert len(dataset[1].boxes) == 0

    def test_coco_images_in_a_folder_of_their_own(self, make_tree: MakeTree) -> None:
        root = make_tree("coco")
        (root / "images").mkdir()
        (root / "val2017").rename(root / "images/val2017")
        assert list(load_dataset("coco", root=root).ids()) == ["000000000139", "000000000285"]

    def test_small_coco_set(self, make_tree: MakeTree) -> None:
        root = make_tree("coco")
        (root / "val2017").rename(root / "images")
        (root / "annotations/instances_val2017.json").rename(root / "instances.json")
        dataset = load_dataset("coco", root=root)
        assert (dataset.split, len(dataset)) == ("all", 2)
        assert "content" in dataset.identity.protocol

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"annotations": [{"id": 5, "image_id": 139, "category_id": 7, "bbox": [0, 0, 1, 1]}]}, "the category 7"),
            ({"annotations": [{"id": 5, "image_id": 8, "category_id": 1, "bbox": [0, 0, 1, 1]}]}, "the image 8"),
            (
                {"annotations": [{"id": 5, "image_id": 139, "category_id": 1, "bbox": [0, 0, -1, 1]}]},
                r"the annotation 5 .* has the box \[0, 0, -1, 1\]",
            ),
            ({"annotations": [{"id": 5, "image_id": 139, "category_id": 1}]}, "lacks the field 'bbox'"),
            ({"images": [{"id": 139}], "annotations": []}, "lacks the field 'file_name'"),
            ({"images": [{"id": "a1", "file_name": "x.jpg"}]}, "is not in COCO's form"),
            ({"categories": None}, "expected the lists 'images', 'categories' and 'annotations'"),
        ],
    )
    def test_broken_coco_files(self, change: dict[str, object], message: str, make_tree: MakeTree) -> None:
        root = make_tree("coco")
        (root / "annotations/instances_val2017.json").write_text(json.dumps({**coco_content(), **change}))
        with pytest.raises(GauntletError, match=message):
            load_dataset("coco", root=root)

    def test_missing_coco_images(self, make_tree: MakeTree) -> None:
        root = make_tree("coco")
        (root / "val2017/000000000285.jpg").unlink()
        with pytest.raises(GauntletError, match=re.escape("1 of 2 images of the dataset 'coco' are missing")):
            load_dataset("coco", root=root)

    def test_lvis_images_in_a_folder_of_their_own(self, make_tree: MakeTree) -> None:
        root = make_tree("lvis")
        before = list(load_dataset("lvis", root=root).ids())
        (root / "images").mkdir()
        for name in ("train2017", "val2017"):
            (root / name).rename(root / "images" / name)
        dataset = load_dataset("lvis", root=root)
        assert list(dataset.ids()) == before == ["train2017/000000000139", "val2017/000000000285"]
        assert dataset[0].image.shape == (6, 8, 3)

    def test_lvis_keeps_what_was_verified(self, make_tree: MakeTree) -> None:
        from gauntlet.datasets.lvis import LVIS

        dataset = LVIS(make_tree("lvis"))
        assert dataset[0].image.shape == (6, 8, 3)
        first = dataset.verified["train2017/000000000139"]
        # Categories 1, 13, 90 are the classes 0, 1, 2.
        assert (first.absent, first.incomplete) == (frozenset({1}), frozenset({0, 2}))
        assert dataset.verified["val2017/000000000285"].absent == frozenset()
        boxes = dataset[0].boxes
        assert boxes is not None
        assert boxes.classes.tolist() == [2, 0, 1]
