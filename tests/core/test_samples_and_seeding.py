"""Samples refuse what they are not; seeds depend on what is computed only."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes, Sample, collate, images_to_tensor
from gauntlet.seeding import ImageSeed, numpy_generator, torch_generator

IMAGE = np.arange(2 * 4 * 3, dtype=np.uint8).reshape(2, 4, 3)


def test_images_become_floats_in_the_unit_range() -> None:
    tensor = images_to_tensor([IMAGE, 255 - IMAGE])
    assert tensor.shape == (2, 3, 2, 4)
    assert tensor.dtype == torch.float32
    np.testing.assert_array_equal((tensor * 255).round().byte()[0].permute(1, 2, 0).numpy(), IMAGE)


@pytest.mark.parametrize(
    "image",
    [IMAGE.astype(np.float32), IMAGE[..., 0], np.zeros((0, 4, 3), np.uint8), np.zeros((4, 4, 4), np.uint8)],
    ids=["float", "grey", "empty", "rgba"],
)
def test_a_sample_refuses_other_images(image: np.ndarray) -> None:
    with pytest.raises(GauntletError, match="image 'x' must be a non-empty uint8 RGB array"):
        Sample("x", image)


def test_a_sample_refuses_labels_of_another_shape() -> None:
    with pytest.raises(GauntletError, match=r"the labels of image 'x' have the shape \(4, 2\), the image \(2, 4\)"):
        Sample("x", IMAGE, np.zeros((4, 2), np.uint8))


def test_a_batch_has_one_size() -> None:
    with pytest.raises(GauntletError, match="a batch holds images of one size"):
        collate([Sample("a", IMAGE), Sample("b", IMAGE[:, :2])])
    batch = collate([Sample("a", IMAGE), Sample("b", IMAGE)])
    assert batch.labels is None
    with pytest.raises(GauntletError, match="this dataset has no boxes"):
        _ = batch.boxes


def test_boxes_agree_in_number() -> None:
    corners = np.zeros((2, 4), np.float32)
    with pytest.raises(GauntletError, match=r"shape \(3, 4\) for 3 classes"):
        Boxes(corners, np.zeros(3, np.int64))
    with pytest.raises(GauntletError, match="the scores of 2 boxes"):
        Boxes(corners, np.zeros(2, np.int64), np.zeros(1, np.float32))
    with pytest.raises(GauntletError, match="the area of 2 boxes"):
        Boxes(corners, np.zeros(2, np.int64), area=np.zeros(3, np.float32))
    assert len(Boxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))) == 0


def test_a_sample_is_a_copy_of_one_type() -> None:
    image, wide = IMAGE.copy(), np.arange(8, dtype=np.int64).reshape(2, 4)
    for labels in (wide, wide.astype(">i4"), wide.astype(np.uint16), np.asfortranarray(wide), wide.astype(float)):
        sample = Sample("x", np.asfortranarray(image), labels, depth=np.ones((2, 4), ">f4"))
        assert sample.labels is not None
        assert sample.depth is not None
        assert sample.labels.dtype == np.int64
        assert sample.depth.dtype == np.float32
        assert sample.image.flags.c_contiguous
        assert sample.labels.flags.c_contiguous
        assert np.array_equal(sample.labels, wide)
    assert not np.shares_memory(Sample("x", image, wide).image, image)
    assert not np.shares_memory(Sample("x", image, wide).labels, wide)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.ma.masked_less(np.zeros((2, 4), int), 1), "the labels of image 'x' must not be a masked array"),
        (np.full((2, 4), 0.5), "the labels of image 'x' must be whole numbers, not 0.5"),
        (np.full((2, 4), np.nan), "the labels of image 'x' must be whole numbers, not nan"),
        (np.full((2, 4), np.inf), "the labels of image 'x' must be whole numbers, not inf"),
        (np.full((2, 4), 2**64 - 1, np.uint64), "hold 18446744073709551615; expected at most"),
        (np.full((2, 4), "road"), "the labels of image 'x' must be an array of numbers, not of <U4"),
        (np.zeros((2, 4), complex), "the labels of image 'x' must be an array of numbers, not of complex128"),
    ],
    ids=["masked", "fraction", "nan", "infinity", "too large", "text", "complex"],
)
def test_a_sample_refuses_labels_that_are_no_classes(labels: np.ndarray, message: str) -> None:
    with pytest.raises(GauntletError, match=message):
        Sample("x", IMAGE, labels)


def test_a_sample_refuses_what_is_no_boxes() -> None:
    with pytest.raises(GauntletError, match=r"the boxes of image 'x' must be gauntlet.samples.Boxes, not a ndarray"):
        Sample("x", IMAGE, boxes=np.zeros((1, 4)))  # type: ignore[arg-type]


def test_boxes_become_arrays_of_one_type() -> None:
    flags: Any = np.array([1])
    boxes = Boxes(np.array([[0, 1, 2, 3]], ">f8"), np.array([7], np.uint8), crowd=flags, area=np.array([4]))
    assert boxes.xyxy.dtype == np.float32
    assert boxes.classes.dtype == np.int64
    assert boxes.crowd is not None
    assert boxes.crowd.tolist() == [True]
    assert boxes.areas.tolist() == [4]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"xyxy": [[0, 0, np.nan, 1]]}, "the corners of boxes hold NaN or infinite numbers"),
        ({"xyxy": [[0, 0, np.inf, 1]]}, "the corners of boxes hold NaN or infinite numbers"),
        ({"xyxy": [[30, 40, 10, 20]]}, r"a box has the corners \(30, 40, 10, 20\); expected x0, y0, x1, y1"),
        ({"classes": [0.5]}, "the classes of boxes must be whole numbers, not 0.5"),
        ({"classes": [np.inf]}, "the classes of boxes must be whole numbers, not inf"),
        ({"scores": [np.nan]}, "the scores of boxes hold NaN"),
        ({"crowd": [2]}, "the crowd of boxes must be true or false, 0 or 1, not 2"),
        ({"area": [np.inf]}, "the area of boxes hold NaN or infinite"),
        ({"xyxy": np.ma.masked_less([[0, 0, 5, 5]], 1)}, "the corners of boxes must not be a masked array"),
    ],
)
def test_boxes_refuse_numbers_that_cannot_be(given: dict[str, Any], message: str) -> None:
    plain: dict[str, Any] = {"xyxy": np.array([[0, 0, 5, 5]], np.float32), "classes": np.array([0])}
    arrays = {name: each if isinstance(each, np.ndarray) else np.array(each) for name, each in given.items()}
    with pytest.raises(GauntletError, match=message):
        Boxes(**{**plain, **arrays})


def test_a_detection_with_swapped_corners_is_no_object() -> None:
    corners = np.array([[5, 5, 1, 9], [0, 0, 2, 3]], np.float32)
    detected = Boxes(corners, np.array([1, 2]), np.array([0.9, 0.8], np.float32))
    assert detected.as_truth().classes.tolist() == [2]
    assert detected.as_truth().scores is None


def test_some_of_the_boxes_and_their_areas() -> None:
    corners = np.array([[0, 0, 2, 3], [1, 1, 5, 2], [0, 0, 0, 9]], np.float32)
    boxes = Boxes(corners, np.array([4, 5, 6]), crowd=np.array([True, False, False]))
    assert boxes.areas.tolist() == [6, 4, 0]
    chosen = boxes.select(np.array([1, 0]))
    assert chosen.classes.tolist() == [5, 4]
    assert chosen.crowd is not None
    assert chosen.crowd.tolist() == [False, True]
    assert chosen.scores is None
    annotated = Boxes(corners, np.array([4, 5, 6]), area=np.array([1, 2, 3], np.float32))
    assert annotated.select(annotated.areas > 1).areas.tolist() == [2, 3]


def test_the_seed_is_the_specified_one() -> None:
    digest = hashlib.sha256(b"3|image|mask").digest()
    assert ImageSeed(3, "image").stream("mask") == int.from_bytes(digest[:8], "little") & (2**63 - 1)


@given(st.integers(0, 2**31), st.text(max_size=20), st.text(max_size=20))
def test_streams_repeat_and_differ(run_seed: int, image_id: str, purpose: str) -> None:
    seed = ImageSeed(run_seed, image_id)
    assert seed.stream(purpose) == ImageSeed(run_seed, image_id).stream(purpose)
    assert seed.stream(purpose) != seed.stream(purpose + "x") != ImageSeed(run_seed + 1, image_id).stream(purpose + "x")


def test_generators_leave_the_global_state_alone() -> None:
    before, torch_before = np.random.get_state(legacy=False)["state"]["key"].copy(), torch.random.get_rng_state()  # noqa: NPY002
    numpy_generator(5).random(3)
    torch.rand(3, generator=torch_generator(5))
    np.testing.assert_array_equal(np.random.get_state(legacy=False)["state"]["key"], before)  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), torch_before)
