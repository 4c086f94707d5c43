"""Foreground figures, confidence and A_P of batteries and regions, and the objects that counts keep on request."""

from __future__ import annotations

import numpy as np
import pytest

from gauntlet.datasets import load_dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.counting import metric_options
from gauntlet.metrics import REGION, DensePrediction, SegmentationMetric, Views
from gauntlet.metrics.segmentation.counts import ImageCounts
from gauntlet.threats import build_threat

METRIC = SegmentationMetric(["background", "cat", "dog"], background_index=0)
TRUTH = np.array([[0, 0, 0, 0, 1, 1, 2, 255]])
# The first leaves most pixels wrong, but none of the foreground; the second the other way round.
BACKGROUND_LOST = np.array([[1, 1, 1, 1, 1, 1, 2, 0]])
FOREGROUND_LOST = np.array([[0, 0, 0, 0, 2, 1, 0, 0]])
NAMES = Views.of_candidates(["clean", "one", "two"])


def said(labels: np.ndarray, confidence: float = 0.5) -> DensePrediction:
    return DensePrediction(labels, np.full(labels.shape, confidence), np.full(labels.shape, 2 * confidence))


def battery() -> dict[tuple[str, str], float]:
    weights = np.arange(8.0)[None]
    views = [
        METRIC.update(said(TRUTH % 255, 0.9), TRUTH, None, weights),
        METRIC.update(said(BACKGROUND_LOST, 0.6), TRUTH, None, weights),
        METRIC.update(said(FOREGROUND_LOST, 0.3), TRUTH, None, weights),
    ]
    return {(f.metric, f.view): f.value for f in METRIC.compute([METRIC.stack(views)], NAMES) if not f.class_name}


def test_the_worst_case_of_the_foreground_is_chosen_by_the_foreground() -> None:
    figures = battery()
    assert figures["aAcc", "all"] == pytest.approx(3 / 7)  # the first attack
    assert figures["fg_aAcc", "all"] == pytest.approx(1 / 3)  # the second: one of three pixels
    assert figures["fg_mIoU", "all"] == pytest.approx((1 / 2 + 0) / 2)
    assert figures["chosen_by_accuracy", "one"] == figures["chosen_by_fg_accuracy", "two"] == 1
    assert figures["chosen_by_fg_mIoU", "two"] == 1
    assert figures["fg_aAcc", "one"] == 1
    assert figures["fg_aAcc", "two"] == figures["fg_aAcc", "all"]


def test_a_battery_has_confidence_entropy_and_weighted_accuracy_of_every_attack() -> None:
    figures = battery()
    assert [figures["confidence", view] for view in ("clean", "one", "two", "all")] == pytest.approx(
        [0.9, 0.6, 0.3, 0.6]
    )
    assert figures["entropy", "two"] == pytest.approx(0.6)
    assert figures["A_P", "two"] == pytest.approx((0 + 1 + 2 + 3 + 5) / 21)
    assert figures["A_P", "all"] == figures["A_P", "one"] == pytest.approx((4 + 5 + 6) / 21)


def test_a_region_has_them_inside_and_outside() -> None:
    region = np.array([[0, 0, 1, 1, 1, 0, 0, 1]], bool)
    weights = np.ones((1, 8))
    attacked = METRIC.update(said(FOREGROUND_LOST, 0.3), TRUTH, region, weights)
    clean = METRIC.update(said(TRUTH % 255, 0.9), TRUTH, region, weights)
    figures = {
        f.metric: f.value
        for f in METRIC.compute([METRIC.stack([attacked, clean])], REGION)
        if f.view == "all" and not f.class_name
    }
    assert figures["fg_aAcc"] == pytest.approx(1 / 3)
    assert figures["fg_aAcc_M"] == 0  # one pixel, mistaken
    assert figures["fg_aAcc_Mbar"] == pytest.approx(1 / 2)
    assert figures["fg_aAcc_M_clean"] == 1
    assert figures["A_P"] == pytest.approx(5 / 7)
    assert [figures["A_P_M"], figures["A_P_Mbar"]] == pytest.approx([2 / 3, 3 / 4])
    assert [figures["confidence"], figures["confidence_M_clean"]] == pytest.approx([0.3, 0.9])
    assert figures["entropy_Mbar"] == pytest.approx(0.6)


def test_objects_are_kept_on_request_and_come_back_from_bytes() -> None:
    metric = SegmentationMetric(["background", "cat", "dog"], background_index=0, objects=True)
    assert METRIC.update(said(TRUTH % 255), TRUTH).objects is None
    views = [metric.update(said(each), TRUTH) for each in (TRUTH % 255, FOREGROUND_LOST)]
    stacked = metric.stack([*views, metric.skipped(TRUTH)])
    found = ImageCounts.from_bytes(stacked.to_bytes()).objects
    assert found is not None
    assert (found.classes.tolist(), found.area.tolist(), found.pixels) == ([1, 2], [2, 1], 8)
    assert found.right.tolist() == [[2, 1], [1, 0], [0, 0]]


def test_objects_in_a_region_are_counted_in_parts() -> None:
    metric = SegmentationMetric(["background", "cat", "dog"], objects=True)
    region = np.array([[0, 0, 1, 1, 1, 0, 0, 1]], bool)
    found = metric.update(said(TRUTH % 255), TRUTH, region).objects
    assert found is not None
    assert found.area.tolist() == [4, 2, 1]
    assert found.right.tolist() == [[2, 1, 0], [2, 1, 1]]


def test_objects_of_boxes_are_refused() -> None:
    with pytest.raises(GauntletError, match="connected pixels of a label map"):
        metric_options("detection", load_dataset("streets"), build_threat("clean"), objects=True)
