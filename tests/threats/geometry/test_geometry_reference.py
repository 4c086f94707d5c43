"""Every value of docs/specs/beyond.md, section 8, as a run of the specification's author has it."""

from __future__ import annotations

import ast
import json
from typing import Any

import numpy as np
import pytest

from gauntlet.threats.geometry.catalogue import MOVES
from gauntlet.threats.geometry.moved_boxes import areas, clip, hulls
from gauntlet.threats.geometry.moves import Move
from gauntlet.threats.geometry.warping import Grid
from paths import DATA

REFERENCE: dict[str, Any] = json.loads((DATA / "geometry_reference.json").read_text())
CASES = [name for name in REFERENCE if name != "fixture"]
SIZE = HEIGHT, WIDTH = 24, 36
VOID = 255
BOX = np.array([[4.0, 3.0, 20.0, 15.0]])


def move_of(case: str) -> Move:
    name, _, rest = case.partition("{")
    move: Move = MOVES[name](**ast.literal_eval("{" + rest))
    return move


@pytest.fixture(scope="module")
def fixture() -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.mgrid[:HEIGHT, :WIDTH].astype(np.float64)
    wave = np.cos(0.2 * columns + 0.1 * rows)
    image = np.stack([0.5 + 0.5 * np.sin(0.7 * (c + 1) + 0.3 * rows) * wave for c in range(3)], axis=-1)
    return image, ((rows // 5 + 2 * (columns // 7)) % 6).astype(np.uint8)


def test_there_are_eight_cases() -> None:
    assert len(CASES) == 8


@pytest.mark.parametrize("case", CASES)
def test_image_labels_and_boxes(case: str, fixture: tuple[np.ndarray, np.ndarray]) -> None:
    image, labels = fixture
    move, expected = move_of(case), REFERENCE[case]
    grid = Grid.of(move, SIZE)
    assert int(grid.valid.sum()) == expected["valid"]
    assert grid.interpolate(image, 0.0).sum() == pytest.approx(expected["image_sum"], abs=1e-8)
    moved = grid.nearest(labels, np.uint8(VOID))
    found = dict(zip(*(each.tolist() for each in np.unique(moved, return_counts=True)), strict=True))
    assert {str(label): count for label, count in found.items()} == expected["labels"]
    assert "".join("." if label == VOID else str(label) for label in moved[HEIGHT // 2]) == expected["middle_row"]
    hull = hulls(BOX, move, SIZE)
    inside = clip(hull, SIZE)
    box = expected["box_4_3_20_15"]
    assert hull[0] == pytest.approx(box["hull"], abs=1e-6)
    assert inside[0] == pytest.approx(box["clipped"], abs=1e-6)
    assert areas(inside) / areas(hull) == pytest.approx(box["visible"], abs=1e-6)


@pytest.mark.parametrize("case", [name for name in CASES if not name.startswith("radial")])
def test_scipy_interpolates_the_same(case: str, fixture: tuple[np.ndarray, np.ndarray]) -> None:
    from scipy.ndimage import map_coordinates

    image, _ = fixture
    grid = Grid.of(move_of(case), SIZE)
    ours = grid.interpolate(image, 0.0)
    for channel in range(3):
        theirs = map_coordinates(image[..., channel], [grid.rows, grid.columns], order=1, mode="nearest")
        assert np.abs(ours[..., channel] - theirs)[grid.valid].max() < 1e-14
