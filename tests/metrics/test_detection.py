"""COCO's figures equal pycocotools', VOC's the rules of mmdet, intervals the resampled datasets."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_cases import random_case
from detection_references import pycocotools_evaluation, voc_rule
from gauntlet.errors import GauntletError
from gauntlet.metrics.detection.coco_figures import THRESHOLDS, coco_curves
from gauntlet.metrics.detection.figures import figures, image_f1, image_figures
from gauntlet.metrics.detection.overlap import box_iou, ignored_objects, match
from gauntlet.metrics.detection.table import ObjectTable, WeightedPrecision
from gauntlet.metrics.detection.voc_figures import voc_precision
from gauntlet.samples import Boxes

CLASSES = 4
NAMES = (
    "mAP", "mAP50", "mAP75", "mAP_small", "mAP_medium", "mAP_large",
    "AR_1", "AR_10", "AR_100", "AR_small", "AR_medium", "AR_large",
)  # fmt: skip


def boxes(*rows: Sequence[float], classes: Sequence[int] | None = None, scores: Sequence[float] | None = None) -> Boxes:
    return Boxes(
        np.array(rows, np.float32).reshape(-1, 4),
        np.array(classes if classes is not None else [0] * len(rows), np.int64),
        None if scores is None else np.array(scores, np.float32),
    )


NOTHING = boxes(scores=[])


def assert_equals_pycocotools(truths: Sequence[Boxes], detections: Sequence[Boxes], classes: int = CLASSES) -> None:
    expected = pycocotools_evaluation(truths, detections, classes)
    stats = np.where(expected.stats < 0, np.nan, expected.stats)
    reported = figures(truths, detections, classes)
    assert tuple(reported) == NAMES
    np.testing.assert_allclose(list(reported.values()), stats, atol=1e-6)
    of_class = expected.eval["precision"][:, :, :, 0, -1].mean(axis=(0, 1))  # (K,)
    average = coco_curves(truths, detections, classes).per_class()["AP"]
    np.testing.assert_allclose(average, np.where(of_class < 0, np.nan, of_class), atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    images=st.integers(1, 8),
    crowd=st.sampled_from([0.0, 0.3]),
    difficult=st.sampled_from([0.0, 0.3]),
    areas=st.booleans(),
    ties=st.booleans(),
)
def test_equal_to_pycocotools(seed: int, images: int, crowd: float, difficult: float, areas: bool, ties: bool) -> None:
    truths, detections = random_case(
        seed, images=images, classes=CLASSES, crowd=crowd, difficult=difficult, areas=areas, ties=ties
    )
    assert_equals_pycocotools(truths, detections)


def test_more_than_a_hundred_detections_of_a_class_equal_to_pycocotools() -> None:
    truths, detections = random_case(3, images=3, classes=2, ties=False)
    generator = np.random.default_rng(0)
    many = generator.uniform(0, 100, (150, 4)).astype(np.float32)
    many[:, 2:] += many[:, :2]
    detections[0] = Boxes(many, np.zeros(150, np.int64), generator.random(150).astype(np.float32))
    assert_equals_pycocotools(truths, detections, 2)


def test_hand_computed_average_precision() -> None:
    # Two objects; found at rank 1 and 3, a false one between: precision 1 to recall 0.5, then 2/3.
    truth = boxes([0, 0, 10, 10], [20, 20, 30, 30])
    reported = boxes([0, 0, 10, 10], [50, 50, 60, 60], [20, 20, 30, 30], scores=[0.9, 0.8, 0.7])
    values = figures([truth], [reported], 1)
    expected = (51 * 1 + 50 * 2 / 3) / 101  # recalls 0 to 0.50, and 0.51 to 1
    assert values["mAP"] == pytest.approx(expected)
    assert values["mAP50"] == pytest.approx(expected)
    assert values["AR_1"] == 0.5
    assert values["AR_100"] == values["AR_small"] == 1.0
    assert math.isnan(values["mAP_large"])


def test_no_detections_is_zero_and_nothing_at_all_is_undefined() -> None:
    truth = boxes([0, 0, 10, 10])
    assert figures([truth], [NOTHING], 2)["mAP"] == 0.0
    assert all(math.isnan(value) for value in figures([NOTHING], [boxes([0, 0, 5, 5], scores=[1])], 2).values())
    assert all(math.isnan(value) for value in figures([], [], 2).values())


def test_bad_input_is_named() -> None:
    with pytest.raises(GauntletError, match="class 5; expected 0 to 1"):
        figures([boxes([0, 0, 1, 1], classes=[5])], [NOTHING], 2)
    with pytest.raises(GauntletError, match="need scores"):
        figures([NOTHING], [boxes([0, 0, 1, 1])], 2)
    with pytest.raises(GauntletError, match="1 images and detections of 0"):
        figures([NOTHING], [], 2)


def repeated(cases: Sequence[Boxes], weights: np.ndarray) -> list[Boxes]:
    return [case for case, weight in zip(cases, weights, strict=True) for _ in range(weight)]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), difficult=st.sampled_from([0.0, 0.3]), ties=st.booleans())
def test_a_resample_has_the_figures_of_the_repeated_images(seed: int, difficult: float, ties: bool) -> None:
    truths, detections = random_case(seed, images=5, difficult=difficult, ties=ties)
    # Equal scores inside an image follow each other copy by copy when it is repeated, so ties are tried without.
    weights = np.ones(5, int) if ties else np.random.default_rng(seed).multinomial(5, [0.2] * 5)
    table = ObjectTable.of(truths, detections, CLASSES)
    average = WeightedPrecision(table, THRESHOLDS, 100)(weights[None].astype(float))[0]
    curves = coco_curves(repeated(truths, weights), repeated(detections, weights), CLASSES)
    np.testing.assert_allclose(average, curves.precision[:, :, 0], atol=1e-9)


def test_image_f1_by_hand() -> None:
    truth = boxes([0, 0, 10, 10], [20, 20, 30, 30], [40, 40, 50, 50], classes=[0, 0, 1])
    reported = boxes(
        [0, 0, 10, 9], [0, 0, 10, 10], [20, 20, 30, 30], [40, 40, 50, 50],
        classes=[0, 0, 1, 1], scores=[0.9, 0.8, 0.7, 0.4],
    )  # fmt: skip
    # The first takes the object, the second is double, the third has another class, the fourth is not said.
    assert image_f1(truth, reported) == pytest.approx(2 * 1 / (2 * 1 + 2 + 2))
    assert image_f1(truth, reported, score=0.3) == pytest.approx(2 * 2 / (2 * 2 + 2 + 1))
    assert image_f1(truth, reported, iou=0.95) == pytest.approx(2 * 1 / (2 * 1 + 2 + 2))
    assert image_f1(NOTHING, NOTHING) == 1.0
    assert image_f1(NOTHING, reported) == 0.0
    assert image_f1(truth, NOTHING) == 0.0


def test_image_f1_leaves_crowds_and_difficult_objects_out() -> None:
    truth = boxes([0, 0, 10, 10], [20, 20, 40, 40], [60, 60, 70, 70])
    flagged = Boxes(
        truth.xyxy, truth.classes, crowd=np.array([False, True, False]), difficult=np.array([False, False, True])
    )
    reported = boxes([0, 0, 10, 10], [20, 20, 25, 25], [30, 30, 35, 35], [60, 60, 70, 70], scores=[0.9] * 4)
    assert image_f1(flagged, reported) == 1.0
    assert image_f1(flagged, boxes([0, 0, 10, 10], scores=[0.9])) == 1.0
    assert image_f1(truth, boxes([0, 0, 10, 10], scores=[0.9])) == pytest.approx(2 / (2 + 2))


def f1_class_by_class(truth: Boxes, reported: Boxes) -> float:
    """F1 at IoU 0.5 and score 0.5, matched in one class after the other."""
    assert reported.scores is not None
    confident, ignored, hits, false = (
        reported.select(reported.scores >= 0.5),
        ignored_objects(truth),
        0,
        0,
    )
    for kind in np.unique(confident.classes):
        of_class, detected = truth.classes == kind, confident.select(confident.classes == kind)
        taken = match(detected, truth.select(of_class), ignored[of_class], [0.5]).matched[0]
        hits += int(np.sum((taken >= 0) & ~np.append(ignored[of_class], True)[taken]))
        false += int(np.sum(taken < 0))
    total = hits + false + int(np.sum(~ignored))
    return 2 * hits / total if total else 1.0


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_figures_of_many_images_are_those_of_each(seed: int) -> None:
    truths, detections = random_case(seed, difficult=0.2)
    many = image_figures(truths, detections, iou=0.5, score=0.5)
    alone = [image_f1(truth, reported) for truth, reported in zip(truths, detections, strict=True)]
    np.testing.assert_array_equal(many.f1, alone)
    by_class = [f1_class_by_class(truth, reported) for truth, reported in zip(truths, detections, strict=True)]
    np.testing.assert_allclose(many.f1, by_class, rtol=0, atol=1e-15)
    said = [reported.select(reported.scores >= 0.5) for reported in detections if reported.scores is not None]
    np.testing.assert_array_equal(many.boxes, [len(each) for each in said])
    for truth, each, matches in zip(truths, said, many.matches, strict=True):
        near = box_iou(each.xyxy, truth.xyxy)
        assert matches <= (near.max(axis=1, initial=0) >= 0.5).sum()
    assert np.all(many.mislabelled <= many.matches)


def test_mislabelled_boxes_are_counted_among_matches_of_any_class() -> None:
    truth = boxes([0, 0, 10, 10], [20, 20, 30, 30], classes=[0, 1])
    reported = boxes([0, 0, 10, 10], [20, 20, 30, 30], [50, 50, 60, 60], classes=[1, 1, 0], scores=[0.9, 0.9, 0.9])
    result = image_figures([truth], [reported], iou=0.5, score=0.5)
    assert (result.matches[0], result.mislabelled[0], result.boxes[0]) == (2, 1, 3)


# VOC ---------------------------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), eleven=st.booleans())
def test_voc_follows_the_rules_of_mmdet(seed: int, eleven: bool) -> None:
    truths, detections = random_case(seed, crowd=0, difficult=0.3, ties=False)
    reported = voc_precision(truths, detections, CLASSES, eleven_points=eleven)
    for row, threshold in zip(reported, (0.25, 0.5, 0.75), strict=True):
        expected = [voc_rule(truths, detections, kind, threshold, eleven) for kind in range(CLASSES)]
        np.testing.assert_allclose(row, expected, atol=1e-12)


def test_voc_second_match_is_false_and_inclusive_corners_are_longer() -> None:
    truth = boxes([0, 0, 9, 9])
    doubled = boxes([0, 0, 9, 9], [0, 0, 9, 8], scores=[0.8, 0.9])
    assert voc_precision([truth], [doubled], 1, thresholds=[0.5])[0, 0] == pytest.approx(1.0)  # the first finds it
    # 10 x 5 of 10 x 10 pixels: exactly a half with inclusive corners, 36 / 81 without.
    half = boxes([0, 0, 9, 4], scores=[0.9])
    assert voc_precision([truth], [half], 1, thresholds=[0.5])[0, 0] == 1.0
    assert voc_precision([truth], [half], 1, thresholds=[0.5], inclusive=False)[0, 0] == 0.0


def test_voc_eleven_points_by_hand() -> None:
    truth = boxes([0, 0, 10, 10], [20, 20, 30, 30])
    reported = boxes([0, 0, 10, 10], [50, 50, 60, 60], [20, 20, 30, 30], scores=[0.9, 0.8, 0.7])
    eleven = voc_precision([truth], [reported], 1, thresholds=[0.5], eleven_points=True)[0, 0]
    assert eleven == pytest.approx((6 * 1 + 5 * 2 / 3) / 11)
    assert voc_precision([truth], [reported], 1, thresholds=[0.5])[0, 0] == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


@pytest.mark.parametrize("found", [3, 6, 7])
def test_a_recall_of_exactly_some_tenths_reaches_its_point(found: int) -> None:
    rows = [[20 * index, 0, 20 * index + 10, 10] for index in range(10)]
    truth = boxes(*rows)
    reported = boxes(*rows[:found], scores=[0.9] * found)
    eleven = voc_precision([truth], [reported], 1, thresholds=[0.5], eleven_points=True, inclusive=False)[0, 0]
    assert eleven == pytest.approx((found + 1) / 11)
