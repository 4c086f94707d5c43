"""mPC, rPC, mCE and attack optimality against the reference values of docs/specs/beyond.md, sections 2 and 4."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gauntlet import analysis
from gauntlet.analysis.corruption_performance import (
    corruption_errors,
    mean_corruption_error,
    relative_corruption_errors,
)
from gauntlet.analysis.optimality import complementarity, ensemble_gain, optimality, optimality_table
from gauntlet.errors import GauntletError
from paths import DATA

SECTIONS = json.loads((DATA / "beyond_reference_1_to_4.json").read_text())
SUMMARIES, OPTIMALITY = SECTIONS["corruption_summaries"], SECTIONS["optimality"]
PRINTED = 1e-5
EXACT = 1e-9
Cells = dict[str, np.ndarray[Any, np.dtype[np.float64]]]


@cache
def published() -> pd.DataFrame:
    return pd.read_csv(DATA / "michaelis_figures.csv.gz")


def cells(dataset: str, model: str, task: str, groups: tuple[str, ...] = ("benchmark",)) -> tuple[Cells, float]:
    rows = published()
    rows = rows[rows["dataset"].eq(dataset) & rows["model"].eq(model) & rows["task"].eq(task)]
    clean = float(rows.loc[rows["corruption"].eq("clean"), "figure"].item())
    wide = rows[rows["group"].isin(groups)].pivot(index="corruption", columns="severity", values="figure")
    return {str(name): values.to_numpy(float) for name, values in wide.iterrows()}, clean


@pytest.mark.parametrize("series", SUMMARIES["michaelis_P_mPC_rPC"])
def test_means_of_the_published_detectors(series: str) -> None:
    expected = SUMMARIES["michaelis_P_mPC_rPC"][series]
    dataset, model, task = series.split("/")
    figures, clean = cells(dataset, model, task)
    assert clean == pytest.approx(expected["P"], abs=PRINTED)
    assert analysis.mean_performance_under_corruption(figures) == pytest.approx(expected["mPC"], abs=PRINTED)
    assert analysis.relative_performance_under_corruption(figures, clean) == pytest.approx(expected["rPC"], abs=PRINTED)
    every, _ = cells(dataset, model, task, ("benchmark", "extra"))
    assert analysis.mean_performance_under_corruption(every) == pytest.approx(expected["mPC19"], abs=PRINTED)


COMPARED = [name for name in SUMMARIES if "|relative to " in name]


@pytest.mark.parametrize("name", COMPARED)
def test_errors_of_the_published_detectors(name: str) -> None:
    dataset, model, reference, _ = name.split("|")
    figures, clean = cells(dataset, model, "bbox")
    base, base_clean = cells(dataset, reference.removeprefix("relative to "), "bbox")
    errors = corruption_errors(figures, base)
    relative = relative_corruption_errors(figures, clean, base, base_clean)
    expected = SUMMARIES[name]
    assert np.mean(list(errors.values())) == pytest.approx(expected["mCE"], abs=PRINTED)
    assert np.mean(list(relative.values())) == pytest.approx(expected["relative_mCE"], abs=5 * PRINTED)
    assert errors["gaussian_noise"] == pytest.approx(expected["CE_gaussian_noise"], abs=PRINTED)
    assert errors["fog"] == pytest.approx(expected["CE_fog"], abs=PRINTED)
    assert relative["fog"] == pytest.approx(expected["rCE_fog"], abs=5 * PRINTED)


def test_relative_errors_reward_a_bad_clean_figure() -> None:
    stylized = SUMMARIES["coco|faster_rcnn_r50_fpn_1x_scoco|relative to faster_rcnn_r50_fpn_1x_coco|bbox AP"]
    assert stylized["mCE"] > 1 > stylized["relative_mCE"]


def frame(reference: bool = True) -> pd.DataFrame:
    """The hand case as figures of a store."""
    hand = SUMMARIES["hand"]
    models = {"f": (hand["clean_f"], hand["errors_f"])}
    if reference:
        models["ref"] = (hand["clean_ref"], hand["errors_ref"])
    rows = []
    for model, (clean, errors) in models.items():
        rows.append([model, "clean", "clean", "{}", 1 - clean])
        for corruption, values in errors.items():
            for severity, error in enumerate(values, start=1):
                text = json.dumps({"corruption": {"name": corruption, "severity": severity}})
                rows.append([model, f"{corruption} {severity}", "corruption", text, 1 - error])
    table = pd.DataFrame(rows, columns=["model", "threat", "kind", "description", "value"])
    return table.assign(task="segmentation", dataset="d", metric="mIoU", class_name="")


def test_the_hand_case() -> None:
    hand = SUMMARIES["hand"]
    figures = {name: 1 - np.array(errors) for name, errors in hand["errors_f"].items()}
    mean = analysis.mean_performance_under_corruption(figures)
    assert mean == pytest.approx(hand["mPC_of_1_minus_error"], abs=EXACT)
    kept = analysis.relative_performance_under_corruption(figures, 1 - hand["clean_f"])
    assert kept == pytest.approx(hand["rPC"], abs=EXACT)
    reference = {name: 1 - np.array(errors) for name, errors in hand["errors_ref"].items()}
    errors = corruption_errors(figures, reference)
    assert errors == pytest.approx(hand["CE"], abs=EXACT)
    relative = relative_corruption_errors(figures, 1 - hand["clean_f"], reference, 1 - hand["clean_ref"])
    assert relative == pytest.approx(hand["relative_CE"], abs=EXACT)
    compared = mean_corruption_error(frame(), "ref", corruptions=("fog", "snow")).set_index("model")
    assert compared.loc["f", "mCE"] == pytest.approx(hand["mCE"], abs=EXACT)
    assert compared.loc["f", "relative_mCE"] == pytest.approx(hand["relative_mCE"], abs=EXACT)
    assert compared.loc["ref", "mCE"] == 1
    assert compared.loc["ref", "relative_mCE"] == 1
    for name, value in hand["mean_of_severity_ratios_would_be"].items():
        ratios = np.array(hand["errors_f"][name]) / np.array(hand["errors_ref"][name])
        assert ratios.mean() == pytest.approx(value, abs=EXACT)  # what the figure is not
        assert errors[name] != pytest.approx(value, abs=1e-3)


def test_a_missing_cell_is_named_and_gives_nan() -> None:
    rows = frame()
    rows = rows[rows["model"].ne("f") | rows["threat"].ne("fog 3")]
    row = mean_corruption_error(rows, "ref", corruptions=("fog", "snow")).set_index("model").loc["f"]
    assert np.isnan(row["mCE"])
    assert row["undefined"] == "fog"
    assert np.isnan(analysis.mean_performance_under_corruption({"fog": [0.5, np.nan]}))


def test_undefined_quotients_are_nan_and_named() -> None:
    perfect = {"fog": np.ones(5)}
    assert np.isnan(corruption_errors({"fog": np.zeros(5)}, perfect)["fog"])
    assert np.isnan(relative_corruption_errors(perfect, 1.0, perfect, 0.5)["fog"])
    assert np.isnan(analysis.relative_performance_under_corruption(perfect, 0.0))
    with pytest.raises(GauntletError, match="reference model 'nobody'"):
        mean_corruption_error(frame(), "nobody")


def distances(values: list[float | None]) -> list[float]:
    return [np.inf if value is None else float(value) for value in values]


CASES = [
    (case, attack)
    for case, content in OPTIMALITY.items()
    for attack in ("a", "b", "c")
    if isinstance(content.get(attack), dict)
]


@pytest.mark.parametrize(("case", "attack"), CASES)
def test_optimality_of_the_reference_cases(case: str, attack: str) -> None:
    best, given = OPTIMALITY[case]["best"], OPTIMALITY[case][attack]
    own = distances(given["distances"])
    assert optimality(own, best) == pytest.approx(given["exact"], abs=EXACT)
    assert attackbench(own, best) == pytest.approx(given["attackbench"], abs=1e-6)
    scaled = [3 * each for each in own], [3 * each for each in best]
    assert optimality(*scaled) == pytest.approx(given["exact"], abs=EXACT)


def attackbench(own: list[float], best: list[float]) -> float:
    """AttackBench's figure, for the difference: the trapezoid rule over the points (d, r(d))."""

    def area(values: list[float], largest: float) -> float:
        d = np.minimum(values, largest)
        levels = np.unique(d)
        robust = np.array([(d > level).mean() for level in levels])
        return float(np.trapezoid(robust, levels))

    known = np.array(best)
    largest = float(known.max())
    least = area(best, largest)
    return 1 - (area(own, largest) - least) / (float((known > 0).mean()) * largest - least)


def test_images_that_nobody_fools_count_for_all_alike() -> None:
    best = distances(OPTIMALITY["best_contains_infinity"]["best"])
    assert optimality(best, best) == OPTIMALITY["best_contains_infinity"]["exact_with_largest_finite"]
    assert np.isnan(optimality([np.inf], [np.inf]))
    assert np.isnan(optimality([0.1, 0.1], [0.1, 0.1]))  # doing nothing is as good


def test_a_worse_attack_changes_nothing() -> None:
    case = OPTIMALITY["with_clean_errors"]
    rows = [(name, image, d) for name in "ab" for image, d in enumerate(distances(case[name]["distances"]))]
    rows += [("worse", image, 2 * d) for image, d in enumerate(distances(case["a"]["distances"]))]
    table = optimality_table(pd.DataFrame(rows, columns=["view", "image_id", "minimum"])).set_index("attack")
    assert table["optimality"][["a", "b"]].tolist() == pytest.approx([1.0, case["b"]["exact"]], abs=EXACT)
    assert table.loc["a", "best_of"] == "a, b, worse"


def test_attacks_that_make_up_for_each_other() -> None:
    case = OPTIMALITY["complementarity"]
    assert complementarity(case["a"], case["b"]) == pytest.approx(case["value"], abs=EXACT)
    assert ensemble_gain(case["a"], case["b"]) == case["ensemble_gain_of_a_over_b"]
