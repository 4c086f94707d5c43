"""Protocols in plain arithmetic with fractions: sizes, labels, depth and boxes of random images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gauntlet.datasets.protocols import Protocol, as_protocol
from gauntlet.samples import Boxes, Sample


def compare(seed: Sequence[int]) -> list[str]:
    """Differences of a sample under a random protocol from the plain arithmetic."""
    generator = np.random.default_rng(seed)
    height, width = (int(side) for side in generator.integers(1, 60, 2))
    settings = _random_settings(generator)
    sample = _random_sample(generator, height, width)
    protocol = as_protocol(Protocol(**settings).describe())
    made = protocol.apply(sample)
    size = _size(settings, height, width)
    crop = settings.get("crop", size)
    final = (min(size[0], crop[0]), min(size[1], crop[1]))
    top, left = (size[0] - final[0]) // 2, (size[1] - final[1]) // 2
    wrong = []
    if made.image.shape[:2] != final or protocol.final_size(height, width) != final:
        wrong.append(f"the size is {made.image.shape[:2]} and {protocol.final_size(height, width)}, expected {final}")
        return wrong
    assert made.labels is not None
    assert made.depth is not None
    assert sample.labels is not None
    assert sample.depth is not None
    for row in range(final[0]):
        for column in range(final[1]):
            old = _old(row + top, height, size[0]), _old(column + left, width, size[1])
            if made.labels[row, column] != sample.labels[old] or made.depth[row, column] != sample.depth[old]:
                wrong.append(f"the label or depth of pixel {row}, {column} is not that of {old}")
    assert sample.boxes is not None
    assert made.boxes is not None
    return wrong + _compare_boxes(sample.boxes, made.boxes, (height, width), size, final)


def _random_settings(generator: np.random.Generator) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    kind = generator.integers(5)
    if kind == 0:
        settings["longer"] = int(generator.integers(1, 90))
    elif kind in (1, 2):
        settings["shorter"] = int(generator.integers(1, 90))
        if kind == 2:
            settings["at_most"] = int(generator.integers(1, 120))
    elif kind == 3:
        settings["size"] = tuple(int(side) for side in generator.integers(1, 90, 2))
    if generator.random() < 0.4:
        settings["crop"] = tuple(int(side) for side in generator.integers(1, 60, 2))
    return settings


def _random_sample(generator: np.random.Generator, height: int, width: int) -> Sample:
    count = int(generator.integers(0, 5))
    corner = generator.uniform(0, 1, (count, 2)) * (width, height) * 0.9
    sides = generator.uniform(0.05, 1, (count, 2)) * ((width, height) - corner)
    boxes = np.concatenate([corner, corner + sides], axis=1).astype(np.float32)
    area = None
    if generator.random() < 0.5:
        area = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) * generator.uniform(0.3, 1, count)).astype(
            np.float32
        )
    return Sample(
        "x",
        generator.integers(0, 256, (height, width, 3)).astype(np.uint8),
        labels=generator.integers(0, 256, (height, width)).astype(np.uint8),
        boxes=Boxes(boxes, np.arange(count), area=area),
        depth=generator.random((height, width)).astype(np.float32),
    )


def _size(settings: dict[str, Any], height: int, width: int) -> tuple[int, int]:
    if "size" in settings:
        return settings["size"]  # type: ignore[no-any-return]
    long, short = max(height, width), min(height, width)
    factor = Fraction(1)
    if "longer" in settings:
        factor = Fraction(settings["longer"], long)
    elif "shorter" in settings:
        factor = Fraction(settings["shorter"], short)
        if "at_most" in settings:
            factor = min(factor, Fraction(settings["at_most"], long))
    sides = [max(1, math.floor(side * factor + Fraction(1, 2))) for side in (height, width)]
    return sides[0], sides[1]


def _old(place: int, given: int, wanted: int) -> int:
    """The old pixel into which the centre of a new one falls."""
    return math.floor((place + Fraction(1, 2)) * Fraction(given, wanted))


def _compare_boxes(
    before: Boxes, after: Boxes, given: tuple[int, int], size: tuple[int, int], final: tuple[int, int]
) -> list[str]:
    scale_x, scale_y = size[1] / given[1], size[0] / given[0]
    top, left = (size[0] - final[0]) // 2, (size[1] - final[1]) // 2
    expected, wrong = [], []
    for index, corners in enumerate(before.xyxy):
        x0, y0, x1, y1 = (float(value) for value in corners)
        whole = (x1 - x0) * scale_x * (y1 - y0) * scale_y
        cut = (
            min(max(x0 * scale_x - left, 0.0), final[1]),
            min(max(y0 * scale_y - top, 0.0), final[0]),
            min(max(x1 * scale_x - left, 0.0), final[1]),
            min(max(y1 * scale_y - top, 0.0), final[0]),
        )
        sides = cut[2] - cut[0], cut[3] - cut[1]
        if min(sides) > 1e-4:
            annotated = (x1 - x0) * (y1 - y0) if before.area is None else float(before.area[index])
            expected.append((index, cut, annotated * sides[0] * sides[1] / whole))
    # A box of which next to nothing is left may go either way by rounding.
    kept = {int(kind): number for number, kind in enumerate(after.classes)}
    for index, cut, area in expected:
        if index not in kept:
            wrong.append(f"the box {index} is gone, expected {cut}")
            continue
        found = after.xyxy[kept[index]]
        if not np.allclose(found, cut, atol=1e-4, rtol=1e-5):
            wrong.append(f"the box {index} is {found}, expected {cut}")
        # Corners are float32: the area of a sliver is known to their rounding only.
        loose = 2e-4 * (1 + abs(area)) / min(1.0, cut[2] - cut[0], cut[3] - cut[1])
        if abs(after.areas[kept[index]] - area) > loose:
            wrong.append(f"the size of box {index} is {after.areas[kept[index]]}, expected {area}")
    if not math.isclose(after.pixel_area, 1 / (scale_x * scale_y), rel_tol=1e-9):
        wrong.append(f"a pixel has the area {after.pixel_area}, expected {1 / (scale_x * scale_y)}")
    return wrong
