"""Classes that cannot be counted are refused in one sentence: names, void, background, numbers of things."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gauntlet
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.cluster import RayExecutor
from gauntlet.evaluation.execution.local import LocalExecutor
from gauntlet.evaluation.jobs import Settings
from gauntlet.evaluation.plan import parse_plan
from gauntlet.metrics import WHOLE, DensePrediction, DetectionMetric, SegmentationMetric
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
