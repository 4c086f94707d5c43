"""What a task is: facts that other modules rely on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from gauntlet.errors import GauntletError
from gauntlet.evaluation.counting import COUNTERS
from gauntlet.metrics import WHOLE, DetectionMetric, SegmentationMetric, build_metric
from gauntlet.models import SegmentationModel
from gauntlet.tasks import DETECTION, SEGMENTATION, TASKS, get_task, task_of
from gauntlet.threats import attacks, suites
from tiny import TinyDataset
from tiny_detector import CLASSES, TinyBoxes, TinyDetector


def test_every_task_has_a_counter_a_metric_and_suites_that_can_be_built() -> None:
    assert set(COUNTERS) == set(TASKS)
    for name, task in TASKS.items():
        assert task.name == name
        assert set(task.figures) <= {
            each.metric for each in build_metric(name, {"class_names": ["a"]}).compute([], WHOLE)
        }
        assert all(len(suites.build(suite, name)) > 1 for suite in task.suites)
        assert all(name in attacks.build(attack).tasks for attack in task.rem_attacks)
    assert isinstance(build_metric(SEGMENTATION, {"class_names": ["a"]}), SegmentationMetric)
    assert isinstance(build_metric(DETECTION, {"class_names": ["a"]}), DetectionMetric)


def test_the_classes_of_a_dataset_are_those_of_the_task() -> None:
    assert tuple(TASKS[SEGMENTATION].class_names(TinyDataset(1))) == ("dark", "light", "red")
    assert tuple(TASKS[DETECTION].class_names(TinyBoxes(1))) == CLASSES
    with pytest.raises(GauntletError, match=r"'tiny' has no boxes; a detector needs one with boxes, such as streets"):
        TASKS[DETECTION].class_names(TinyDataset(1))

    class Boxed(TinyDataset):
        class_names: Sequence[str] = ()

    with pytest.raises(GauntletError, match="has no label maps; a segmentation model needs one with label maps"):
        TASKS[SEGMENTATION].class_names(Boxed(1))


def test_a_model_has_a_task_and_any_other_callable_gives_logits(tiny_model: SegmentationModel) -> None:
    assert task_of(tiny_model) == SEGMENTATION
    assert task_of(TinyDetector()) == DETECTION
    assert task_of(torch.nn.Conv2d(3, 2, 1)) == SEGMENTATION
    assert task_of(lambda images: images) == SEGMENTATION


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(GauntletError, match="unknown task 'detektion'; did you mean 'detection'"):
        get_task("detektion")
