"""Random configurations equal independent references; `scripts/differential.py` runs many more of them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from configurations import KINDS, differences

import differential
from gauntlet.datasets import protocols
from gauntlet.metrics.detection import metric as detection_metric
from gauntlet.metrics.detection import voc_figures
from gauntlet.metrics.segmentation import figures as segmentation_figures
from gauntlet.samples import Boxes

SEED = 39


@pytest.mark.parametrize("kind", KINDS)
def test_a_slice_of_the_configurations(kind: str) -> None:
    found = {number: differences(number, SEED, [kind])[1] for number in range(20)}
    assert {number: each for number, each in found.items() if each} == {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_configurations(kind: str) -> None:
    found = {number: differences(number, SEED + 1, [kind])[1] for number in range(1000)}
    assert {number: each for number, each in found.items() if each} == {}


def inside_first(inside: Any, outside: Any) -> Boxes:
    first, second = inside.detections, outside.detections
    return Boxes(
        np.concatenate([first.xyxy, second.xyxy]),
        np.concatenate([first.classes, second.classes]),
        np.concatenate([first.scores, second.scores]),
    )


def tenths_added_up(hits: Any, objects: int, precision: Any) -> float:
    best = [precision[hits / objects >= point].max(initial=0.0) for point in np.arange(0, 1 + 1e-3, 0.1)]
    return float(np.mean(best))


def absent_classes_count_as_zero(table: Any) -> float:
    return float(np.nan_to_num(segmentation_figures.class_iou(table)).mean())


def nearest_by_corner(given: int, wanted: int) -> Any:
    return np.arange(wanted) * given // wanted


@pytest.mark.parametrize(
    ("kind", "module", "name", "fault"),
    [
        ("detection", detection_metric, "_joined", inside_first),
        ("detection", voc_figures, "_eleven_points", tenths_added_up),
        ("segmentation", segmentation_figures, "cmiou", absent_classes_count_as_zero),
        ("regions", segmentation_figures, "cmiou", absent_classes_count_as_zero),
        ("protocols", protocols, "_nearest", nearest_by_corner),
    ],
)
def test_the_configurations_find_faults(
    monkeypatch: pytest.MonkeyPatch, kind: str, module: Any, name: str, fault: Any
) -> None:
    monkeypatch.setattr(module, name, fault)
    assert any(differences(number, SEED, [kind])[1] for number in range(60))


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, numbers = tmp_path / "state.json", itertools.count()

    def stopping(number: int, seed: int, kinds: Any) -> tuple[str, list[str]]:
        if next(numbers) == 7:
            raise KeyboardInterrupt
        return kinds[0], ["wrong"] if number == 3 else []

    monkeypatch.setattr(differential, "differences", stopping)
    arguments = ["--configurations", "12", "--seed", "5", "--state", str(state), "--kinds", "protocols"]
    assert differential.main(arguments) == 1  # stopped, with a difference
    kept = json.loads(state.read_text())
    assert (kept["next"], [each["number"] for each in kept["differences"]]) == (7, [3])
    assert differential.main(arguments) == 1
    kept = json.loads(state.read_text())
    assert (kept["next"], kept["compared"]) == (12, {"protocols": 12})
    assert next(numbers) == 13  # 7 and the stop before, 5 after
    with pytest.raises(SystemExit):
        differential.main([*arguments, "--seed", "6"])
