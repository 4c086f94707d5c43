"""Localized accuracy, ratios, summaries and intervals by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gauntlet.metrics import REGION, DensePrediction, SegmentationMetric
from gauntlet.metrics.arithmetic import corruption_error
from gauntlet.metrics.segmentation import figures as segmentation
from gauntlet.metrics.segmentation.counts import CountTable, ImageCounts
from gauntlet.metrics.segmentation.figures import intervals


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
    """The attack halves the accuracy of every image: RCE is 1/2 in every resample, the accuracies are not constant."""
    truth, mask = [[0, 0, 0, 0, 1]], [[1, 1, 1, 1, 0]]
    whole = region_counts([[0, 0, 0, 0, 1]], [[0, 0, 1, 1, 1]], truth, mask)
    half = region_counts([[0, 0, 1, 1, 1]], [[0, 1, 1, 1, 1]], truth, mask)
    metric = SegmentationMetric(["a", "b"])
    found = {f.metric: f for f in metric.compute([whole, half, half, whole], REGION) if not f.class_name}
    assert found["RCE_M"].value == found["RCE_M"].low == found["RCE_M"].high == 0.5
    assert found["A_M"].low < found["A_M"].value == 0.375 < found["A_M"].high
    assert found["A_M_clean"].low == pytest.approx(2 * found["A_M"].low)
    assert (found["A_Mbar"].low, found["A_Mbar"].high) == (1.0, 1.0)
    assert "A_P" not in found  # nobody gave weights
    alone = {f.metric: f for f in metric.compute([whole], REGION) if not f.class_name}
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


def test_bootstrap_interval_brackets_the_figure_and_narrows_with_images() -> None:
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


def test_bootstrap_equals_explicit_resampling() -> None:
    table = CountTable.of([np.array([[3, 1], [0, 4]]), np.array([[1, 3], [2, 2]]), np.array([[4, 0], [4, 0]])], 2)
    generator = np.random.default_rng(0)
    values = [
        segmentation.cmiou(table.select(np.repeat(np.arange(3), weights)))
        for weights in generator.multinomial(3, [1 / 3] * 3, size=100)
    ]
    expected = np.percentile(values, [2.5, 97.5])
    np.testing.assert_allclose(intervals(table, resamples=100)["mIoU"], expected, atol=1e-12)


def test_one_image_has_no_interval() -> None:
    assert all(math.isnan(bound) for bound in intervals(CountTable.of([np.eye(2, dtype=np.int64)], 2))["mIoU"])
