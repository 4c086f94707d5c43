"""The detection metric: what is kept comes back exactly, and gives the same figures; intervals, regions, batteries."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_cases import random_case
from gauntlet.datasets.protocols import Protocol
from gauntlet.errors import GauntletError
from gauntlet.metrics import REGION, WHOLE, DetectionMetric, Views
from gauntlet.metrics.contract import Figure
from gauntlet.metrics.detection.counts import ImageObjects, ObjectView
from gauntlet.metrics.detection.figures import figures, image_f1
from gauntlet.samples import Boxes, Sample

METRIC = DetectionMetric(("car", "person", "sign", "nothing"))


def assert_same_boxes(first: Boxes, second: Boxes) -> None:
    for field in dataclasses.fields(Boxes):
        mine, other = getattr(first, field.name), getattr(second, field.name)
        assert (mine is None) == (other is None), field.name
        if isinstance(mine, float):
            assert mine == other, field.name
        elif mine is not None:
            assert mine.dtype == other.dtype, field.name
            assert np.array_equal(mine, other), field.name


def value(detected: list[Figure], metric: str, view: str = "all", class_name: str = "") -> float:
    (figure,) = [f for f in detected if (f.metric, f.view, f.class_name) == (metric, view, class_name)]
    return figure.value


def counts_of(seed: int, images: int = 6, **options: Any) -> list[ImageObjects]:
    truths, detections = random_case(seed, images=images, **options)
    return [METRIC.update(detected, truth) for truth, detected in zip(truths, detections, strict=True)]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    crowd=st.sampled_from([0.0, 0.5]),
    difficult=st.sampled_from([0.0, 0.5]),
    areas=st.booleans(),
    pixel_area=st.sampled_from([1.0, 0.3]),
)
def test_stored_bytes_give_everything_back(
    seed: int, crowd: float, difficult: float, areas: bool, pixel_area: float
) -> None:
    truths, detections = random_case(seed, images=3, crowd=crowd, difficult=difficult, areas=areas)
    for truth, detected, other in zip(truths, detections, detections[::-1], strict=True):
        truth = dataclasses.replace(truth, pixel_area=pixel_area)
        members = np.random.default_rng(seed).random(len(truth)) < 0.5
        whole = np.ones(len(truth), bool)
        places = np.random.default_rng(seed).permutation(len(other)).astype(np.int64)
        kept = ImageObjects(truth, (ObjectView(detected, whole), None, ObjectView(other, members, places)))
        back = METRIC.decode(kept.to_bytes())
        assert_same_boxes(back.truth, truth)
        assert back.views[1] is None
        for view, expected, inside in ((0, detected, whole), (2, other, members)):
            of_view = back.views[view]
            assert of_view is not None
            assert_same_boxes(of_view.detections, expected)
            assert np.array_equal(of_view.objects, inside)
        assert back.views[0] is not None
        assert back.views[0].places is None
        assert back.views[2] is not None
        np.testing.assert_array_equal(back.views[2].places, places)


def test_figures_from_the_store_are_the_figures() -> None:
    counts = counts_of(1, images=8)
    direct = METRIC.compute(counts, WHOLE)
    stored = METRIC.compute([METRIC.decode(each.to_bytes()) for each in counts], WHOLE)
    assert [dataclasses.astuple(f)[:1] + dataclasses.astuple(f)[2:4] for f in direct] == [
        dataclasses.astuple(f)[:1] + dataclasses.astuple(f)[2:4] for f in stored
    ]
    for name in ("value", "low", "high"):
        np.testing.assert_array_equal([getattr(f, name) for f in direct], [getattr(f, name) for f in stored])
    truths, detections = random_case(1, images=8)
    for name, expected in figures(truths, detections, 4).items():
        np.testing.assert_equal(value(direct, name), expected)
    f1 = [image_f1(truth, detected) for truth, detected in zip(truths, detections, strict=True)]
    assert value(direct, "F1_images") == pytest.approx(np.mean(f1))
    assert math.isnan(value(direct, "AP", class_name="nothing"))
    assert value(direct, "VOC_mAP") == pytest.approx(
        np.mean([value(direct, f"VOC_mAP{level}") for level in (25, 50, 75)])
    )


def test_a_hundred_detections_take_about_two_kilobytes() -> None:
    generator = np.random.default_rng(0)
    corner = generator.uniform(0, 500, (100, 2))
    boxes = np.concatenate([corner, corner + generator.uniform(5, 100, (100, 2))], axis=1).astype(np.float32)
    detected = Boxes(boxes, generator.integers(0, 4, 100), generator.random(100).astype(np.float32))
    kept = METRIC.update(detected, Boxes(boxes[:7], np.zeros(7, np.int64)))
    assert len(kept.to_bytes()) < 2200


def test_foreign_bytes_are_refused() -> None:
    with pytest.raises(GauntletError, match="not written by Gauntlet"):
        METRIC.decode(b"GCN1" + bytes(20))


def test_intervals_bracket_the_figures_and_one_image_has_none() -> None:
    detected = METRIC.compute(counts_of(5, images=12), WHOLE)
    for name in ("mAP", "mAP50", "mAP75", "F1_images", "boxes_per_image", "mislabel_rate"):
        (figure,) = [f for f in detected if f.metric == name and not f.class_name]
        assert figure.low <= figure.value <= figure.high, name
        assert figure.low < figure.high, name
    assert all(math.isnan(f.low) for f in METRIC.compute(counts_of(5, images=1), WHOLE))


def test_no_image_and_nothing_that_counts_are_undefined() -> None:
    nothing = METRIC.compute([], WHOLE)
    assert all(np.isnan(figure.value) for figure in nothing)
    flagged = np.array([True])
    crowd = dataclasses.replace(objects(0), crowd=flagged), objects(0, score=0.9)
    difficult = dataclasses.replace(objects(0), difficult=flagged), objects(0, score=0.9)
    detected = METRIC.compute([METRIC.update(said, truth) for truth, said in (crowd, difficult)], WHOLE)
    values = {figure.metric: figure.value for figure in detected if not figure.class_name}
    assert (values.pop("F1_images"), values.pop("boxes_per_image")) == (1, 1)  # nothing was missed or made up
    counted = [name for name in values if name.startswith("errors_") or values[name] == 0]
    assert all(values.pop(name) == 0 for name in counted)  # no error of any type, nothing made up
    assert np.isnan(list(values.values())).all()


def test_classes_and_numbers_that_cannot_be() -> None:
    good = Boxes(np.array([[0, 0, 5, 5]], np.float32), np.array([0]), np.array([0.5], np.float32))
    truth = Boxes(good.xyxy, good.classes)
    with pytest.raises(GauntletError, match="a detection has the class 4; expected 0 to 3"):
        METRIC.update(dataclasses.replace(good, classes=np.array([4])), truth)
    with pytest.raises(GauntletError, match="an object has the class -1"):
        METRIC.update(good, dataclasses.replace(truth, classes=np.array([-1])))
    with pytest.raises(GauntletError, match="NaN or infinite"):
        METRIC.update(dataclasses.replace(good, xyxy=np.full((1, 4), np.nan, np.float32)), truth)
    with pytest.raises(GauntletError, match="no scores"):
        METRIC.update(truth, truth)
    with pytest.raises(GauntletError, match="1 views do not fit 2"):
        METRIC.compute([METRIC.update(good, truth)], Views.of_candidates(["clean", "pgd"]))


# Regions -----------------------------------------------------------------------------------------------------------

CORNERS = np.array([[0, 0, 10, 10], [30, 0, 40, 10]], np.float32)
LEFT = np.zeros((20, 50), bool)
LEFT[:, :20] = True


def objects(*rows: int, score: float | None = None) -> Boxes:
    scores = None if score is None else np.full(len(rows), score, np.float32)
    return Boxes(CORNERS[list(rows)], np.zeros(len(rows), np.int64), scores)


def test_inside_and_outside_go_by_the_centre_of_the_box() -> None:
    truth, clean = objects(0, 1), objects(0, 1, score=0.9)
    kept = ImageObjects.stack([METRIC.update(objects(1, score=0.8), truth, LEFT), METRIC.update(clean, truth, LEFT)])
    detected = METRIC.compute([METRIC.decode(kept.to_bytes())], REGION)
    assert value(detected, "mAP_M") == 0.0  # the left object is lost, the right one is found
    assert value(detected, "mAP_Mbar") == 1.0
    assert value(detected, "mAP_M_clean") == value(detected, "mAP_Mbar_clean") == 1.0
    assert value(detected, "RCE_M") == 1.0
    assert value(detected, "RCE_Mbar") == 0.0
    assert value(detected, "region_share") == 0.5
    assert value(detected, "mAP50") == pytest.approx(51 / 101)  # the whole image: one of two, at precision 1
    assert value(detected, "AP", view="outside", class_name="car") == 1.0
    rows = METRIC.per_image(kept, REGION)
    assert [(row["view"], row["F1"], row["objects"]) for row in rows] == [
        ("inside", 0.0, 1), ("outside", 1.0, 1), ("clean inside", 1.0, 1), ("clean outside", 1.0, 1),
    ]  # fmt: skip


# Batteries ---------------------------------------------------------------------------------------------------------


def battery_image(truth: Boxes, *views: Boxes | None) -> ImageObjects:
    everything = np.ones(len(truth), bool)
    return ImageObjects(truth, tuple(None if each is None else ObjectView(each, everything) for each in views))


def test_a_battery_takes_the_worst_attack_per_image() -> None:
    both, first, none = objects(0, 1, score=0.9), objects(0, score=0.9), objects(score=0.9)
    truth = objects(0, 1)
    images = [battery_image(truth, both, first, none), battery_image(truth, both, none, both)]
    detected = METRIC.compute(images, Views.of_candidates(["clean", "pgd", "bim"]))
    assert value(detected, "mAP") == 0.0
    assert value(detected, "F1_images") == 0.0
    assert [value(detected, "chosen_by_F1", view=name) for name in ("clean", "pgd", "bim")] == [0.0, 0.5, 0.5]
    assert value(detected, "mAP", view="clean") == 1.0
    assert value(detected, "F1_images", view="pgd") == pytest.approx((2 / 3 + 0) / 2)


def test_a_skipped_attack_changes_no_figure_of_the_battery() -> None:
    both, none = objects(0, 1, score=0.9), objects(score=0.9)
    truth, views = objects(0, 1), Views.of_candidates(["clean", "pgd", "bim"])
    full = [battery_image(truth, both, none, none), battery_image(truth, both, both, none)]
    skipped = [battery_image(truth, both, none, None), battery_image(truth, both, both, none)]
    of_all, of_some = METRIC.compute(full, views), METRIC.compute(skipped, views)
    assert value(of_all, "mAP") == value(of_some, "mAP")
    for name in views:
        assert value(of_all, "chosen_by_F1", view=name) == value(of_some, "chosen_by_F1", view=name)
    assert not [f for f in of_some if f.view == "bim" and f.metric == "mAP"]  # it has no figure of its own
    assert math.isnan(METRIC.per_image(skipped[0], views)[2]["F1"])


def test_ties_under_a_region_are_broken_by_the_order_of_the_detector() -> None:
    # The detector names the false box outside first: precision 1/2 when the one object inside is found.
    truth = objects(0)
    reported = Boxes(CORNERS[[1, 0]], np.zeros(2, np.int64), np.full(2, 0.5, np.float32))
    whole = METRIC.compute([METRIC.update(reported, truth)], WHOLE)
    view = METRIC.update(reported, truth, LEFT)
    kept = METRIC.decode(ImageObjects.stack([view, view]).to_bytes())
    in_parts = METRIC.compute([kept], REGION)
    assert value(whole, "mAP") == value(in_parts, "mAP") == 0.5


def test_counts_of_version_1_are_read_and_written_as_before() -> None:
    truth, reported = objects(0), objects(0, 1, score=0.5)
    old = ImageObjects(truth, (ObjectView(reported, np.ones(1, bool)),))
    assert old.to_bytes()[:4] == b"GBX1"
    old_region = [ObjectView(objects(number, score=0.5), np.array([number == 0])) for number in (0, 1)]
    detected = METRIC.compute([ImageObjects(truth, (*old_region, *old_region))], REGION)
    assert value(detected, "mAP") == 1.0  # without places: what lies inside comes first


@pytest.mark.parametrize("protocol", [Protocol(size=(128, 192)), Protocol(shorter=64), Protocol(longer=24)])
def test_sizes_are_those_of_the_annotation_under_a_protocol_that_resizes(protocol: Protocol) -> None:
    generator = np.random.default_rng(3)
    corner = generator.uniform(0, 150, (40, 2))
    truth = Boxes(
        np.concatenate([corner, corner + generator.uniform(4, 150, (40, 2))], axis=1).astype(np.float32),
        np.zeros(40, np.int64),
    )
    found = generator.random(40) < 0.7
    detected = dataclasses.replace(truth.select(found), scores=generator.random(int(found.sum())).astype(np.float32))
    wrong = Boxes(
        np.array([[0, 0, 20, 20], [0, 0, 60, 60], [0, 0, 200, 200]], np.float32),
        np.zeros(3, np.int64),
        np.array([0.95, 0.96, 0.97], np.float32),
    )
    detected = Boxes(
        np.concatenate([detected.xyxy, wrong.xyxy]),
        np.zeros(len(detected) + 3, np.int64),
        np.concatenate([detected.scores, wrong.scores]),
    )
    image = np.zeros((320, 320, 3), np.uint8)
    resized = protocol.apply(Sample("x", image, boxes=truth)).boxes
    seen = protocol.apply(Sample("x", image, boxes=detected)).boxes
    assert resized is not None
    assert seen is not None
    metric = DetectionMetric(("thing",))
    counts = metric.decode(metric.update(Boxes(seen.xyxy, seen.classes, seen.scores), resized).to_bytes())
    after = {figure.metric: figure.value for figure in metric.compute([counts], WHOLE)}
    before = {figure.metric: figure.value for figure in metric.compute([metric.update(detected, truth)], WHOLE)}
    for name in ("mAP", "mAP_small", "mAP_medium", "mAP_large", "AR_small", "AR_medium", "AR_large"):
        assert after[name] == pytest.approx(before[name], abs=1e-6, nan_ok=True), name
