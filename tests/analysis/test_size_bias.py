from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gauntlet.analysis import by_size, image_to_dataset_ratio, objects, size_bias
from gauntlet.errors import GauntletError
from gauntlet.results import published

LABELS = np.array(
    [
        [1, 1, 0, 0, 2],
        [1, 0, 0, 2, 0],
        [0, 0, 255, 0, 0],
        [1, 0, 0, 0, 3],
    ]
)


def test_components_are_eight_connected_and_skip_background_and_void() -> None:
    actual = objects(LABELS, LABELS, np.zeros_like(LABELS), background=[0], image_id="x")
    assert list(zip(actual["class_index"], actual["area"], strict=True)) == [(1, 3), (1, 1), (2, 2), (3, 1)]
    assert actual["fraction"].tolist() == pytest.approx([3 / 20, 1 / 20, 2 / 20, 1 / 20])
    assert actual["clean_recall"].tolist() == [1, 1, 1, 1]
    assert actual["recall"].tolist() == [0, 0, 0, 0]
    assert set(actual["image_id"]) == {"x"}


def test_void_splits_a_component() -> None:
    labels = np.array([[1, 1, 255, 1, 1]])
    assert objects(labels, labels, labels)["area"].tolist() == [2, 2]
    assert objects(labels, labels, labels, ignore_index=None)["area"].tolist() == [2, 2, 1]


def test_recall_is_the_share_that_is_still_right() -> None:
    attacked = LABELS.copy()
    attacked[0, 0] = 2
    clean = LABELS.copy()
    clean[0, :2] = 0
    actual = objects(LABELS, clean, attacked, background=[0])
    assert actual["clean_recall"].tolist() == pytest.approx([1 / 3, 1, 1, 1])
    assert actual["recall"].tolist() == pytest.approx([2 / 3, 1, 1, 1])


@settings(deadline=None, max_examples=40)
@given(arrays.arrays(np.int64, arrays.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.integers(0, 3)))
def test_objects_cover_every_foreground_pixel_once(labels: np.ndarray) -> None:
    actual = objects(labels, labels, np.roll(labels, 1), background=[0])
    assert actual["area"].sum() == (labels > 0).sum()
    right = (actual["recall"] * actual["area"]).sum()
    assert right == pytest.approx(((np.roll(labels, 1) == labels) & (labels > 0)).sum())


def test_shapes_must_agree() -> None:
    with pytest.raises(GauntletError, match="share one shape"):
        objects(LABELS, LABELS[:2], LABELS)


def table(fractions: list[float], clean: list[float], recall: list[float]) -> pd.DataFrame:
    area = np.array(fractions) * 10_000
    return pd.DataFrame({"area": area, "fraction": fractions, "clean_recall": clean, "recall": recall})


def test_bins_by_hand() -> None:
    actual = table([0.0005, 0.001, 0.005, 0.3, 1.0], [0.0, 0.5, 1.0, 1.0, 1.0], [0.0, 0.25, 0.2, 0.8, 1.0])
    bins = by_size(actual)
    assert bins["objects"].tolist() == [1, 2, 0, 0, 2]
    assert bins["counted"].tolist() == [0, 2, 0, 0, 2]
    assert bins["ratio"].iloc[[1, 4]].tolist() == pytest.approx([(0.5 + 0.2) / 2, 0.9])
    assert bins["ratio"].iloc[[0, 2, 3]].isna().all()
    assert bins["low"].tolist() == [0, 0.001, 0.01, 0.05, 0.2]
    coco = by_size(actual, bins="coco")
    assert coco["objects"].tolist() == [3, 1, 1]
    with pytest.raises(GauntletError, match="'fraction' or 'coco'"):
        by_size(actual, bins="voc")


def test_size_bias_by_hand() -> None:
    row = size_bias(table([0.0001, 0.01, 1.0], [1.0, 1.0, 1.0], [0.2, 0.4, 0.6])).iloc[0]
    assert row["bias"] == pytest.approx(0.4)
    assert row["slope"] == pytest.approx(0.1)  # 0.4 more recall over four tenfold steps
    assert row["clean_bias"] == 0
    assert row["clean_slope"] == 0
    assert row["objects"] == 3


def test_no_objects_and_one_object() -> None:
    nothing = objects(np.zeros((4, 4), int), np.zeros((4, 4), int), np.zeros((4, 4), int), background=[0])
    assert len(nothing) == 0
    assert by_size(nothing)["objects"].tolist() == [0] * 5
    assert np.isnan(size_bias(nothing)["bias"].iloc[0])
    one = size_bias(table([0.1], [1.0], [0.5])).iloc[0]
    assert one["bias"] == 0
    assert np.isnan(one["slope"])


def test_the_published_indicator_of_halmosi() -> None:
    rows = published.frame(source="halmosi")
    rows = rows[rows["table"].eq("1") & rows["model"].eq("PSPNet Normal") & rows["dataset"].eq("voc")]
    actual = image_to_dataset_ratio(rows).set_index(["view", "threat"])
    clean = actual.loc[[("all", "clean")]].iloc[0]
    assert clean["ratio"] == pytest.approx(clean["NmIoU"] / clean["CmIoU"])
