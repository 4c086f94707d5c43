"""The contract of metrics: the registry, views and their stored form, and one formula for everybody who asks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from gauntlet.errors import GauntletError
from gauntlet.evaluation.counting import build_counter
from gauntlet.metrics import (
    REGION,
    WHOLE,
    DensePrediction,
    Figure,
    Metric,
    SegmentationMetric,
    ViewKind,
    Views,
    build_metric,
    metrics,
)
from gauntlet.metrics.detection.metric import DetectionMetric
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.engine.labels import image_figures
from gauntlet.training.validation import figures_from_confusion

STORED = [
    (WHOLE, '["all"]'),
    (REGION, '["inside", "outside", "clean inside", "clean outside"]'),
    (Views.of_candidates(["clean", "pgd", "all"]), '["clean", "pgd", "all"]'),
    (Views.of_trials(2), '["trial 0", "trial 1"]'),
]


@pytest.mark.parametrize(("views", "stored"), STORED)
def test_the_stored_form_of_views_is_the_list_of_their_names(views: Views, stored: str) -> None:
    assert json.dumps(views.to_json()) == stored
    assert Views.from_json(json.loads(stored)) == views
    assert len(views) == len(list(views)) == len(json.loads(stored))


def test_names_that_are_not_fixed_are_those_of_a_battery() -> None:
    assert [Views.from_json(json.loads(stored)).kind for _, stored in STORED] == list(ViewKind)
    assert Views.from_json(["inside", "outside"]).kind is ViewKind.CANDIDATES


def test_the_tasks_have_their_metrics_by_name() -> None:
    assert metrics["segmentation"] is SegmentationMetric
    assert metrics["detection"] is DetectionMetric
    with pytest.raises(GauntletError, match=r"unknown metric 'segmentaton'.*segmentation"):
        metrics["segmentaton"]


def test_evaluations_count_with_the_metric_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pixels(SegmentationMetric):
        """Another metric under the name of the task's."""

    class Objects(DetectionMetric):
        """Another metric under the name of the task's."""

    monkeypatch.setitem(metrics._entries, "segmentation", Pixels)
    monkeypatch.setitem(metrics._entries, "detection", Objects)
    for task, expected in (("segmentation", Pixels), ("detection", Objects)):
        assert type(build_metric(task, {"class_names": ["a"]})) is expected
        assert type(build_counter(task, {"class_names": ["a"]}).metric) is expected
    with pytest.raises(GauntletError, match="no metric for the task 'depth'; upgrade"):
        build_counter("depth", {"class_names": ["a"]})


class WrongPixels(Metric):
    """Share of wrong pixels: a metric that does only what it must."""

    def update(
        self,
        prediction: npt.NDArray[np.int64],
        target: npt.NDArray[np.int64],
        region: npt.NDArray[np.bool_] | None = None,
    ) -> bytes:
        return bytes((prediction != target).tobytes())

    def decode(self, data: bytes) -> bytes:
        return data

    def compute(self, counts: Iterable[bytes], views: Views) -> list[Figure]:
        pixels = b"".join(counts)
        return [Figure("wrong", sum(pixels) / len(pixels))]

    def per_image(self, counts: bytes, views: Views) -> list[dict[str, Any]]:
        return [{"view": name, "wrong": sum(counts) / len(counts)} for name in views]


def test_a_small_metric_counts_whole_images_and_says_so_of_batteries() -> None:
    metric = WrongPixels(["a", "b"])
    counts = [metric.update(np.array([0, 1]), np.array([0, 0])), metric.update(np.array([1, 1]), np.array([1, 1]))]
    assert metric.compute(counts, WHOLE) == [Figure("wrong", 0.25)]
    with pytest.raises(GauntletError, match="WrongPixels counts whole images only"):
        metric.stack(counts)
    with pytest.raises(GauntletError, match="WrongPixels cannot count a battery that skips images"):
        metric.skipped(np.array([0, 0]))


def test_skipped_counts_fit_between_counted_ones() -> None:
    labels, truth = np.array([[0, 1]]), Boxes(np.array([[0, 0, 5, 5]], np.float32), np.array([0]))
    detected = Boxes(truth.xyxy, truth.classes, np.array([0.9], np.float32))
    views = Views.of_candidates(["clean", "pgd"])
    cases: list[tuple[Metric, Any, Any, str]] = [
        (SegmentationMetric(["a", "b"]), DensePrediction(labels), labels, "accuracy"),
        (DetectionMetric(["a"]), detected, truth, "F1"),
    ]
    for metric, prediction, target, figure in cases:
        counts = metric.stack([metric.update(prediction, target), metric.skipped(target)])
        rows = metric.per_image(metric.decode(counts.to_bytes()), views)
        assert [row["view"] for row in rows] == ["clean", "pgd"]
        assert rows[0][figure] == 1
        assert np.isnan(rows[1][figure])


def test_attacks_and_training_see_the_figures_of_the_metric() -> None:
    generator = np.random.default_rng(0)
    labels, predictions = generator.integers(0, 7, (3, 8, 9)), generator.integers(0, 7, (3, 8, 9))
    labels[2, :, 1:] = 255
    counted = labels != 255
    metric = SegmentationMetric([str(k) for k in range(7)])
    counts = [metric.update(DensePrediction(p), t) for p, t in zip(predictions, labels, strict=True)]
    rows = [metric.per_image(each, WHOLE)[0] for each in counts]
    accuracy, iou = image_figures(
        torch.from_numpy(predictions), torch.from_numpy(np.where(counted, labels, 0)), torch.from_numpy(counted), 7
    )
    assert accuracy.tolist() == [row["accuracy"] for row in rows]
    assert iou.tolist() == [row["mIoU"] for row in rows]
    figures = {f.metric: f.value for f in metric.compute(counts, WHOLE) if not f.class_name}
    validation = figures_from_confusion(np.sum([each.confusion[0] for each in counts], axis=0))
    assert (validation.miou, validation.accuracy) == (figures["mIoU"], figures["aAcc"])
