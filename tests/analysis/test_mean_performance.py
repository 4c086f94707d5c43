"""mPC and rPC against the reference values of Michaelis et al. and by hand (docs/specs/beyond.md, 2)."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from gauntlet import analysis
from gauntlet.results import published
from paths import DATA

REFERENCE = json.loads((DATA / "corruption_summaries.json").read_text())


def rows_of(figures: dict[str, list[float]], clean: float) -> pd.DataFrame:
    """The frame of one segmentation model."""
    cells: list[tuple[str, dict[str, Any], float]] = [("clean", {"clean": {}}, clean)]
    for name, values in figures.items():
        for severity, value in enumerate(values, 1):
            cells.append(("corruption", {"corruption": {"name": name, "severity": severity}}, value))
    return pd.DataFrame(
        [
            {"task": "segmentation", "model": "a", "dataset": "d", "split": "val", "view": "all", "metric": "mIoU"}
            | {"kind": kind, "threat": str(index), "description": json.dumps(description), "value": value}
            for index, (kind, description, value) in enumerate(cells)
        ]
    )


@pytest.fixture(scope="module")
def michaelis() -> pd.DataFrame:
    return published.frame(source="michaelis")


def test_every_run_of_michaelis_et_al(michaelis: pd.DataFrame) -> None:
    metrics = {"bbox": ("mAP", "VOC_mAP50"), "segm": ("mask_mAP",)}
    seen = {}
    for task, names in metrics.items():
        for name in names:
            for row in analysis.mpc(michaelis, name).to_dict("records"):
                seen[f"{row['dataset'].replace('voc0712', 'voc')}/{row['model']}/{task}"] = row
    expected = REFERENCE["michaelis_P_mPC_rPC"]
    assert set(seen) == set(expected)
    assert len(seen) == 37
    for key, wanted in expected.items():
        assert seen[key]["cells"] == "75 of 75"
        figures = tuple(seen[key][name] for name in ("clean", "mPC", "rPC"))
        assert figures == pytest.approx(tuple(wanted[name] for name in ("P", "mPC", "rPC")), abs=2e-6)


def test_by_hand() -> None:
    hand = REFERENCE["hand"]
    figures = {name: [1 - error for error in errors] for name, errors in hand["errors_f"].items()}
    made = analysis.mpc(rows_of(figures, 1 - hand["clean_f"]), corruptions=("fog", "snow")).iloc[0]
    assert made["mPC"] == pytest.approx(hand["mPC_of_1_minus_error"])
    assert made["rPC"] == pytest.approx(hand["rPC"])


def test_a_missing_figure_is_named_and_nothing_is_averaged_without_it() -> None:
    made = analysis.mpc(rows_of({"fog": [0.5, 0.4, 0.3, 0.2]}, 0.8), corruptions=("fog",)).iloc[0]
    assert pd.isna(made["mPC"])
    assert pd.isna(made["rPC"])
    assert (made["cells"], made["missing"]) == ("4 of 5", "fog 5")


def test_without_a_clean_figure_there_is_no_ratio() -> None:
    assert pd.isna(analysis.mpc(rows_of({"fog": [0.0] * 5}, 0.0), corruptions=("fog",)).iloc[0]["rPC"])
