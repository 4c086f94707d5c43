"""Comparing two models."""

from __future__ import annotations

import math
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_store import HOSTILE

from gauntlet.analysis.better import OPEN, Told, holm
from gauntlet.errors import GauntletError
from gauntlet.metrics import WHOLE, DetectionMetric, SegmentationMetric
from gauntlet.metrics.segmentation.counts import SCALARS, ImageCounts
from gauntlet.report import build_report
from gauntlet.report.document import Bullets
from gauntlet.report.pages.comparison import compare_models
from gauntlet.report.pages.comparison_page import class_tables, difference_table, image_tables, to_document, verdict
from gauntlet.report.tables import Table
from gauntlet.results import Job, Store
from gauntlet.results.record import ImageRow
from gauntlet.samples import Boxes

pytest_plugins = ("report_fixtures",)

METRIC: dict[str, Any] = {"class_names": ["a", "b"], "ignore_index": 255, "background_index": None}


def put(store: Store, model: str, threat: str, right: list[tuple[int, int]], **made_with: str) -> None:
    """Images with ten pixels of each of two classes, of which so many are right."""
    dataset = {"name": "d", "split": "val", "length": len(right), "ids": "x", "protocol": {}}
    job = Job("segmentation", model, model, dataset, threat, threat, {threat: {}}, 1, 0)
    started = store.begin(
        job, images=len(right), batch_size=4, metric=METRIC, provenance={"started": "2026", **made_with}
    )
    rows = []
    for index, (a, b) in enumerate(right):
        counts = ImageCounts(np.array([[[a, 10 - a], [10 - b, b]]]), np.full((1, len(SCALARS)), np.nan))
        rows.append(ImageRow(index, f"image {index}", counts.to_bytes(), {}))
    store.add_images(started, rows, WHOLE)
    metric = SegmentationMetric(**METRIC)
    store.finish(started, metric.compute([metric.decode(row.counts) for row in rows], WHOLE))


def test_versions_that_differ_are_said() -> None:
    store, right = Store(), [(10, 5), (9, 9)]
    put(store, "first", "clean", right, torch="2.13.0", numpy="1.26.0", opencv="4.9.0")
    put(store, "second", "clean", right, torch="2.13.0", numpy="2.4.6", opencv="5.0.0")
    (comparison,) = compare_models(store, "first", "second")
    assert comparison.versions == {"numpy": ["1.26.0", "2.4.6"], "opencv": ["4.9.0", "5.0.0"]}
    bullets = next(each for each in to_document([comparison]).parts[0].sections[0].blocks if isinstance(each, Bullets))
    assert "The evaluations differ in opencv: 4.9.0, 5.0.0." in bullets.items


@pytest.fixture
def store() -> Store:
    store = Store()
    put(store, "first", "clean", [(10, 5), (9, 9), (10, 8)])
    put(store, "second", "clean", [(9, 6), (8, 8), (10, 8)])
    put(store, "first", "corruption", [(2, 5), (3, 4), (1, 5)])
    put(store, "second", "corruption", [(6, 5), (5, 5), (5, 5)])
    return store


def test_differences_are_those_of_the_figures_and_three_images_are_no_test(store: Store) -> None:
    (comparison,) = compare_models(store, "first", "second")
    assert [each.threat for each in comparison.differences] == ["clean", "corruption"]
    frame = store.frame()
    values = frame[frame["metric"].eq("mIoU") & frame["class_name"].eq("")].set_index(["model", "threat"])["value"]
    for each in comparison.differences:
        assert each.first == values["first", each.threat]
        assert each.change.value == pytest.approx(values["second", each.threat] - values["first", each.threat])
        assert isinstance(each.told, Told)
        assert each.told.verdict == OPEN  # three images are no test
        assert math.isnan(each.change.low)
    under_threat = comparison.differences[1]
    assert (under_threat.better, under_threat.worse) == (3, 0)


def test_images_that_change_sides(store: Store) -> None:
    (comparison,) = compare_models(store, "first", "second")
    tables = {
        block.title: block
        for block in (*class_tables(comparison), *image_tables(comparison))
        if isinstance(block, Table)
    }
    # Equal models have as many classes that change sides as others (issue 50): none are named.
    assert "Classes that change sides" not in tables
    # Image 1: (9, 9) and (8, 8) right clean, (3, 4) and (5, 5) under the threat; image 0 stays, image 2 was equal.
    (image,) = tables["Images that change sides"].rows
    assert image[:2] == ["image 1", "corruption"]
    assert image[2:] == pytest.approx([8 / 12 - 9 / 11, 5 / 15 - (3 / 16 + 4 / 17) / 2])


def test_the_other_way_round_has_the_opposite_sign(store: Store) -> None:
    (one,), (other,) = compare_models(store, "first", "second"), compare_models(store, "second", "first")
    for a, b in zip(one.differences, other.differences, strict=True):
        assert a.change.value == pytest.approx(-b.change.value)
        assert (a.better, a.worse) == (b.worse, b.better)


def test_too_few_images_are_said_to_be_too_few(store: Store) -> None:
    (comparison,) = compare_models(store, "first", "second")
    assert verdict(comparison) == "first and second cannot be told apart with 3 images: a test takes 8."
    assert difference_table(comparison).title == "Differences, second minus first"


def test_enough_images_without_a_difference_cannot_be_told_apart() -> None:
    store = Store()
    put(store, "first", "clean", [(5 + index % 2, 5) for index in range(8)])
    put(store, "second", "clean", [(6 - index % 2, 5) for index in range(8)])
    (comparison,) = compare_models(store, "first", "second")
    assert verdict(comparison) == (
        "first and second cannot be told apart by mIoU under any of 1 threat, corrected for their number."
    )


def test_many_threats_on_few_images_say_how_many_images_it_takes() -> None:
    store = Store()
    for threat in ("clean", *(f"threat {index}" for index in range(7))):
        put(store, "first", threat, [(5, 5)] * 8)
        put(store, "second", threat, [(9, 9)] * 8)
    (comparison,) = compare_models(store, "first", "second")
    # By hand: 2 of 2^8 swaps are as extreme, 8 / 128 > 0.05; with 9 images 8 / 256 = 0.03.
    assert verdict(comparison).endswith("With 8 comparisons a test takes 9 images.")


def test_figures_at_the_floor_cannot_be_told_apart() -> None:
    store = Store()
    put(store, "first", "clean", [(0, 0)] * 20)
    put(store, "second", "clean", [(0, 0)] * 16 + [(0, 1)] * 4)
    (comparison,) = compare_models(store, "first", "second")
    (difference,) = comparison.differences
    assert difference.verdict == OPEN
    assert math.isnan(difference.change.low)
    assert "both below 2 %" in comparison.order.sentence()


def test_many_images_prove_a_large_difference() -> None:
    store = Store()
    put(store, "weak", "clean", [(3 + index % 3, 4) for index in range(20)])
    put(store, "strong", "clean", [(8 + index % 3, 9) for index in range(20)])
    (comparison,) = compare_models(store, "weak", "strong")
    assert comparison.differences[0].change.low > 0
    assert verdict(comparison) == "strong is better under 1 of 1 threat, corrected for their number, than weak."
    assert comparison.order.sentence().startswith("By clean mIoU: strong is better than weak.")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_monotone_and_never_below_the_p_value(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(after >= before for before, after in zip(p_values, adjusted, strict=True))
    assert all(value <= 1 for value in adjusted)
    order = np.argsort(p_values, kind="stable")
    assert np.all(np.diff(np.array(adjusted)[order]) >= 0)
    assert min(adjusted) == pytest.approx(min(1, len(p_values) * min(p_values)))


def test_holm_by_hand_and_with_nothing() -> None:
    assert holm([0.01, math.nan, 0.04, 0.03])[0] == pytest.approx(0.03)
    assert holm([0.01, math.nan, 0.04, 0.03])[2:] == pytest.approx([0.06, 0.06])
    assert math.isnan(holm([0.01, math.nan])[1])


def test_hostile_and_unknown_names(small_store: Store) -> None:
    document = to_document(compare_models(small_store, "zoo/plain", HOSTILE))
    assert HOSTILE in document.title
    with pytest.raises(GauntletError, match=r"unknown model in the store .* did you mean 'zoo/plain'"):
        compare_models(small_store, "zoo/plane", "zoo/steady")
    with pytest.raises(GauntletError, match="holds no evaluation on camvid"):
        compare_models(small_store, "zoo/plain", "zoo/steady", "camvid")


def test_models_that_never_met_are_said_so() -> None:
    store = Store()
    put(store, "a", "clean", [(5, 5), (5, 5)])
    put(store, "b", "corruption", [(5, 5), (5, 5)])
    with pytest.raises(GauntletError, match="never evaluated on the same images"):
        compare_models(store, "a", "b")


def test_a_name_with_two_weights_must_be_said_exactly() -> None:
    store = Store()
    dataset: dict[str, Any] = {"name": "d", "split": "val", "length": 1, "ids": "x", "protocol": {}}
    for digest in ("1" * 8, "2" * 8):
        job = Job("segmentation", "m", digest, dataset, "clean", "clean", {"clean": {}}, 1, 0)
        started = store.begin(job, images=1, batch_size=1, metric=METRIC, provenance={"started": "2026"})
        store.finish(started, SegmentationMetric(**METRIC).compute([], WHOLE))
    sentence = r"stands for several models in the store :memory:; say which: m \[11111111\], m \[22222222\]"
    with pytest.raises(GauntletError, match=sentence):
        compare_models(store, "m", "m")
    (comparison,) = compare_models(store, "m [11111111]", "m [22222222]")
    assert comparison.images == {}


# Detectors ---------------------------------------------------------------------------------------------------------


def put_detector(store: Store, model: str, threat: str, actual: list[list[bool]]) -> None:
    """Images with one object per entry, each found exactly or not at all."""
    options: dict[str, Any] = {"class_names": ["a"], "eleven_points": False}
    dataset = {"name": "d", "split": "val", "length": len(actual), "ids": "x", "protocol": {}}
    job = Job("detection", model, model, dataset, threat, threat, {threat: {}}, 1, 0)
    started = store.begin(job, images=len(actual), batch_size=4, metric=options, provenance={"started": "2026"})
    metric, rows = DetectionMetric(**options), []
    for index, hits in enumerate(actual):
        corners = np.array([[20 * place, 0, 20 * place + 10, 10] for place in range(len(hits))], np.float32).reshape(
            -1, 4
        )
        truth = Boxes(corners, np.zeros(len(hits), np.int64))
        said = Boxes(corners[np.array(hits, bool)], np.zeros(sum(hits), np.int64), np.full(sum(hits), 0.9, np.float32))
        rows.append(ImageRow(index, f"image {index}", metric.update(said, truth).to_bytes(), {}))
    store.add_images(started, rows, WHOLE)
    store.finish(started, metric.compute([metric.decode(row.counts) for row in rows], WHOLE))


def test_a_report_tests_the_order_of_detectors() -> None:
    store = Store()
    put_detector(store, "first", "clean", [[True, True]] * 20)
    put_detector(store, "second", "clean", [[True, False]] * 20)
    summary = build_report(store).parts[0].sections[0]
    bullets = next(block for block in summary.blocks if isinstance(block, Bullets))
    assert bullets.items[0].startswith("By clean mAP: first is better than second.")
    assert "p = 0.005" in bullets.items[0]  # 1 / 201: a sample of 200 is enough for one comparison


def test_the_benchmark_measures_the_comparison_of_detectors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "detection.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--compare", "20", "--detections", "5"])
    runpy.run_path(str(script), run_name="__main__")
    assert "s of computing for 20 images (2000 permutations)" in capsys.readouterr().out


def test_two_detectors_are_compared_image_by_image() -> None:
    store = Store()
    put_detector(store, "first", "clean", [[True, True]] * 20)
    put_detector(store, "second", "clean", [[True, index % 4 > 0] for index in range(20)])
    put_detector(store, "first", "corruption", [[index % 2 > 0, False] for index in range(20)])
    put_detector(store, "second", "corruption", [[True, index % 2 > 0] for index in range(20)])
    (comparison,) = compare_models(store, "first", "second")
    clean, corrupted = comparison.differences
    # By hand: nothing false, so that the AP is the share of the 101 recall points up to the recall.
    assert (clean.first, clean.second) == pytest.approx((1, 88 / 101))
    assert (corrupted.first, corrupted.second) == pytest.approx((26 / 101, 76 / 101))
    assert clean.change.low <= clean.change.value <= clean.change.high
    assert (clean.better, clean.worse, corrupted.better, corrupted.worse) == (0, 5, 20, 0)
    assert clean.told is not None
    assert corrupted.told is not None
    assert corrupted.told.p_value == pytest.approx(1 / 2001)
    # Five images differ clean: with luck, 2 in 32 times, all to one side. That is no proof.
    assert clean.told.p_value == pytest.approx(2 / 32, abs=0.02)
    assert clean.change.high >= 0
    assert verdict(comparison) == (
        "second is better under 1 of 2 threats, corrected for their number, than first; "
        "under the other 1 they cannot be told apart."
    )
    tables = {block.title: block for block in image_tables(comparison) if isinstance(block, Table)}
    assert tables["Largest differences"].columns[2].name == "difference of F1"
    # F1 of an image with one of two found is 2/3; of the five that the second misses one of, all change sides.
    flips = tables["Images that change sides"].rows
    assert {row[0] for row in flips} == {f"image {index}" for index in range(0, 20, 4)}
    assert flips[0][2:] == pytest.approx([2 / 3 - 1, 2 / 3])


def test_detectors_without_an_object_to_find_are_not_said_to_differ() -> None:
    store = Store()
    for model in ("first", "second"):
        put_detector(store, model, "clean", [[], []])
    (comparison,) = compare_models(store, "first", "second")
    assert comparison.differences[0].verdict == OPEN
    assert "cannot be told apart" in verdict(comparison)
    to_document([comparison])
