"""Masks of a folder in every encoding: read as what they are, or refused with both readings."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from dataset_trees import write_image, write_lines
from gauntlet.datasets import load_dataset
from gauntlet.datasets.tree import IMAGE_SUFFIXES
from gauntlet.errors import GauntletError

TRUTH = np.resize(np.array([0, 1, 2, 1, 0], np.uint8), (6, 8))
COLORS = np.array([(128, 64, 128), (70, 130, 180), (0, 0, 0)], np.uint8)
COLORED_LINES = ["road 128 64 128", "sky 70 130 180", "car 0 0 0"]


def photographs(root: Path, count: int = 1) -> Path:
    """A folder with images only; returns the place of the masks."""
    for index in range(count):
        write_image(root / f"images/{index}.png", seed=index)
    (root / "masks").mkdir()
    return root / "masks"


def labels_of(root: Path, index: int = 0, **options: Any) -> list[list[int]]:
    labels = load_dataset("folder", root=root, **options)[index].labels
    assert labels is not None
    return labels.tolist()  # type: ignore[no-any-return]


def packed_png(values: npt.NDArray[np.uint8], bits: int) -> bytes:
    """A greyscale PNG with fewer than 8 bits a pixel, written by hand: Pillow writes none."""
    shifts = np.arange(8 // bits)[::-1] * bits
    rows = [bytes((row.reshape(-1, 8 // bits) << shifts).sum(axis=1).astype(np.uint8)) for row in values]

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], bits, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def palette_mask(path: Path, positions: npt.NDArray[np.uint8], colors: npt.NDArray[np.uint8]) -> None:
    image = Image.fromarray(positions, "P")
    image.putpalette(colors.ravel().tolist())
    image.save(path)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_grey_masks_of_any_depth_hold_what_they_store(bits: int, tmp_path: Path) -> None:
    values = TRUTH % 2 if bits == 1 else TRUTH
    (photographs(tmp_path) / "0.png").write_bytes(packed_png(values, bits))
    assert labels_of(tmp_path, classes=3) == values.tolist()


def test_a_colour_mask_saved_with_a_palette_is_read_by_its_colours(tmp_path: Path) -> None:
    masks = photographs(tmp_path)
    write_lines(tmp_path / "classes.txt", COLORED_LINES)
    # A program that saves few colours numbers them as it meets them, not as the classes are.
    order = np.array([2, 0, 1], np.uint8)  # position of each class
    palette_mask(masks / "0.png", order[TRUTH], COLORS[np.argsort(order)])
    assert labels_of(tmp_path) == TRUTH.tolist()
    assert labels_of(tmp_path, masks="indices") == order[TRUTH].tolist()


def test_a_palette_without_the_colours_of_the_classes_holds_class_numbers(tmp_path: Path) -> None:
    masks = photographs(tmp_path)
    write_lines(tmp_path / "classes.txt", COLORED_LINES)
    palette_mask(masks / "0.png", TRUTH, np.array([(0, 0, 0), (128, 0, 0), (0, 128, 0)], np.uint8))
    assert labels_of(tmp_path) == TRUTH.tolist()


def test_colours_and_palettes_and_grey_may_stand_side_by_side(tmp_path: Path) -> None:
    masks = photographs(tmp_path, 3)
    write_lines(tmp_path / "classes.txt", COLORED_LINES)
    Image.fromarray(TRUTH, "L").save(masks / "0.png")
    Image.fromarray(COLORS[TRUTH], "RGB").save(masks / "1.png")
    Image.fromarray(TRUTH.T.copy().reshape(TRUTH.shape), "L").save(masks / "2.png")
    assert labels_of(tmp_path, 0) == labels_of(tmp_path, 1) == TRUTH.tolist()


def test_masks_with_different_readings_are_refused(tmp_path: Path) -> None:
    masks = photographs(tmp_path, 2)
    write_lines(tmp_path / "classes.txt", COLORED_LINES)
    other = np.array([3, 5, 4], np.uint8)  # numbers beyond the classes: only the colours can be meant
    colors = np.zeros((6, 3), np.uint8)
    colors[other] = COLORS
    palette_mask(masks / "0.png", other[TRUTH], colors)
    Image.fromarray(TRUTH, "L").save(masks / "1.png")
    with pytest.raises(GauntletError, match=r"1.png' can be read only as class numbers.*masks='indices' or"):
        load_dataset("folder", root=tmp_path)


def test_a_later_mask_with_another_reading_is_refused(tmp_path: Path) -> None:
    masks = photographs(tmp_path, 40)
    write_lines(tmp_path / "classes.txt", COLORED_LINES)
    for index in range(40):
        palette_mask(masks / f"{index}.png", TRUTH, np.array([(1, 1, 1), (2, 2, 2), (3, 3, 3)], np.uint8))
    ids = list(load_dataset("folder", root=tmp_path).ids())
    far = np.array([7, 8, 9], np.uint8)
    colors = np.zeros((10, 3), np.uint8)
    colors[far] = COLORS
    palette_mask(masks / f"{ids[1]}.png", far[TRUTH], colors)  # none of those that are looked at first
    dataset = load_dataset("folder", root=tmp_path)
    assert dataset[0].labels is not None
    with pytest.raises(GauntletError, match="masks='indices' or masks='colors'"):
        dataset[1]


def test_a_first_line_called_ignore_is_value_0(tmp_path: Path) -> None:
    masks = photographs(tmp_path)
    write_lines(tmp_path / "classes.txt", ["# classes of the survey", "ignore", "sky", "road"])
    Image.fromarray(TRUTH, "L").save(masks / "0.png")
    dataset = load_dataset("folder", root=tmp_path)
    assert dataset.class_names == ("sky", "road")
    assert labels_of(tmp_path) == np.array([255, 0, 1])[TRUTH].tolist()
    assert labels_of(tmp_path, reduce_zero_label=True) == labels_of(tmp_path)


def test_a_first_line_called_ignore_with_two_readings_is_asked_about(tmp_path: Path) -> None:
    masks = photographs(tmp_path)
    write_lines(tmp_path / "classes.txt", ["ignore 0 0 0", "sky 1 2 3", "road 4 5 6"])
    Image.fromarray(TRUTH % 2, "L").save(masks / "0.png")
    with pytest.raises(GauntletError, match=r"say reduce_zero_label=True .* or move the line to the end"):
        load_dataset("folder", root=tmp_path)
    assert labels_of(tmp_path, reduce_zero_label=True) == np.array([255, 0])[TRUTH % 2].tolist()


def test_a_line_called_ignore_further_down_is_its_value(tmp_path: Path) -> None:
    Image.fromarray(TRUTH, "L").save(photographs(tmp_path) / "0.png")
    write_lines(tmp_path / "classes.txt", ["sky", "ignore", "road"])
    assert labels_of(tmp_path) == np.array([0, 255, 1])[TRUTH].tolist()


def test_a_comment_is_no_class(tmp_path: Path) -> None:
    Image.fromarray(TRUTH, "L").save(photographs(tmp_path) / "0.png")
    write_lines(tmp_path / "classes.txt", ["# name", "sky", "road", "car"])
    assert load_dataset("folder", root=tmp_path).class_names == ("sky", "road", "car")


def test_two_masks_for_one_image_are_refused(tmp_path: Path) -> None:
    masks = photographs(tmp_path)
    Image.fromarray(TRUTH, "L").save(masks / "0.png")
    Image.fromarray(2 - TRUTH, "L").save(masks / "0.tif")
    with pytest.raises(GauntletError, match=r"two masks for '0': 'masks/0.png' and 'masks/0.tif'"):
        load_dataset("folder", root=tmp_path)


@pytest.mark.parametrize("suffix", [".jfif", ".JPE", ".gif", ".jp2", ".avif"])
def test_images_of_less_usual_endings_are_read(suffix: str, tmp_path: Path) -> None:
    masks = photographs(tmp_path)
    Image.fromarray(TRUTH, "L").save(masks / "0.png")
    kind = {".jfif": "JPEG", ".jpe": "JPEG"}.get(suffix.lower())
    assert suffix.lower() in IMAGE_SUFFIXES
    pixels = np.full((6, 8, 3), 200, np.uint8)
    try:
        Image.fromarray(pixels).save(tmp_path / f"images/other{suffix}", kind)
    except (KeyError, OSError, ValueError):
        pytest.skip(f"this Pillow writes no {suffix}")
    Image.fromarray(TRUTH, "L").save(masks / "other.png")
    dataset = load_dataset("folder", root=tmp_path)
    assert list(dataset.ids()) == ["0", "other"]
    assert np.abs(dataset[1].image.astype(int) - 200).max() <= 2


def test_an_image_that_cannot_be_read_but_has_a_mask_is_named(tmp_path: Path) -> None:
    masks = photographs(tmp_path)
    for name in ("0", "raw"):
        Image.fromarray(TRUTH, "L").save(masks / f"{name}.png")
    (tmp_path / "images/raw.heic").write_bytes(b"none")
    with pytest.raises(GauntletError, match=r"1 images .* the first one is 'images/raw.heic'"):
        load_dataset("folder", root=tmp_path)


def test_an_animation_is_no_image(tmp_path: Path) -> None:
    masks = photographs(tmp_path)
    for name in ("0", "moving"):
        Image.fromarray(TRUTH, "L").save(masks / f"{name}.png")
    frames = [Image.fromarray(np.full((6, 8), value, np.uint8)) for value in (0, 90)]
    frames[0].save(tmp_path / "images/moving.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(GauntletError, match="is an animation"):
        load_dataset("folder", root=tmp_path)[1]


def test_palettes_that_disagree_are_no_class_numbers(tmp_path: Path) -> None:
    masks = photographs(tmp_path, 2)
    order = np.array([2, 0, 1], np.uint8)
    palette_mask(masks / "0.png", TRUTH, COLORS)
    palette_mask(masks / "1.png", order[TRUTH], COLORS[np.argsort(order)])
    with pytest.raises(GauntletError, match=r"position 0 of the palette .*masks='indices'"):
        load_dataset("folder", root=tmp_path)
    assert labels_of(tmp_path, 1, masks="indices") == order[TRUTH].tolist()


def test_a_palette_of_class_colours_with_one_more_is_not_read_as_positions(tmp_path: Path) -> None:
    masks = photographs(tmp_path)
    write_lines(tmp_path / "classes.txt", [*COLORED_LINES, "tree 9 9 9"])
    positions = np.array([1, 2, 3], np.uint8)  # of road, sky and car; at 0 a white border
    drawn = positions[TRUTH]
    drawn[0] = 0
    palette_mask(masks / "0.png", drawn, np.concatenate([np.full((1, 3), 255, np.uint8), COLORS]))
    with pytest.raises(GauntletError, match=r"colour \(255, 255, 255\)"):
        load_dataset("folder", root=tmp_path)[0]
    write_lines(tmp_path / "classes.txt", [*COLORED_LINES, "tree 9 9 9", "ignore 255 255 255"])
    expected = TRUTH.copy()
    expected[0] = 255
    assert labels_of(tmp_path) == expected.tolist()
