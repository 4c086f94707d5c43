"""Localized accuracy, ratios, summaries and intervals by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gauntlet.metrics import REGION, WHOLE, DensePrediction, SegmentationMetric
from gauntlet.metrics.arithmetic import corruption_error
from gauntlet.metrics.segmentation import figures as segmentation
from gauntlet.metrics.segmentation.counts import CountTable, ImageCounts
from gauntlet.metrics.segmentation.estimates import intervals


def region_counts(
    clean: list[list[int]], attacked: list[list[int]], truth: list[list[int]], mask: list[list[int]]
) -> ImageCounts:
    metric = SegmentationMetric(["a", "b"])
    views = [
        metric.update(DensePrediction(np.array(each)), np.array(truth), np.array(mask, bool))
        for each in (attacked, clean)
    ]
    return ImageCounts.stack(views)


def test_accuracy_inside_and_outside_and_its_relative_error() -> None:
    first = region_counts([[0, 0, 1, 1]], [[1, 0, 1, 0]], [[0, 0, 1, 1]], [[1, 1, 0, 0]])
    second = region_counts([[0, 1, 1, 1]], [[1, 1, 1, 1]], [[0, 0, 1, 1]], [[1, 1, 1, 0]])
    metric = SegmentationMetric(["a", "b"])
    figures = {f.metric: f.value for f in metric.compute([first, second], REGION) if not f.class_name}
    assert figures["A_M"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert figures["A_M_clean"] == pytest.approx((1 + 2 / 3) / 2)
    assert figures["RCE_M"] == pytest.approx(1 - (5 / 6) / (5 / 3))
    assert figures["A_Mbar"] == pytest.approx((1 / 2 + 1) / 2)
    assert figures["RCE_Mbar"] == pytest.approx(0.25)
    assert figures["aAcc"] == pytest.approx(4 / 8)
    assert figures["region_share"] == pytest.approx(5 / 8)


def test_intervals_of_regions_are_paired_over_images() -> None:
    """The attack halves the accuracy of every image: RCE is 1/2 without any, the accuracies are not constant."""
    truth, mask = [[0, 0, 0, 0, 1]], [[1, 1, 1, 1, 0]]
    whole = region_counts([[0, 0, 0, 0, 1]], [[0, 0, 1, 1, 1]], truth, mask)
    half = region_counts([[0, 0, 1, 1, 1]], [[0, 1, 1, 1, 1]], truth, mask)
    metric = SegmentationMetric(["a", "b"])
    found = {f.metric: f for f in metric.compute([whole, half] * 4, REGION) if not f.class_name}
    assert found["RCE_M"].value == pytest.approx(found["RCE_M"].low) == pytest.approx(found["RCE_M"].high) == 0.5
    # Student's t with 7 degrees of freedom: 2.3646 standard errors of four images at 0.5 and four at 0.25.
    assert found["A_M"].value == 0.375
    assert found["A_M"].low == pytest.approx(0.375 - 2.3646 * math.sqrt(0.125**2 / 7), abs=1e-5)
    assert found["A_M"].high == pytest.approx(0.375 + 2.3646 * math.sqrt(0.125**2 / 7), abs=1e-5)
    assert found["A_M_clean"].low == pytest.approx(2 * found["A_M"].low)
    assert (found["A_Mbar"].low, found["A_Mbar"].high) == (1.0, 1.0)
    assert "A_P" not in found  # nobody gave weights
    alone = {f.metric: f for f in metric.compute([whole] * 7, REGION) if not f.class_name}
    assert math.isnan(alone["RCE_M"].low)


def test_an_empty_region_is_skipped() -> None:
    empty = region_counts([[0, 1]], [[1, 1]], [[0, 1]], [[0, 0]])
    full = region_counts([[0, 1]], [[0, 0]], [[0, 1]], [[1, 1]])
    metric = SegmentationMetric(["a", "b"])
    figures = {f.metric: f.value for f in metric.compute([empty, full], REGION) if not f.class_name}
    assert figures["A_M"] == pytest.approx(1 / 2)  # of the second image only
    assert figures["A_Mbar"] == pytest.approx(1 / 2)  # of the first image only
    only_empty = {f.metric: f.value for f in metric.compute([empty], REGION) if not f.class_name}
    assert math.isnan(only_empty["A_M"])
    assert math.isnan(only_empty["RCE_M"])


def test_corruption_error() -> None:
    assert corruption_error(0.6, 0.8) == pytest.approx(0.25)
    assert corruption_error(0.9, 0.8) == pytest.approx(-0.125)
    assert math.isnan(corruption_error(0.1, 0))


def test_an_interval_brackets_the_figure_and_narrows_with_images() -> None:
    generator = np.random.default_rng(0)

    def table(images: int) -> CountTable:
        matrices = []
        for _ in range(images):
            matrix = np.zeros((2, 2), np.int64)
            right = generator.integers(30, 70)
            matrix[0, 0], matrix[0, 1], matrix[1, 1] = right, 100 - right, 50
            matrices.append(matrix)
        return CountTable.of(matrices, 2)

    small, large = table(10), table(400)
    for each in (small, large):
        for name, figure in (
            ("mIoU", segmentation.cmiou),
            ("NmIoU", segmentation.nmiou),
            ("aAcc", segmentation.pixel_accuracy),
        ):
            low, high = intervals(each)[name]
            assert low < figure(each) < high
    narrow, wide = intervals(large)["mIoU"], intervals(small)["mIoU"]
    assert narrow[1] - narrow[0] < (wide[1] - wide[0]) / 3
    assert intervals(small) == intervals(small)


def test_classes_have_intervals_from_the_images_they_occur_in() -> None:
    both, first = np.array([[60, 40], [10, 40]]), np.array([[70, 30], [0, 0]])
    matrices = [both + np.array([[index, 0], [0, index]]) for index in range(9)] + [first]
    metric = SegmentationMetric(["a", "b", "c"])
    counts = [ImageCounts(np.pad(each, (0, 1))[None].astype(np.int64), np.full((1, 4), np.nan)) for each in matrices]
    found = {(f.metric, f.class_name): f for f in metric.compute(counts, WHOLE) if f.class_name}
    for name in ("IoU", "Acc"):
        for each in ("a", "b"):
            assert found[name, each].low < found[name, each].value < found[name, each].high
        assert math.isnan(found[name, "c"].low)
    # Seven images with class b are too few, though there are ten images.
    few = {(f.metric, f.class_name): f for f in metric.compute([*counts[:7], *counts[-1:] * 3], WHOLE)}
    assert math.isnan(few["IoU", "b"].low)
    assert few["IoU", "a"].low < few["IoU", "a"].high


def test_seven_images_have_no_interval_and_eight_have_one() -> None:
    images = [np.array([[3, 1], [0, 4]]) + index * np.eye(2, dtype=np.int64) for index in range(8)]
    assert all(math.isnan(bound) for bounds in intervals(CountTable.of(images[:7], 2)).values() for bound in bounds)
    assert all(low < high for low, high in intervals(CountTable.of(images, 2)).values())
