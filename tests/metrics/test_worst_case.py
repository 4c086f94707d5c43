"""Worst case over attacks against the aggregation fixture of the specification."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gauntlet.metrics import DensePrediction, SegmentationMetric, Views
from gauntlet.metrics.arithmetic import nan_mean
from gauntlet.metrics.segmentation import figures as segmentation
from gauntlet.metrics.segmentation import worst_case
from gauntlet.metrics.segmentation.confusion import confusion
from gauntlet.metrics.segmentation.counts import CountTable, ImageCounts

CLASSES, ATTACKS, IMAGES, SIZE = 4, 3, 4, 6


def fixture() -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
    """Ground truth and predictions by formula (tests/data/attack_reference.json, aggregation_fixture)."""
    rows, columns = np.mgrid[0:SIZE, 0:SIZE]
    truths: list[np.ndarray] = []
    predictions: list[list[np.ndarray]] = [[] for _ in range(ATTACKS)]
    for i in range(IMAGES):
        truth = ((rows * (i + 2) + 3 * columns + i) // 4) % CLASSES
        truths.append(truth)
        for a in range(ATTACKS):
            wrong = (5 * rows + (3 + a) * columns + (7 + 2 * a) * i + a) % (5 + a) < 2 + ((i + a) % 2)
            value = (truth + 1 + ((columns + a) % (CLASSES - 1))) % CLASSES
            predictions[a].append(np.where(wrong, value, truth))
    return truths, predictions


def tables() -> list[CountTable]:
    truths, predictions = fixture()
    return [
        CountTable.of([confusion(p, t, CLASSES)[0] for p, t in zip(of_attack, truths, strict=True)], CLASSES)
        for of_attack in predictions
    ]


def test_the_fixture_is_the_specified_one() -> None:
    accuracy = np.stack([segmentation.image_accuracy(table) for table in tables()])
    expected = [
        [0.5, 0.3333333333, 0.6666666667, 0.3333333333],
        [0.5, 0.6666666667, 0.5, 0.6666666667],
        [0.7222222222, 0.5833333333, 0.6944444444, 0.5833333333],
    ]
    np.testing.assert_allclose(accuracy, expected, atol=1e-9)
    np.testing.assert_allclose(
        [segmentation.cmiou(table) for table in tables()], [0.2973367763, 0.4120398159, 0.4778961847], atol=1e-9
    )


def test_choice_by_accuracy_and_by_image_iou() -> None:
    by_accuracy, by_iou = worst_case.worst_by_accuracy(tables()), worst_case.worst_by_image_iou(tables())
    assert by_accuracy.choice.tolist() == [0, 0, 1, 0]
    assert by_iou.choice.tolist() == [0, 0, 1, 0]
    chosen = worst_case.chosen(tables(), by_accuracy.choice)
    assert nan_mean(segmentation.image_accuracy(chosen)) == pytest.approx(0.4166666667, abs=1e-9)
    assert segmentation.nmiou(chosen) == pytest.approx(0.267135989, abs=1e-9)
    assert segmentation.cmiou(chosen) == pytest.approx(0.2632740256, abs=1e-9)


def test_ties_go_to_the_first_attack_and_share_the_credit() -> None:
    selection = worst_case.worst_by_accuracy(tables())  # image 0: attacks 0 and 1 tie at 0.5
    np.testing.assert_allclose(selection.share, [0.75, 0.25, 0])
    np.testing.assert_allclose(selection.credit, [2.5 / 4, 1.5 / 4, 0])


def test_greedy_reaches_the_exhaustive_minimum() -> None:
    value, choice = worst_case.greedy_cmiou(tables())
    exhaustive = min(
        segmentation.cmiou(worst_case.chosen(tables(), np.array(each)))
        for each in itertools.product(range(ATTACKS), repeat=IMAGES)
    )
    assert value == pytest.approx(exhaustive, abs=1e-12) == pytest.approx(0.2632740256, abs=1e-9)
    assert segmentation.cmiou(worst_case.chosen(tables(), choice)) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_never_above_the_simple_choices(seed: int) -> None:
    generator = np.random.default_rng(seed)
    truths = generator.integers(0, 3, (6, 5, 5))
    random_tables = [
        CountTable.of([confusion(generator.integers(0, 3, (5, 5)), truth, 3)[0] for truth in truths], 3)
        for _ in range(4)
    ]
    value, _ = worst_case.greedy_cmiou(random_tables)
    for choice in (
        worst_case.worst_by_accuracy(random_tables).choice,
        worst_case.worst_by_image_iou(random_tables).choice,
        *(np.full(6, a) for a in range(4)),
    ):
        assert value <= segmentation.cmiou(worst_case.chosen(random_tables, choice)) + 1e-12


def battery_counts(skip: bool) -> list[ImageCounts]:
    """Three attacks on two images; the second attack leaves no pixel of image 0 right."""
    metric = SegmentationMetric(["a", "b", "c"])
    truths = [np.array([[0, 1, 2, 0]]), np.array([[1, 1, 2, 0]])]
    outputs = [
        [np.array([[0, 1, 0, 0]]), np.array([[1, 0, 1, 2]]), np.array([[2, 2, 0, 1]])],
        [np.array([[1, 0, 2, 0]]), np.array([[1, 1, 0, 1]]), np.array([[0, 1, 2, 2]])],
    ]
    counts = []
    for image, truth in enumerate(truths):
        views = [metric.update(DensePrediction(output), truth) for output in outputs[image]]
        if skip and image == 0:
            views[2] = ImageCounts(np.zeros_like(views[2].confusion), views[2].scalars * np.nan)
        counts.append(ImageCounts.stack(views))
    return counts


def test_a_skipping_battery_equals_the_full_one() -> None:
    metric, names = SegmentationMetric(["a", "b", "c"]), Views.of_candidates(["one", "two", "three"])
    full = {(f.metric, f.view, f.class_name): f.value for f in metric.compute(battery_counts(False), names)}
    skipped = {(f.metric, f.view, f.class_name): f.value for f in metric.compute(battery_counts(True), names)}
    assert ("mIoU", "three", "") in full
    assert ("mIoU", "three", "") not in skipped  # it did not run everywhere: no figure of its own
    for key, value in skipped.items():
        if not key[0].startswith("credit"):
            assert value == pytest.approx(full[key], nan_ok=True), key


def test_the_battery_is_at_or_below_every_member() -> None:
    metric, names = SegmentationMetric(["a", "b", "c"]), Views.of_candidates(["one", "two", "three"])
    figures = metric.compute(battery_counts(False), names)
    for name in ("aAcc_images", "NmIoU"):
        worst = next(f.value for f in figures if f.metric == name and f.view == "all")
        assert all(worst <= f.value for f in figures if f.metric == name)
