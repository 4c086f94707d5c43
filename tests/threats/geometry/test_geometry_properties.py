"""What holds for every move: identity, quarter turns, shifts, inverses, void, boxes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes, Sample
from gauntlet.threats.geometry.moved_boxes import hulls, move_boxes, move_detections
from gauntlet.threats.geometry.moves import Chain, Move, Perspective, Radial, Rotation, Scale, Shear, Translation
from gauntlet.threats.geometry.warping import Grid, move_image, move_labels, move_sample

VOID = 255
IDENTITIES = [Rotation(0), Rotation(360), Translation(), Scale(1), Shear(0), Radial(0), Perspective()]
numbers = st.floats(-1, 1, allow_nan=False)
sides = st.integers(2, 14)
MOVES = st.one_of(
    st.builds(Rotation, st.floats(-180, 180)),
    st.builds(Translation, st.floats(-9, 9), st.floats(-9, 9)),
    st.builds(Scale, st.floats(0.3, 3)),
    st.builds(Shear, numbers),
    st.builds(Radial, st.floats(-0.3, 0.5)),
    st.builds(Perspective, st.floats(-0.45, 0.45), st.floats(-0.45, 0.45)),
)


def labels_of(sample: Sample) -> np.ndarray:
    assert sample.labels is not None
    return sample.labels


def depth_of(sample: Sample) -> np.ndarray:
    assert sample.depth is not None
    return sample.depth


def made(height: int, width: int, seed: int = 0) -> Sample:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 4, (height, width)).astype(np.uint8)
    labels[0, 0] = VOID
    corners = np.array([[0, 0, width / 2, height / 2], [width / 4, height / 4, width, height]], np.float32)
    boxes = Boxes(corners, np.array([0, 1]))
    depth = generator.uniform(1, 50, (height, width)).astype(np.float32)
    return Sample("image", generator.integers(0, 256, (height, width, 3)).astype(np.uint8), labels, boxes, depth)


@given(sides, sides, st.sampled_from(IDENTITIES))
@settings(max_examples=30)
def test_no_move_changes_no_bit(height: int, width: int, move: Move) -> None:
    sample = made(height, width)
    moved = move_sample(sample, move, VOID)
    assert np.array_equal(moved.image, sample.image)
    assert np.array_equal(labels_of(moved), labels_of(sample))
    assert np.array_equal(depth_of(moved), depth_of(sample))
    assert moved.boxes is not None
    assert sample.boxes is not None
    assert moved.boxes.xyxy == pytest.approx(sample.boxes.xyxy, abs=1e-6)


@given(sides, st.integers(-4, 4))
@settings(max_examples=30)
def test_quarter_turns_of_squares_are_exact(side: int, quarters: int) -> None:
    sample = made(side, side)
    moved = move_sample(sample, Rotation(90 * quarters), VOID)
    assert np.array_equal(moved.image, np.rot90(sample.image, quarters))
    assert np.array_equal(labels_of(moved), np.rot90(labels_of(sample), quarters))
    again = move_sample(moved, Rotation(-90 * quarters), VOID)
    assert np.array_equal(labels_of(again), labels_of(sample))


def test_half_a_turn_is_exact_on_every_rectangle() -> None:
    sample = made(5, 8)
    assert np.array_equal(move_sample(sample, Rotation(180), VOID).image, np.rot90(sample.image, 2))


def test_a_quarter_turn_moves_a_box_as_its_pixels() -> None:
    labels = np.zeros((10, 10), np.uint8)
    labels[1:4, 2:9] = 1
    sample = Sample(
        "a",
        np.zeros((10, 10, 3), np.uint8),
        labels,
        Boxes(np.array([[2, 1, 9, 4]], np.float32), np.array([0])),
    )
    moved = move_sample(sample, Rotation(90), VOID)
    rows, columns = np.nonzero(labels_of(moved) == 1)
    assert moved.boxes is not None
    assert moved.boxes.xyxy.tolist() == [[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]]


@given(sides, sides, st.integers(-5, 5), st.integers(-5, 5))
@settings(max_examples=30)
def test_a_whole_translation_is_a_shift(height: int, width: int, dx: int, dy: int) -> None:
    sample = made(height, width)
    moved = move_sample(sample, Translation(dx, dy), VOID, fill=1.0)
    expected = np.full((height, width), VOID, np.uint8)
    bright = np.full((height, width, 3), 255, np.uint8)
    for row in range(max(dy, 0), min(height + dy, height)):
        for column in range(max(dx, 0), min(width + dx, width)):
            expected[row, column] = labels_of(sample)[row - dy, column - dx]
            bright[row, column] = sample.image[row - dy, column - dx]
    assert np.array_equal(labels_of(moved), expected)
    assert np.array_equal(moved.image, bright)


def test_twice_as_large_repeats_the_middle() -> None:
    sample = made(8, 12)
    moved = move_sample(sample, Scale(2), VOID)
    assert np.array_equal(labels_of(moved), np.kron(labels_of(sample)[2:6, 3:9], np.ones((2, 2), np.uint8)))
    assert np.array_equal(depth_of(moved), np.kron(depth_of(sample)[2:6, 3:9], np.ones((2, 2))) / 2)


@given(MOVES, sides, sides)
@settings(max_examples=60)
def test_source_and_target_undo_each_other(move: Move, height: int, width: int) -> None:
    size = (height, width)
    x, y = (np.linspace(-side / 2, side / 2, 7) for side in (width, height))
    scale = max(size)
    assert np.allclose(move.source(*move.target(x, y, size), size), (x, y), rtol=0, atol=1e-9 * scale)
    assert np.allclose(move.target(*move.source(x, y, size), size), (x, y), rtol=0, atol=1e-9 * scale)


@given(MOVES, MOVES)
@settings(max_examples=30)
def test_a_chain_is_one_move_after_the_other(first: Move, second: Move) -> None:
    x, y, size = np.array([1.5, -2.0]), np.array([0.5, 1.0]), (8, 10)
    chain = Chain((first, second))
    assert np.allclose(chain.target(x, y, size), second.target(*first.target(x, y, size), size))
    assert chain.magnification == first.magnification * second.magnification


def test_moves_of_one_kind_add_up() -> None:
    x, y, size = np.array([1.0, -2.5]), np.array([2.0, 0.5]), (12, 20)
    for first, second, both in (
        (Rotation(20), Rotation(-50), Rotation(-30)),
        (Shear(0.2), Shear(0.1), Shear(0.3)),
        (Scale(2), Scale(0.75), Scale(1.5)),
        (Perspective(0.1, 0.2), Perspective(0.2, -0.1), Perspective(0.3, 0.1)),
    ):
        assert np.allclose(Chain((first, second)).source(x, y, size), both.source(x, y, size))


@given(MOVES, sides, sides)
@settings(max_examples=60)
def test_labels_are_never_made_up_and_void_only_spreads(move: Move, height: int, width: int) -> None:
    sample = made(height, width)
    grid = Grid.of(move, (height, width))
    moved = move_labels(labels_of(sample), grid, VOID)
    assert set(np.unique(moved)) <= {*np.unique(labels_of(sample)), VOID}
    assert (moved[~grid.valid] == VOID).all()
    without = move_labels(np.where(labels_of(sample) == VOID, 0, labels_of(sample)), grid, VOID)
    assert ((without == VOID) == ~grid.valid).all()


@given(MOVES)
@settings(max_examples=60)
def test_hulls_hold_the_moved_corners(move: Move) -> None:
    size = (20, 30)
    x0, y0, x1, y1 = box = np.array([4.0, 3.0, 20.0, 15.0])
    hull = hulls(box, move, size)[0]
    x, y = move.target(np.array([x0, x1, x0, x1]) - 15, np.array([y0, y0, y1, y1]) - 10, size)
    assert hull[0] <= x.min() + 15 + 1e-9
    assert hull[1] <= y.min() + 10 + 1e-9
    assert hull[2] >= x.max() + 15 - 1e-9
    assert hull[3] >= y.max() + 10 - 1e-9


def boxes(*corners: tuple[float, float, float, float], **more: Any) -> Boxes:
    return Boxes(np.array(corners, np.float32), np.arange(len(corners)), **more)


def test_boxes_that_leave_are_cut_ignored_or_gone() -> None:
    before = boxes((0, 0, 8, 8), (2, 0, 10, 8), (4, 0, 14, 8), (20, 2, 24, 10), (0, 9, 4, 10.5))
    moved = move_boxes(before, Translation(-8, 0), (12, 30))
    # The first is gone, of the second a quarter is left, of the third six tenths; the fifth is gone too.
    assert moved.classes.tolist() == [1, 2, 3]
    assert moved.xyxy.tolist() == [[0, 0, 2, 8], [0, 0, 6, 8], [12, 2, 16, 10]]
    assert moved.crowd is None
    further = move_boxes(before, Translation(-9, 0), (12, 30))
    assert further.classes.tolist() == [1, 2, 3]
    assert further.crowd is not None
    assert further.crowd.tolist() == [True, False, False]  # an eighth is left of the second one


def test_boxes_below_two_pixels_become_crowds() -> None:
    moved = move_boxes(boxes((10, 4, 13, 12), (2, 2, 12, 8)), Scale(0.5), (12, 30))
    assert moved.crowd is not None
    assert moved.crowd.tolist() == [True, False]
    assert moved.xyxy[1].tolist() == [8.5, 4, 13.5, 7]


def test_flags_and_areas_move_along() -> None:
    before = boxes(
        (10, 4, 14, 8),
        (16, 4, 20, 10),
        crowd=np.array([True, False]),
        difficult=np.array([False, True]),
        area=np.array([10, 20], np.float32),
    )
    moved = move_boxes(before, Scale(1.5), (12, 30))
    assert moved.crowd is not None
    assert moved.crowd.tolist() == [True, False]
    assert moved.difficult is not None
    assert moved.difficult.tolist() == [False, True]
    assert moved.area == pytest.approx(np.array([22.5, 45]))
    turned = move_boxes(boxes((12, 3, 18, 9), area=np.array([36], np.float32)), Rotation(45), (12, 30))
    assert turned.area == pytest.approx(np.array([72]), rel=1e-5)


def test_detections_that_would_not_count_are_left_out() -> None:
    detections = boxes((0, 0, 8, 8), (20, 2, 24, 10), scores=np.array([0.9, 0.8], np.float32))
    moved = move_detections(detections, Translation(-7, 0), (12, 30))
    assert moved.scores is not None
    assert moved.scores.tolist() == pytest.approx([0.8])
    assert moved.crowd is None


def test_no_boxes_stay_none() -> None:
    empty = Boxes(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))
    assert len(move_boxes(empty, Radial(0.2), (12, 30))) == 0


def test_halves_are_rounded_up() -> None:
    image = np.zeros((1, 2, 3), np.uint8)
    image[0, 1] = 1
    moved = move_image(image, Grid.of(Translation(0.5, 0), (1, 2)))
    assert moved[0, :, 0].tolist() == [0, 1]  # the edge goes on; a half between 0 and 1


def test_the_mean_colour_fills_what_shows_nothing() -> None:
    image = np.zeros((2, 4, 3), np.uint8)
    image[:, :2] = (100, 50, 200)
    moved = move_image(image, Grid.of(Translation(3, 0), (2, 4)), "mean")
    assert moved[0, 0].tolist() == [50, 25, 100]


def test_a_void_label_that_does_not_fit_widens_the_map() -> None:
    labels = np.array([[200, 3]], np.uint8)
    moved = move_labels(labels, Grid.of(Translation(1, 0), (1, 2)), -1)
    assert moved.tolist() == [[-1, 200]]


def test_without_a_void_label_only_moves_that_fill_the_image_are_possible() -> None:
    labels = np.zeros((4, 4), np.uint8)
    with pytest.raises(GauntletError, match="ignore_index"):
        move_labels(labels, Grid.of(Translation(1, 0), (4, 4)), None)
    assert move_labels(labels, Grid.of(Scale(2), (4, 4)), None).shape == (4, 4)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Radial(-1 / 3), "fold"),
        (lambda: Radial(-1.2, 0.6), "fold"),
        (lambda: Perspective(0.6, 0.4), "horizon"),
        (lambda: Scale(0), "positive"),
    ],
)
def test_moves_that_fold_the_image_are_refused(make: type[Move], words: str) -> None:
    with pytest.raises(GauntletError, match=words):
        make()


def test_lenses_increase_up_to_the_corner() -> None:
    radius = np.linspace(0, 1, 500) * math.hypot(24, 36) / 2
    for lens in (Radial(0.4), Radial(-0.3), Radial(-0.6, 0.35)):
        x, _ = lens.source(radius, np.zeros_like(radius), (24, 36))
        assert (np.diff(x) > 0).all()
