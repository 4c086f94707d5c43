"""mPC, rPC, mCE and attack optimality against the reference values of docs/specs/beyond.md, sections 2 and 4."""

from __future__ import annotations

import json
from collections.abc import Hashable
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
from gauntlet.analysis.optimality import (
    complementarity,
    ensemble_gain,
    mean_optimality,
    optimality,
    optimality_table,
)
from gauntlet.analysis.scoring.benchmark_sets import COMMON_CORRUPTIONS
from gauntlet.errors import GauntletError
from gauntlet.results import published
from paths import DATA

SECTIONS = json.loads((DATA / "beyond_reference_1_to_4.json").read_text())
SUMMARIES, OPTIMALITY = SECTIONS["corruption_summaries"], SECTIONS["optimality"]
PRINTED = 1e-5
EXACT = 1e-9
Cells = dict[str, np.ndarray[Any, np.dtype[np.float64]]]


EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
METRICS = {"bbox": ("mAP", "VOC_mAP50"), "segm": ("mask_mAP",)}


@cache
def michaelis() -> pd.DataFrame:
    return published.frame(source="michaelis")


@cache
def series(corruptions: tuple[str, ...]) -> dict[str, dict[Hashable, Any]]:
    """The rows of `mpc` by "dataset/model/task", as the reference names them."""
    found = {}
    for task, names in METRICS.items():
        for name in names:
            for row in analysis.mpc(michaelis(), name, corruptions=corruptions).to_dict("records"):
                found[f"{row['dataset'].replace('voc0712', 'voc')}/{row['model']}/{task}"] = row
    return found


def test_every_run_of_michaelis_et_al() -> None:
    expected = SUMMARIES["michaelis_P_mPC_rPC"]
    benchmark, every = series(COMMON_CORRUPTIONS), series((*COMMON_CORRUPTIONS, *EXTRA))
    assert set(benchmark) == set(every) == set(expected)
    assert len(benchmark) == 37
    for key, wanted in expected.items():
        assert benchmark[key]["cells"] == "75 of 75"
        figures = tuple(benchmark[key][name] for name in ("clean", "mPC", "rPC"))
        assert figures == pytest.approx(tuple(wanted[name] for name in ("P", "mPC", "rPC")), abs=2e-6)
        assert every[key]["mPC"] == pytest.approx(wanted["mPC19"], abs=2e-6)


def cells(dataset: str, model: str) -> tuple[Cells, float]:
    """Figures of boxes by corruption, one per severity, and the clean one."""
    rows = michaelis()
    dataset = dataset.replace("voc", "voc0712")
    rows = rows[rows["dataset"].eq(dataset) & rows["model"].eq(model) & rows["metric"].isin(METRICS["bbox"])]
    if dataset != "voc0712":
        rows = rows[rows["metric"].eq("mAP")]
    clean = float(rows.loc[rows["kind"].eq("clean"), "value"].item())
    values = rows.set_index("threat")["value"]
    return {name: np.array([values[f"{name} {s}"] for s in range(1, 6)], float) for name in COMMON_CORRUPTIONS}, clean


COMPARED = [name for name in SUMMARIES if "|relative to " in name]


@pytest.mark.parametrize("name", COMPARED)
def test_errors_of_the_published_detectors(name: str) -> None:
    dataset, model, reference, _ = name.split("|")
    figures, clean = cells(dataset, model)
    base, base_clean = cells(dataset, reference.removeprefix("relative to "))
    errors = corruption_errors(figures, base)
    relative = relative_corruption_errors(figures, clean, base, base_clean)
    expected = SUMMARIES[name]
    assert np.mean(list(errors.values())) == pytest.approx(expected["mCE"], abs=PRINTED)
    assert np.mean(list(relative.values())) == pytest.approx(expected["relative_mCE"], abs=5 * PRINTED)
    assert errors["gaussian_noise"] == pytest.approx(expected["CE_gaussian_noise"], abs=PRINTED)
    assert errors["fog"] == pytest.approx(expected["CE_fog"], abs=PRINTED)
    assert relative["fog"] == pytest.approx(expected["rCE_fog"], abs=5 * PRINTED)
    metric = "VOC_mAP50" if dataset == "voc" else "mAP"
    table = mean_corruption_error(michaelis(), reference.removeprefix("relative to "), metric).set_index("model")
    assert table.loc[model, "mCE"] == pytest.approx(expected["mCE"], abs=PRINTED)
    assert table.loc[model, "relative_mCE"] == pytest.approx(expected["relative_mCE"], abs=5 * PRINTED)


def test_relative_errors_reward_a_bad_clean_figure() -> None:
    figures, clean = cells("coco", "faster_rcnn_r50_fpn_1x_scoco")
    base, base_clean = cells("coco", "faster_rcnn_r50_fpn_1x_coco")
    assert clean < base_clean
    assert np.mean(list(corruption_errors(figures, base).values())) > 1
    assert np.mean(list(relative_corruption_errors(figures, clean, base, base_clean).values())) < 1


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
    made = analysis.mpc(frame(), corruptions=("fog", "snow")).set_index("model").loc["f"]
    assert (made["mPC"], made["rPC"]) == pytest.approx((mean, kept), abs=EXACT)
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
    made = analysis.mpc(rows, corruptions=("fog", "snow")).set_index("model").loc["f"]
    assert (made["cells"], made["missing"]) == ("9 of 10", "fog 3")
    assert np.isnan([made["mPC"], made["rPC"]]).all()
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


def test_the_passes_and_the_mean_over_models_stand_beside_it() -> None:
    rows = [("a", 0, 1.0, 3, 2), ("a", 1, 2.0, 5, 4), ("b", 0, 2.0, 1, 1), ("b", 1, 2.0, 1, 1), ("c", 0, np.inf, 9, 0)]
    minimum = pd.DataFrame(rows, columns=["view", "image_id", "minimum", "forwards", "backwards"])
    table = optimality_table(minimum).set_index("attack")
    assert table["queries"].tolist() == [7, 2, 9]
    assert table["images"].tolist() == [2, 2, 1]
    assert optimality_table(minimum.drop(columns="backwards"))["queries"].isna().all()
    first = pd.DataFrame({"attack": ["a", "b"], "optimality": [1.0, 0.5]})
    second = pd.DataFrame({"attack": ["b", "c"], "optimality": [0.25, 1.0]})
    found = mean_optimality({"one": first, "two": second}).set_index("attack")
    assert found["models"].to_dict() == {"a": 1, "b": 2, "c": 1}
    assert found["optimality"]["b"] == 0.375
    assert found["optimality"][["a", "c"]].isna().all()


def test_attacks_that_make_up_for_each_other() -> None:
    case = OPTIMALITY["complementarity"]
    assert complementarity(case["a"], case["b"]) == pytest.approx(case["value"], abs=EXACT)
    assert ensemble_gain(case["a"], case["b"]) == case["ensemble_gain_of_a_over_b"]
