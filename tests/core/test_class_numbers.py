"""Classes that cannot be counted are refused in one sentence: names, void, background, numbers of things."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gauntlet
from gauntlet.datasets import load_dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.cluster import RayExecutor
from gauntlet.evaluation.execution.local import LocalExecutor
from gauntlet.evaluation.jobs import Settings
from gauntlet.evaluation.plan import parse_plan
from gauntlet.metrics import WHOLE, DensePrediction, DetectionMetric, SegmentationMetric
from gauntlet.samples import Sample
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat
from gauntlet.threats.geometry.writing import write_moved
from tiny import TinyDataset, tiny_network

NAMES = [f"class {index}" for index in range(300)]
MODEL = gauntlet.wrap_model(tiny_network(), num_classes=3, mean=[0.5] * 3, std=[0.25] * 3)


def test_the_class_with_the_number_of_void_is_counted_or_refused() -> None:
    with pytest.raises(GauntletError, match=r"ignore_index 255 is the number of a class \(0 to 299\).*65535"):
        SegmentationMetric(NAMES)
    metric = SegmentationMetric(NAMES, ignore_index=65535)
    labels = np.array([[0, 255, 65535]])
    figures = metric.compute([metric.update(DensePrediction(np.array([[0, 0, 0]])), labels)], WHOLE)
    (miou,) = [each.value for each in figures if each.metric == "mIoU"]
    assert miou == 0.25  # class 0: 1/2, class 255: 0; it was 1.0 when 255 was void


@pytest.mark.parametrize("background", [-1, 2])
def test_a_background_is_a_class(background: int) -> None:
    with pytest.raises(GauntletError, match="background_index must be the number of a class, 0 to 1, or None"):
        SegmentationMetric(["a", "b"], background_index=background)


@pytest.mark.parametrize("metric", [SegmentationMetric, DetectionMetric])
def test_every_class_has_a_name_of_its_own(metric: Any) -> None:
    with pytest.raises(GauntletError, match="the class 1 has no name"):
        metric(["a", " "])
    with pytest.raises(GauntletError, match="two classes are called 'a'"):
        metric(["a", "b", "a"])


class Odd(TinyDataset):
    """The tiny dataset with one wrong fact."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(2)
        for name, value in facts.items():
            setattr(self, name, value)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"ignore_index": 1}, "ignore_index 1 is the number of a class"),
        ({"background_index": -1}, "background_index must be"),
        ({"class_names": ("a", "", "c")}, "the class 1 has no name"),
        ({"class_names": ("a", "b", "a")}, "two classes are called 'a'"),
    ],
)
def test_a_dataset_is_refused_before_anything_is_computed(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(GauntletError, match=message):
        gauntlet.evaluate(MODEL, Odd(**facts), "clean")


@pytest.mark.parametrize("wrong", [0, True, -1, 2.5, "2"])
def test_numbers_of_things_are_whole_and_positive(wrong: Any) -> None:
    data = TinyDataset(2)
    for name in ("workers", "limit", "batch_size"):
        with pytest.raises(GauntletError, match=f"{name} must be a whole number of at least 1, not"):
            gauntlet.evaluate(MODEL, data, "clean", **{name: wrong})
    with pytest.raises(GauntletError, match="limit must be a whole number"):
        data.subset(wrong)
    with pytest.raises(GauntletError, match="workers must be a whole number"):
        LocalExecutor(wrong)
    with pytest.raises(GauntletError, match="workers must be a whole number"):
        RayExecutor(workers=wrong)
    with pytest.raises(GauntletError, match="batch_size must be a whole number"):
        Settings(batch_size=wrong)
    entry = {"models": ["streets/enet"], "threats": ["clean"]}
    for plan in ({**entry, "datasets": [{"name": "streets", "limit": wrong}]}, {**entry, "batch_size": wrong}):
        with pytest.raises(GauntletError, match=r"limit|batch_size"):
            parse_plan(plan)


def test_numbers_of_numpy_are_taken() -> None:
    assert len(TinyDataset(3).subset(np.int64(2))) == 2  # type: ignore[arg-type]


def test_a_model_of_many_classes_has_a_void_that_is_none_of_them() -> None:
    many = gauntlet.wrap_model(tiny_network(300), num_classes=300, mean=[0.5] * 3, std=[0.25] * 3)
    assert many.ignore_index == 65535  # 255 is a class, which attacks passed over as void
    assert MODEL.ignore_index == 255


class Many(TinyDataset):
    """300 classes, of which the one with the number 255 is there, beside void."""

    class_names = tuple(NAMES)
    ignore_index = 65535

    def __getitem__(self, index: int) -> Sample:
        sample = TinyDataset(1)[index]
        assert sample.labels is not None
        labels = np.where(sample.labels == 255, 65535, sample.labels.astype(np.int32))
        labels[8:] = 255
        return dataclasses.replace(sample, labels=labels)


def test_a_moved_copy_keeps_void_apart_from_the_class_255(tmp_path: Path) -> None:
    threat = build_threat({"geometric": {"name": "translation", "dy": 4}})
    write_moved(Many(1), tmp_path, threat)
    (copy,) = load_dataset("folder", root=tmp_path)
    assert copy.labels is not None
    moved = threat.moved(Many(1)[0], ImageSeed(0, "tiny/0"), 65535)  # type: ignore[attr-defined]
    assert copy.labels.tolist() == moved.labels.tolist()
    assert {255, 65535} <= set(np.unique(copy.labels).tolist())
