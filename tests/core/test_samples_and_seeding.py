"""Samples refuse what they are not; seeds depend on what is computed only."""

from __future__ import annotations

import hashlib

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
