"""Types of errors of detectors against tidecv and the counting rules of docs/specs/beyond.md, section 3."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_cases import random_case
from gauntlet.metrics import WHOLE, DetectionMetric
from gauntlet.metrics.detection.error_types import error_types, newly_disappeared, object_fates
from gauntlet.samples import Boxes
from paths import DATA

REFERENCE = json.loads((DATA / "beyond_reference_1_to_4.json").read_text())["detection_errors"]
PERCENT = 1e-8
FOUND = ("objects", "found", "misnamed", "disappeared", "hallucinated", "repeated", "detections")
Case = tuple[list[Boxes], list[Boxes]]


def boxes(rows: list[list[Any]], ignored: list[list[Any]] | None = None) -> Boxes:
    """From [image, class, (score,) box] with boxes as x, y, width, height; `ignored` are crowds behind them."""
    every = [*rows, *(ignored or [])]
    corner = np.array([row[-1] for row in every], np.float32).reshape(-1, 4)
    corner[:, 2:] += corner[:, :2]
    scores = np.array([row[2] for row in every], np.float32) if every and len(every[0]) == 4 else None
    crowd = np.arange(len(every)) >= len(rows) if ignored else None
    return Boxes(corner, np.array([row[1] for row in every], np.int64).reshape(-1), scores, crowd)


def per_image(
    images: int, truth: list[list[Any]], detections: list[list[Any]], ignored: list[list[Any]] | None = None
) -> Case:
    def of(rows: list[list[Any]], image: int) -> list[list[Any]]:
        return [row for row in rows if row[0] == image]

    truths = [boxes(of(truth, image), of(ignored or [], image)) for image in range(images)]
    found = [boxes(of(detections, image)) for image in range(images)]
    none = np.zeros(0, np.float32)
    return truths, [each if each.scores is not None else Boxes(each.xyxy, each.classes, none) for each in found]


def hand(extra: list[Any] | None = None, ignored: list[list[Any]] | None = None) -> Case:
    case = REFERENCE["hand"]
    return per_image(4, case["ground_truth"], case["detections"] + ([extra] if extra else []), ignored)


def formula() -> Case:
    truth: list[list[Any]] = []
    rows: list[list[Any]] = []
    for i in range(5):
        for j in range(4 + i % 3):
            x, y = (37 * i + 53 * j + 11) % 140, (29 * i + 61 * j + 7) % 100
            w, h = 14 + (13 * j + 5 * i) % 30, 12 + (17 * j + 3 * i) % 28
            truth.append([i, (i + 2 * j) % 3, [x, y, w, h]])
            for m in range(3):
                u = 5 * i + 3 * j + 7 * m
                if u % 5 == 4:
                    continue
                box = [x + ((u * u) % 7 - 3) * (m + 1), y + ((3 * u) % 5 - 2) * (m + 1)]
                box += [max(4, w + (u % 3 - 1) * 4), max(4, h - (u % 4) * 3)]
                rows.append([i, (i + 2 * j + (u % 4 == 1)) % 3, 0.0, box])
        rows.append([i, i % 3, 0.0, [150, 110, 12, 9]])
    for t, row in enumerate(rows):
        row[2] = round(0.02 + 0.96 * ((61 * t + 17) % 101) / 101, 4)
    assert (len(truth), len(rows)) == (REFERENCE["formula"]["n_truth"], REFERENCE["formula"]["n_detections"])
    assert rows[:6] == REFERENCE["formula"]["first_detections"]
    return per_image(5, truth, rows)


def check(case: Case, expected: dict[str, Any], num_classes: int = 3, *, counts: bool = True, **options: Any) -> None:
    outcome = error_types(*case, num_classes, **options)
    assert 100 * outcome.average_precision == pytest.approx(expected["AP"], abs=PERCENT)
    if counts:
        assert dict(outcome.counts) == expected["counts"]
    for name, value in expected["dAP"].items():
        assert 100 * outcome.gains[name] == pytest.approx(value, abs=PERCENT), name
    for name, ours in (("FalsePos", "FP"), ("FalseNeg", "FN")):
        assert 100 * outcome.gains[ours] == pytest.approx(expected["special"][name], abs=PERCENT), name
    for index, value in expected["per_class_AP"].items():
        assert 100 * outcome.per_class[int(index)] == pytest.approx(value, abs=PERCENT)


@pytest.mark.parametrize(("name", "iou"), [("pos_0_5", 0.5), ("pos_0_75", 0.75)])
def test_the_hand_case_is_as_tidecv_has_it(name: str, iou: float) -> None:
    check(hand(), REFERENCE["hand"][name], iou=iou)


@pytest.mark.parametrize(("name", "iou"), [("pos_0_5", 0.5), ("pos_0_75", 0.75)])
def test_the_formula_case_is_as_tidecv_has_it(name: str, iou: float) -> None:
    check(formula(), REFERENCE["formula"][name], iou=iou)


def test_a_class_without_objects_counts_only_when_asked_for() -> None:
    case = REFERENCE["hand_plus_class_without_truth"]
    stray = hand(case["extra_detection"])
    check(stray, case["pos_0_5"], 4, classes="seen")
    ours = error_types(*stray, 4)
    assert 100 * ours.average_precision == pytest.approx(REFERENCE["hand"]["pos_0_5"]["AP"], abs=PERCENT)
    assert np.isnan(ours.per_class[3])


def test_detections_in_an_ignored_object_leave_the_precision_and_are_no_errors() -> None:
    case = REFERENCE["hand_with_ignore"]
    outcome = error_types(*hand(ignored=case["ignore"]), 3)
    assert 100 * outcome.average_precision == pytest.approx(case["pos_0_5"]["AP"], abs=PERCENT)
    # tidecv counts the two ignored detections (a Loc and a Bkg error) all the same, and covers an object by the first.
    ours = dict(case["pos_0_5"]["counts"])
    ours["Bkg"] -= 1
    ours["Loc"] -= 1
    ours["Miss"] += 1
    assert dict(outcome.counts) == ours
    for name in ("Cls", "Both", "Dupe", "Bkg"):
        assert 100 * outcome.gains[name] == pytest.approx(case["pos_0_5"]["dAP"][name], abs=PERCENT), name
    assert 100 * outcome.gains["FP"] == pytest.approx(case["pos_0_5"]["special"]["FalsePos"], abs=PERCENT)
    assert 100 * outcome.gains["FN"] == pytest.approx(case["pos_0_5"]["special"]["FalseNeg"], abs=PERCENT)


def rows_of(case: Case, score: float) -> list[dict[str, int]]:
    fates = object_fates(*case, score=score)
    return [{name: int(getattr(fates, name)[image]) for name in FOUND} for image in range(len(case[0]))]


def named(rows: list[dict[str, int]]) -> list[dict[str, int]]:
    return [{"misnamed" if name == "misclassified" else name: value for name, value in row.items()} for row in rows]


@pytest.mark.parametrize(
    ("case", "score", "expected"),
    [
        (hand(), 0.4, REFERENCE["rates_hand"]["gauntlet_exclusive_threshold_0_4"]),
        (formula(), 0.3, REFERENCE["rates_formula"]["gauntlet_exclusive_threshold_0_3"]),
        (
            per_image(1, REFERENCE["rates_double"]["ground_truth"], REFERENCE["rates_double"]["detections"]),
            0.5,
            REFERENCE["rates_double"]["gauntlet"],
        ),
    ],
)
def test_every_object_and_detection_is_counted_once(case: Case, score: float, expected: list[dict[str, int]]) -> None:
    assert rows_of(case, score) == named(expected)


@pytest.mark.parametrize("name", ["rates_hand", "rates_formula", "rates_double"])
def test_armory_counts_an_object_twice_where_we_do_not(name: str) -> None:
    """Its rates of an image may exceed 1 in sum, and disappearance fall to -1."""
    case = {"rates_hand": hand, "rates_formula": formula}.get(name)
    double = REFERENCE["rates_double"]
    truths, detections = case() if case else per_image(1, double["ground_truth"], double["detections"])
    score = {"rates_hand": 0.4, "rates_formula": 0.3}.get(name, 0.5)
    hits = REFERENCE[name]["armory"]["per_image"]["true_positive_rate_per_img"]
    missing = REFERENCE[name]["armory"]["per_image"]["disappearance_rate_per_img"]
    fates = object_fates(truths, detections, score=score)
    for image, (rate, gone) in enumerate(zip(hits, missing, strict=True)):
        if fates.objects[image]:
            # One of Armory's detections can hit several objects: it finds at least what we find, and loses no more.
            assert rate >= fates.found[image] / fates.objects[image] - 1e-6
            assert gone <= fates.disappeared[image] / fates.objects[image] + 1e-6
    # Armory averages the rates of the images; ours are pooled over the objects.
    shares = fates.figures()
    assert shares["found"] == pytest.approx(fates.found.sum() / fates.objects.sum(), abs=1e-12)
    assert shares["found"] + shares["misnamed"] + shares["disappeared"] == pytest.approx(1, abs=1e-12)
    assert shares["disappeared"] >= 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_states_and_errors_add_up(seed: int) -> None:
    truths, detections = random_case(seed)
    fates = object_fates(truths, detections)
    assert np.array_equal(fates.found + fates.misnamed + fates.disappeared, fates.objects)
    used = fates.found + fates.misnamed
    assert np.array_equal(used + fates.hallucinated + fates.repeated, fates.detections)
    assert [len(each) for each in fates.states] == [len(each) for each in truths]
    tied = [Boxes(each.xyxy, each.classes, np.full(len(each), 0.5, np.float32)) for each in detections]
    for said in (detections, tied):
        turned = [each.select(np.random.default_rng(seed).permutation(len(each))) for each in said]
        of_said, of_turned = object_fates(truths, said), object_fates(truths, turned)
        for name in FOUND:
            assert np.array_equal(getattr(of_said, name), getattr(of_turned, name)), name
    outcome = error_types(truths, detections, 4)
    assert all(value >= 0 for name, value in outcome.gains.items() if name not in ("FP", "FN"))


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_of_equal_scores_the_better_placed_detection_goes_first(order: list[int]) -> None:
    """Two objects side by side; the first detection lies on both (IoU 0.69, 0.64), the second on one (0.9)."""
    truth = Boxes(np.array([[0, 0, 10, 1], [4, 0, 14, 1]], np.float32), np.zeros(2, np.int64))
    corners = np.array([[1.8, 0, 11.8, 1], [0, 0, 9, 1]], np.float32)
    said = Boxes(corners, np.zeros(2, np.int64), np.full(2, 0.7, np.float32)).select(np.array(order))
    fates = object_fates([truth], [said])
    assert (fates.found.tolist(), fates.repeated.tolist()) == ([2], [0])


def test_a_perfect_detector_has_no_errors() -> None:
    truths, _ = hand()
    said = [Boxes(each.xyxy, each.classes, np.full(len(each), 0.9, np.float32)) for each in truths]
    outcome = error_types(truths, said, 3)
    assert outcome.average_precision == 1
    assert set(outcome.counts.values()) == {0}
    assert set(outcome.gains.values()) == {0.0}
    figures = object_fates(truths, said).figures()
    assert (figures["found"], figures["misnamed"], figures["disappeared"]) == (1, 0, 0)


def test_a_detector_that_says_nothing_misses_everything() -> None:
    truths, detections = hand()
    nothing = [each.select(np.zeros(len(each), bool)) for each in detections]
    outcome = error_types(truths, nothing, 3)
    assert outcome.average_precision == 0
    assert outcome.counts["Miss"] == 7
    assert outcome.gains["Miss"] == outcome.gains["FN"] == 1  # tidecv divides by zero here
    assert outcome.gains["Bkg"] == 0
    assert object_fates(truths, nothing).figures()["disappeared"] == 1
    nowhere = [each.select(np.zeros(len(each), bool)) for each in truths]
    empty = error_types(nowhere, nothing, 3)
    assert np.isnan(empty.average_precision)
    assert all(np.isnan(value) for value in empty.gains.values())
    assert np.isnan(object_fates(nowhere, nothing).figures()["found"])


def test_objects_are_followed_from_clean_to_attacked() -> None:
    truths, detections = hand()
    clean = object_fates(truths, detections, score=0.4)
    nothing = object_fates(truths, [each.select(np.zeros(len(each), bool)) for each in detections])
    assert newly_disappeared(clean, clean) == 0
    assert newly_disappeared(clean, nothing) == 1
    assert np.isnan(newly_disappeared(nothing, clean))


def test_an_evaluation_has_these_figures() -> None:
    truths, detections = hand()
    metric = DetectionMetric(["a", "b", "c"])
    kept = [metric.update(found, truth) for truth, found in zip(truths, detections, strict=True)]
    values = {f.metric: f.value for f in metric.compute(kept, WHOLE) if not f.class_name}
    expected = REFERENCE["hand"]["pos_0_5"]
    assert values["errors_Cls"] == expected["counts"]["Cls"]
    assert 100 * values["dAP_Loc"] == pytest.approx(expected["dAP"]["Loc"], abs=PERCENT)
    assert values["found"] + values["misnamed"] + values["disappeared"] == pytest.approx(1, abs=1e-12)
