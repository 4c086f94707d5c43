"""Masks: where a threat acts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.seeding import ImageSeed, numpy_generator
from gauntlet.threats.masks import (
    Mask,
    Mode,
    box_mask,
    build_mask,
    masks,
    parse_mask,
    patch_grid_mask,
    resolve_size,
    square_mask,
)


def text(mask: Mask) -> list[str]:
    return ["".join("#" if value else "." for value in row) for row in mask]


def test_square_in_the_middle_rounds_down() -> None:
    assert text(square_mask(5, 6, (2, 3))) == ["......", ".###..", ".###..", "......", "......"]


@pytest.mark.parametrize(
    ("position", "rows"),
    [
        ("top-left", ["##..", "##..", "...."]),
        ("top-right", ["..##", "..##", "...."]),
        ("bottom-left", ["....", "##..", "##.."]),
        ("bottom-right", ["....", "..##", "..##"]),
        ("centre", [".##.", ".##.", "...."]),
    ],
)
def test_square_positions(position: str, rows: list[str]) -> None:
    assert text(square_mask(3, 4, 2, position)) == rows


def test_the_centred_patch_of_the_spatial_paper() -> None:
    mask = square_mask(512, 1024, 100)
    rows, columns = np.nonzero(mask)
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (206, 305, 462, 561)


def test_box() -> None:
    assert text(box_mask(3, 4, (1, 0, 3, 2))) == ["....", "##..", "##.."]


def test_patch_grid_draws_row_by_row_and_cuts_the_last_patches() -> None:
    height, width, patch, ratio, seed = 10, 14, 4, 0.4, 17
    chosen = numpy_generator(seed).random((3, 4)) < ratio
    mask = patch_grid_mask(height, width, patch, ratio, seed)
    assert mask.shape == (10, 14)
    for y in range(height):
        for x in range(width):
            assert mask[y, x] == chosen[y // patch, x // patch]


@settings(deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(1, 20),
    st.integers(1, 20),
    st.floats(0, 1),
    st.integers(0, 2**63 - 1),
)
def test_exact_mode_takes_the_share_itself(
    height: int, width: int, tall: int, wide: int, ratio: float, seed: int
) -> None:
    mask = patch_grid_mask(height, width, (tall, wide), ratio, seed, "exact")
    corners = mask[::tall, ::wide]
    assert corners.sum() == round(ratio * corners.size)
    assert (mask == corners.repeat(tall, 0)[:height].repeat(wide, 1)[:, :width]).all()


@pytest.mark.parametrize("mode", ["bernoulli", "exact"])
def test_masks_of_growing_ratio_are_nested(mode: Mode) -> None:
    grown = [patch_grid_mask(64, 96, 8, ratio, 5, mode) for ratio in (0, 0.2, 0.5, 0.9, 1)]
    assert not grown[0].any()
    assert grown[-1].all()
    for smaller, larger in pairwise(grown):
        assert (larger | ~smaller).all()


def test_bernoulli_mode_has_the_ratio_in_the_mean_and_varies() -> None:
    shares = np.array([patch_grid_mask(1024, 2048, 256, 0.5, seed).mean() for seed in range(300)])
    assert shares.mean() == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / 32 / 300))
    assert shares.std() == pytest.approx(np.sqrt(0.25 / 32), rel=0.15)


def test_the_mask_of_an_image_is_the_same_everywhere() -> None:
    """SHA-256("0|frankfurt_1|mask") decides; written out so that another machine can be held against it."""
    mask = build_mask({"patches": {"patch": 256, "ratio": 0.5}}, 1024, 2048, ImageSeed(0, "frankfurt_1").stream("mask"))
    assert text(mask[::256, ::256]) == [".#.#..##", "##...###", "...#....", "..#..#.#"]


def test_sizes_in_words() -> None:
    assert resolve_size("quarter", 1024, 2048, "patch") == (256, 256)
    assert resolve_size("half", 128, 64, "patch") == (32, 32)
    assert resolve_size("eighth", 4, 4, "patch") == (1, 1)
    assert resolve_size([3, 5], 9, 9, "size") == (3, 5)
    assert resolve_size("100/1024", 1024, 2048, "size") == (100, 100)
    assert resolve_size("200/1024", 128, 256, "size") == (25, 25)
    assert resolve_size("1/1024", 64, 64, "size") == (1, 1)


def test_descriptions() -> None:
    assert (build_mask({"square": {"size": 3, "position": "top-left"}}, 8, 8) == square_mask(8, 8, 3, "top-left")).all()
    assert (build_mask({"box": [0, 1, 2, 3]}, 8, 8) == box_mask(8, 8, (0, 1, 2, 3))).all()
    exact = build_mask({"patches": {"patch": 2, "ratio": "1/2", "mode": "exact"}}, 8, 8, 3)
    assert exact.sum() == 32


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ({}, "described by one of patches, square, box"),
        ({"square": {"size": 2}, "box": [0, 0, 1, 1]}, "described by one of"),
        ({"squares": {"size": 2}}, "unknown mask 'squares'; did you mean 'square'?"),
        ({"square": {"sise": 2}}, "unknown option of the mask 'square' 'sise'; did you mean 'size'?"),
        ({"square": {}}, "the mask 'square' needs the option 'size'."),
        ({"square": 3}, "the options of the mask 'square' must be a mapping, not 3."),
        ({"square": {"size": 0}}, "size must be a whole number of pixels from 1 on"),
        ({"square": {"size": 2.5}}, "size must be a whole number of pixels from 1 on"),
        ({"square": {"size": "big"}}, "unknown word for 'size' 'big'; known: eighth, half, quarter."),
        ({"square": {"size": "3/2"}}, "size as a share of the shorter side lies above 0 and up to 1"),
        ({"square": {"size": "0/4"}}, "size as a share of the shorter side lies above 0 and up to 1"),
        ({"square": {"size": 2, "position": "left"}}, "unknown position 'left'"),
        ({"patches": {"patch": 2, "ratio": 1.2}}, "ratio must lie in [0, 1], not 1.2."),
        ({"patches": {"patch": 2, "ratio": 0.5, "mode": "exactly"}}, "did you mean 'exact'?"),
        ({"patches": {"patch": [1, 2, 3], "ratio": 0.5}}, "patch must be a whole number of pixels"),
        ({"box": [0, 0, 4]}, "a box is four whole numbers top, left, bottom, right, not [0, 0, 4]."),
        ({"box": 7}, "a box is four whole numbers"),
    ],
)
def test_bad_descriptions_are_told_before_any_image(description: dict[str, object], said: str) -> None:
    with pytest.raises(GauntletError) as caught:
        parse_mask(description)
    assert said in str(caught.value)


def test_masks_that_do_not_fit() -> None:
    with pytest.raises(GauntletError, match="a square of 100x100 pixels does not fit an image of 64x200"):
        square_mask(64, 200, 100)
    with pytest.raises(GauntletError, match="leaves the image of 64x200"):
        box_mask(64, 200, (0, 0, 65, 10))
    with pytest.raises(GauntletError, match="is empty"):
        box_mask(64, 200, (5, 0, 5, 10))


def test_masks_of_ones_own() -> None:
    assert masks.group == "gauntlet.masks"
    with pytest.raises(UnknownNameError):
        build_mask({"ring": {}}, 8, 8)
