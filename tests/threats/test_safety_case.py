"""The suite `full` and the list of kinds behind it."""

from __future__ import annotations

import pytest

from gauntlet.tasks import DETECTION, SEGMENTATION, TASKS
from gauntlet.threats import build_threats, suites
from gauntlet.threats.safety_case import KINDS, kinds_of_task


@pytest.mark.parametrize("task", TASKS)
def test_every_threat_of_the_suite_answers_the_question_it_was_chosen_for(task: str) -> None:
    described = []
    for kind in kinds_of_task(task):
        for description in kind.of_task(task):
            (threat,) = build_threats(description)
            threat.check_task(task)
            ((name, options),) = threat.describe().items()
            assert kind.covers(name, options), (kind.name, threat.name)
            described.append(description)
    assert suites.build("full", task) == described


def test_full_is_one_of_each_kind() -> None:
    kinds = {next(iter(threat)) for threat in suites.build("full")}
    assert kinds == {
        *("clean", "attack", "battery", "region_aware", "corruption", "localized", "geometric", "geometric_worst")
    }
    on_detectors = suites.build("full", DETECTION)
    assert {"battery": {"name": "detectors", "epsilon": "8/255"}} in on_detectors
    assert not any(threat.get("attack", {}).get("name") == "cospgd" for threat in on_detectors)
    assert {next(iter(threat)) for threat in on_detectors} == kinds


def test_what_full_does_not_run_says_how() -> None:
    for task in TASKS:
        for kind in kinds_of_task(task):
            assert kind.of_task(task) or kind.how, kind.name
            assert kind.question.endswith("?")
    assert "certificates" not in [kind.name for kind in kinds_of_task(DETECTION)]
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_kinds_and_their_controls_are_told_apart() -> None:
    covers = {kind.name: kind.covers for kind in kinds_of_task(SEGMENTATION)}
    square = {"name": "square", "norm": "linf", "epsilon": 0.03}
    assert covers["attacks without gradients"]("attack", square)
    assert not covers["white-box attacks, linf"]("attack", square)
    assert covers["white-box attacks, linf"]("attack", {"name": "pgd", "norm": "linf"})
    assert not covers["white-box attacks, l2"]("attack", {"name": "pgd", "norm": "linf"})
    assert covers["corruptions in 3D"]("corruption", {"name": "fog_3d"})
    assert not covers["common corruptions"]("corruption", {"name": "fog_3d"})
    assert not covers["common corruptions"]("corruption", {"name": "of another package"})
    assert covers["attacks in a region"]("attack", {"name": "pgd", "region": {"box": [0, 0, 1, 1]}})
    assert covers["moves of the camera"]("geometric", {"name": "rotation", "degrees": 5})
    assert not covers["moves of the camera"]("geometric", {"name": "rotation", "degrees": 5, "control": True})
    assert not covers["adversarial patches"]("patch", {"content": "random", "artifact": "0123"})
