from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detection_cases import random_case
from gauntlet.analysis import compare_counts, compare_groups, compare_images, compare_objects, image_differences
from gauntlet.errors import GauntletError
from gauntlet.metrics.detection.figures import figures
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.metrics.segmentation.figures import cmiou
from gauntlet.samples import Boxes


def images(values: list[float], view: str = "all") -> pd.DataFrame:
    return pd.DataFrame({"image_id": [f"i{index}" for index in range(len(values))], "view": view, "mIoU": values})


def test_the_exact_sign_flip_test_by_hand() -> None:
    # Differences 0.1, 0.2, 0.3: of the 8 sign patterns only the two with equal signs reach the observed mean.
    row = compare_images(images([0.1, 0.2, 0.3]), images([0.2, 0.4, 0.6])).iloc[0]
    assert row["difference"] == pytest.approx(0.2)
    assert row["p_value"] == pytest.approx(2 / 8)
    assert (row["better"], row["worse"], row["equal"]) == (3, 0, 0)
    assert (row["first"], row["second"]) == (pytest.approx(0.2), pytest.approx(0.4))
    assert np.isnan(row["low"])  # three images reject no difference
    assert np.isnan(row["high"])


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(-3, 3), min_size=2, max_size=7))
def test_the_exact_p_value_is_the_share_of_flips(differences: list[int]) -> None:
    values = np.array(differences, float)
    row = compare_images(images([0.0] * len(values)), images(list(values))).iloc[0]
    flips = [abs(np.dot(signs, values)) for signs in itertools.product([-1, 1], repeat=len(values))]
    assert row["p_value"] == pytest.approx(np.mean(np.array(flips) >= abs(values.sum()) - 1e-9))


def test_equal_models_are_not_different() -> None:
    frame = images(list(np.linspace(0, 1, 40)))
    row = compare_images(frame, frame).iloc[0]
    assert row["difference"] == 0
    assert row["p_value"] == 1
    assert (row["low"], row["high"]) == (0, 0)


def test_a_clear_difference_over_many_images() -> None:
    generator = np.random.default_rng(0)
    first = generator.uniform(0.2, 0.8, 200)
    row = compare_images(images(list(first)), images(list(first - 0.05 + generator.normal(0, 0.05, 200)))).iloc[0]
    assert row["high"] < 0
    assert row["p_value"] == pytest.approx(1 / 10_001)


def test_exchanging_the_models_turns_the_sign() -> None:
    generator = np.random.default_rng(1)
    first, second = (images(list(generator.uniform(size=30))) for _ in range(2))
    forth, back = compare_images(first, second).iloc[0], compare_images(second, first).iloc[0]
    assert forth["difference"] == pytest.approx(-back["difference"])
    assert forth["low"] == pytest.approx(-back["high"])
    assert forth["p_value"] == back["p_value"]


def test_images_are_paired_by_id_in_one_view() -> None:
    first = images([0.1, 0.2, np.nan, 0.5])
    second = pd.concat([images([0.3, 0.1, 0.9, 0.6]).iloc[::-1], images([0.0] * 4, "inside")])
    actual = image_differences(first, second)
    assert actual["image_id"].tolist() == ["i1", "i3", "i0"]
    assert actual["difference"].tolist() == pytest.approx([-0.1, 0.1, 0.2])
    assert compare_images(first, second)["images"].iloc[0] == 3
    with pytest.raises(GauntletError, match="at least 2 images in common"):
        compare_images(first, second, view="outside")


def counts(generator: np.random.Generator, quality: float, truth: np.ndarray) -> CountTable:
    hits = np.floor(truth * quality * generator.uniform(0.8, 1, truth.shape)).astype(np.int64)
    return CountTable(hits, truth, hits + (truth - hits)[:, ::-1])


def test_dataset_miou_is_compared_as_a_dataset_figure() -> None:
    generator = np.random.default_rng(0)
    truth = generator.integers(1, 100, (60, 4))
    weak, strong = counts(generator, 0.6, truth), counts(generator, 0.9, truth)
    row = compare_counts(weak, strong, permutations=999).iloc[0]
    assert row["first"] == pytest.approx(cmiou(weak))
    assert row["second"] == pytest.approx(cmiou(strong))
    assert row["difference"] == pytest.approx(cmiou(strong) - cmiou(weak))
    assert row["low"] > 0
    assert row["p_value"] == pytest.approx(1 / 1000)
    same = compare_counts(weak, weak, permutations=99).iloc[0]
    assert same["p_value"] == 1


def test_the_swap_test_of_dataset_miou_equals_brute_force() -> None:
    generator = np.random.default_rng(2)
    truth = generator.integers(1, 50, (4, 3))
    first, second = counts(generator, 0.7, truth), counts(generator, 0.8, truth)
    observed = cmiou(second) - cmiou(first)
    extreme = 0
    for swap in itertools.product([False, True], repeat=4):
        mask = np.array(swap)[:, None]
        a = CountTable(*(np.where(mask, getattr(second, n), getattr(first, n)) for n in vars(first)))
        b = CountTable(*(np.where(mask, getattr(first, n), getattr(second, n)) for n in vars(first)))
        extreme += abs(cmiou(b) - cmiou(a)) >= abs(observed) - 1e-12
    assert compare_counts(first, second)["p_value"].iloc[0] == pytest.approx(extreme / 16)


def test_different_images_cannot_be_compared() -> None:
    generator = np.random.default_rng(0)
    one, other = (counts(generator, 0.7, generator.integers(1, 50, (4, 3))) for _ in range(2))
    with pytest.raises(GauntletError, match="different images"):
        compare_counts(one, other)


def test_groups_of_models() -> None:
    table = pd.DataFrame({"type": ["cnn"] * 10 + ["vit"] * 10 + ["mlp"], "score": [*range(10), *range(20, 30), np.nan]})
    row = compare_groups(table, "score", "type", "cnn", "vit").iloc[0]
    assert (row["n_first"], row["n_second"]) == (10, 10)
    assert row["difference"] == 20
    assert row["low"] > 15
    assert row["p_value"] < 0.001
    alone = compare_groups(table, "score", "type", "cnn", "mlp").iloc[0]
    assert np.isnan(alone["p_value"])
    assert alone["n_second"] == 0


def test_a_p_value_of_groups_is_near_the_exact_one() -> None:
    table = pd.DataFrame({"type": ["a", "a", "a", "b", "b", "b"], "score": [1.0, 2.0, 4.0, 3.0, 5.0, 6.0]})
    values = table["score"].to_numpy()
    observed = abs(values[3:].mean() - values[:3].mean())
    splits = list(itertools.combinations(range(6), 3))
    exact = np.mean(
        [
            abs(values[list(split)].mean() - np.delete(values, list(split)).mean()) >= observed - 1e-12
            for split in splits
        ]
    )
    row = compare_groups(table, "score", "type", "a", "b").iloc[0]
    assert row["p_value"] == pytest.approx(exact, abs=0.02)


# Detectors ---------------------------------------------------------------------------------------------------------


def detectors(images: int = 5) -> tuple[list[Boxes], list[Boxes], list[Boxes]]:
    """Objects, the detections of one model, and those of another that misses every second one."""
    truths, first = random_case(3, images=images, ties=False)
    second = [actual.select(np.arange(len(actual)) % 2 == 0) for actual in first]
    return truths, first, second


def map_of(truths: list[Boxes], actual: list[Boxes]) -> float:
    return figures(truths, actual, 4)["mAP"]


def test_the_map_of_two_detectors_is_compared_by_swapping_images() -> None:
    truths, first, second = detectors()
    pairs = [list(zip(truths, actual, strict=True)) for actual in (first, second)]
    row = compare_objects(pairs[0], pairs[1], 4).iloc[0]
    assert row["first"] == pytest.approx(map_of(truths, first), abs=1e-9)
    assert row["second"] == pytest.approx(map_of(truths, second), abs=1e-9)
    assert row["difference"] == pytest.approx(row["second"] - row["first"])
    chance = []
    for swaps in itertools.product([False, True], repeat=5):
        one = [b if swap else a for a, b, swap in zip(first, second, swaps, strict=True)]
        other = [a if swap else b for a, b, swap in zip(first, second, swaps, strict=True)]
        chance.append(map_of(truths, other) - map_of(truths, one))
    expected = np.mean(np.abs(chance) >= abs(row["difference"]) - 1e-9)
    assert row["p_value"] == pytest.approx(expected)
    low, high = compare_objects(pairs[0], pairs[1], 4, level=0.8).iloc[0][["low", "high"]]
    assert low <= row["difference"] <= high
    back = compare_objects(pairs[1], pairs[0], 4, level=0.8).iloc[0]
    assert (back["difference"], back["low"]) == (pytest.approx(-row["difference"]), pytest.approx(-high))


def test_detectors_of_other_images_or_of_nothing_are_not_compared() -> None:
    truths, first, second = detectors()
    pairs = [list(zip(truths, actual, strict=True)) for actual in (first, second)]
    with pytest.raises(GauntletError, match="saw different images"):
        compare_objects(pairs[0], pairs[1][::-1], 4)
    with pytest.raises(GauntletError, match="at least 2 images"):
        compare_objects(pairs[0][:1], pairs[1][:1], 4)
    nothing = [(truth.select(np.zeros(len(truth), bool)), actual) for truth, actual in pairs[0]]
    row = compare_objects(nothing, nothing, 4).iloc[0]  # no object anywhere: undefined, and no p-value
    assert row[["first", "difference", "low", "high", "p_value"]].isna().all()
