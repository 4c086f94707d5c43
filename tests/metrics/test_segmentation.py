"""Segmentation figures against the hand-checked table of the specification."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gauntlet.errors import GauntletError
from gauntlet.metrics import WHOLE, DensePrediction, SegmentationMetric
from gauntlet.metrics.arithmetic import nan_mean
from gauntlet.metrics.segmentation import figures as segmentation
from gauntlet.metrics.segmentation.confusion import confusion
from gauntlet.metrics.segmentation.counts import CountTable, ImageCounts

V = 255
TRUTH = np.array(
    [
        [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [2, 2, 0, V]],
        [[3, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
        [[V] * 4] * 4,
    ]
)
PREDICTION = np.array(
    [
        [[0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 3], [2, 0, 0, 0]],
        [[0] * 4] * 4,
        [[0, 1, 2, 3]] * 4,
    ]
)
EXACT = 1e-12


def table(background: int | None = None) -> CountTable:
    matrices = [confusion(p, t, 5, V)[0] for p, t in zip(PREDICTION, TRUTH, strict=True)]
    return CountTable.of(matrices, 5, background)


def test_counts_of_the_hand_check() -> None:
    assert table().true_positives.tolist() == [[7, 3, 1, 0, 0], [15, 0, 0, 0, 0], [0] * 5]
    assert table().ground_truth.tolist() == [[9, 4, 2, 0, 0], [15, 0, 0, 1, 0], [0] * 5]
    assert table().predicted.tolist() == [[9, 4, 1, 1, 0], [16, 0, 0, 0, 0], [0] * 5]


def test_accuracies_of_the_hand_check() -> None:
    assert segmentation.pixel_accuracy(table()) == pytest.approx(26 / 31, abs=EXACT)
    per_image = segmentation.image_accuracy(table())
    assert nan_mean(per_image) == pytest.approx((11 / 15 + 15 / 16) / 2, abs=EXACT)
    assert np.isnan(per_image[2])
    expected = (22 / 24 + 3 / 4 + 1 / 2 + 0) / 4
    assert segmentation.mean_class_accuracy(table()) == pytest.approx(expected, abs=EXACT)
    assert expected == pytest.approx(0.541667, abs=1e-6)


def test_iou_of_the_hand_check() -> None:
    iou = segmentation.class_iou(table())
    np.testing.assert_allclose(iou[:4], [22 / 27, 3 / 5, 1 / 2, 0], atol=EXACT)
    assert np.isnan(iou[4])
    assert segmentation.cmiou(table()) == pytest.approx((22 / 27 + 3 / 5 + 1 / 2) / 4, abs=EXACT)
    assert segmentation.cmiou(table(), divide_by_classes=True) == pytest.approx((22 / 27 + 1.1) / 5, abs=EXACT)
    first = (7 / 11 + 3 / 5 + 1 / 2 + 0) / 4
    second = (15 / 16 + 0) / 2
    assert segmentation.nmiou(table()) == pytest.approx((first + second) / 2, abs=EXACT)
    assert segmentation.nmiou(table(), "ground_truth") == pytest.approx(
        ((7 / 11 + 3 / 5 + 1 / 2) / 3 + second) / 2, abs=EXACT
    )
    assert segmentation.nmiou(table(), "all") == pytest.approx((first * 4 / 5 + 15 / 16 / 5) / 2, abs=EXACT)


def test_foreground_of_the_hand_check() -> None:
    without = table(background=0).without_class(0)
    assert segmentation.pixel_accuracy(table(background=0)) == pytest.approx(4 / 7, abs=EXACT)
    assert segmentation.nmiou(without) == pytest.approx(0.3125, abs=EXACT)
    assert segmentation.nmiou(table(background=0)) == pytest.approx(0.625 / 3, abs=EXACT)
    assert segmentation.cmiou(without) == pytest.approx(1.25 / 3, abs=EXACT)


def test_the_metric_reports_the_hand_check() -> None:
    metric = SegmentationMetric([f"c{k}" for k in range(5)], V, background_index=0)
    counts = [metric.update(DensePrediction(p), t) for p, t in zip(PREDICTION, TRUTH, strict=True)]
    figures = {f.metric: f.value for f in metric.compute(counts, WHOLE) if not f.class_name}
    assert figures["mIoU"] == pytest.approx(0.478703703703, abs=1e-9)
    assert figures["aAcc"] == pytest.approx(0.838709677419, abs=1e-9)
    assert figures["NmIoU"] == pytest.approx(0.4514204545, abs=1e-9)
    assert figures["fg_NmIoU_bg_counted"] == pytest.approx(0.2083333333, abs=1e-9)
    assert figures["fg_mIoU"] == pytest.approx(0.4166666667, abs=1e-9)
    assert "confidence" not in figures


def test_everything_ignored_is_undefined_not_zero() -> None:
    metric = SegmentationMetric(["a", "b"], V)
    counts = [metric.update(DensePrediction(np.zeros((3, 3), np.uint8)), np.full((3, 3), V, np.uint8))]
    figures = {f.metric: f.value for f in metric.compute(counts, WHOLE) if not f.class_name}
    assert all(np.isnan(figures[name]) for name in ("mIoU", "aAcc", "mAcc", "NmIoU", "aAcc_images"))
    assert np.isnan(segmentation.cmiou(CountTable.of([], 2), divide_by_classes=True))


def test_a_perfect_prediction_is_one_and_one_class_alone_too() -> None:
    labels = np.array([[0, 1], [1, 1]])
    perfect = CountTable.of([confusion(labels, labels, 2)[0]], 2)
    assert segmentation.cmiou(perfect) == segmentation.nmiou(perfect) == segmentation.pixel_accuracy(perfect) == 1
    single = CountTable.of([confusion(np.zeros((2, 2), int), np.zeros((2, 2), int), 1)[0]], 1)
    assert segmentation.cmiou(single) == 1


def test_a_label_outside_the_classes_is_an_error_that_names_it() -> None:
    with pytest.raises(GauntletError, match="a label is 7; expected 0 to 4 or 255"):
        confusion(np.zeros((1, 2), int), np.array([[0, 7]]), 5, 255)
    with pytest.raises(GauntletError, match="a predicted class is 5; expected 0 to 4"):
        confusion(np.array([[0, 5]]), np.array([[0, 1]]), 5, 255)


@pytest.mark.parametrize("ignore_index", [255, -1, 0, None])
def test_any_ignore_index_is_left_out(ignore_index: int | None) -> None:
    labels = np.array([[1, 2, 1, 2]])
    if ignore_index is not None:
        labels[0, 0] = ignore_index
    matrix = confusion(np.array([[1, 2, 2, 2]]), labels, 3, ignore_index)[0]
    assert matrix.sum() == (4 if ignore_index is None else 3)
    assert matrix[1, 2] == 1
    assert matrix[2, 2] == 2


def test_confidence_and_entropy_are_means_over_valid_pixels() -> None:
    metric = SegmentationMetric(["a", "b"], V)
    labels = np.array([[0, 1], [V, 1]])
    prediction = DensePrediction(
        np.array([[0, 1], [0, 0]]), np.array([[0.5, 0.6], [0.9, 0.7]]), np.array([[0.1, 0.2], [9.0, 0.3]])
    )
    figures = {f.metric: f.value for f in metric.compute([metric.update(prediction, labels)], WHOLE)}
    assert figures["confidence"] == pytest.approx(0.6)
    assert figures["entropy"] == pytest.approx(0.2)


def test_importance_weights() -> None:
    metric = SegmentationMetric(["a", "b"], V)
    labels = np.array([[0, 1], [V, 1]])
    weights = np.array([[1.0, 2.0], [50.0, 5.0]])
    counts = metric.update(DensePrediction(np.array([[0, 0], [0, 1]])), labels, importance=weights)
    figures = {f.metric: f.value for f in metric.compute([counts], WHOLE)}
    assert figures["A_P"] == pytest.approx(6 / 8)
    with pytest.raises(GauntletError, match="importance weights must be finite and not negative"):
        metric.update(DensePrediction(labels * 0), labels, importance=-weights)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_counts_match_a_plain_loop_and_survive_storage(data: st.DataObject) -> None:
    classes = data.draw(st.integers(1, 6))
    height, width = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    dtype = data.draw(st.sampled_from([np.uint8, np.int16, np.int64]))
    labels = generator.integers(0, classes + 1, (height, width))
    labels[labels == classes] = 255
    prediction = generator.integers(0, classes, (height, width)).astype(dtype)
    region = generator.random((height, width)) < 0.5
    expected = np.zeros((2, classes, classes), np.int64)
    for y in range(height):
        for x in range(width):
            if labels[y, x] != 255:
                expected[0 if region[y, x] else 1, labels[y, x], prediction[y, x]] += 1
    metric = SegmentationMetric([str(k) for k in range(classes)])
    counts = metric.update(DensePrediction(prediction), labels, region)
    np.testing.assert_array_equal(counts.confusion, expected)
    restored = ImageCounts.from_bytes(counts.to_bytes())
    np.testing.assert_array_equal(restored.confusion, expected)
    np.testing.assert_array_equal(restored.scalars, counts.scalars)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**31), st.integers(1, 5), st.integers(1, 6))
def test_figures_do_not_depend_on_the_order_of_images(seed: int, classes: int, images: int) -> None:
    generator = np.random.default_rng(seed)
    metric = SegmentationMetric([str(k) for k in range(classes)])
    counts = [
        metric.update(DensePrediction(generator.integers(0, classes, (4, 5))), generator.integers(0, classes, (4, 5)))
        for _ in range(images)
    ]
    forward = [(f.metric, f.class_name, f.value) for f in metric.compute(counts, WHOLE)]
    backward = [(f.metric, f.class_name, f.value) for f in metric.compute(counts[::-1], WHOLE)]
    for (name, class_name, value), (other, other_class, other_value) in zip(forward, backward, strict=True):
        assert (name, class_name) == (other, other_class)
        assert value == pytest.approx(other_value, abs=1e-12, nan_ok=True)


def test_a_negative_label_is_an_error_when_nothing_is_ignored() -> None:
    with pytest.raises(GauntletError, match="a label is -1; expected 0 to 1"):
        confusion(np.zeros((1, 2), int), np.array([[0, -1]]), 2, None)
