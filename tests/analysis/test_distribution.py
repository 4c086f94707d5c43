from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gauntlet.analysis import (
    best_attack,
    image_distribution,
    image_summary,
    median_perturbation,
    minimum_norms,
    perturbation_cdf,
)
from gauntlet.errors import GauntletError


def per_image(values: dict[str, list[float]], column: str) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"image_id": f"i{index}", "view": view, column: value}
            for view, row in values.items()
            for index, value in enumerate(row)
        ]
    )


def test_best_attack_with_ties_by_hand() -> None:
    frame = per_image(
        {"pgd": [0.1, 0.2, 0.3, 0.0], "dag": [0.2, 0.2, 0.1, 0.0], "alma": [0.3, 0.5, 0.9, 0.0]}, "accuracy"
    )
    actual = best_attack(frame).set_index("attack")
    assert list(actual.index) == ["pgd", "dag", "alma"]
    assert actual["images"].tolist() == [3, 1, 0]
    assert actual["share"].tolist() == [0.75, 0.25, 0.0]
    # Image 1 is a tie of two, image 3 of three.
    assert actual["credit"].tolist() == pytest.approx([(1 + 1 / 2 + 1 / 3) / 4, (1 + 1 / 2 + 1 / 3) / 4, (1 / 3) / 4])


def test_best_attack_skips_views_that_are_none_and_void_images() -> None:
    frame = per_image({"all": [0.0, 0.0], "pgd": [0.1, np.nan], "dag": [0.2, np.nan]}, "mIoU")
    actual = best_attack(frame, "mIoU").set_index("attack")
    assert list(actual.index) == ["pgd", "dag"]
    assert actual["share"].tolist() == [1, 0]


def test_best_attack_names_missing_views() -> None:
    frame = per_image({"pgd": [0.1]}, "accuracy")
    with pytest.raises(GauntletError, match="no figures of sea"):
        best_attack(frame, attacks=["pgd", "sea"])
    with pytest.raises(GauntletError, match="occurs twice"):
        best_attack(pd.concat([frame, frame]))
    with pytest.raises(GauntletError, match="needs the columns mIoU"):
        best_attack(frame, "mIoU")


@settings(deadline=None, max_examples=30)
@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(1, 12)),
        elements=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    )
)
def test_shares_and_credits_sum_to_one(values: np.ndarray) -> None:
    actual = best_attack(per_image({f"a{row}": list(each) for row, each in enumerate(values)}, "accuracy"))
    assert actual["share"].sum() == pytest.approx(1)
    assert actual["credit"].sum() == pytest.approx(1)
    assert actual["images"].sum() == values.shape[1]


def test_minimum_norms_count_failures_as_infinite() -> None:
    frame = pd.DataFrame(
        {"image_id": ["a", "b", "c"], "view": "pgd", "norm": [0.1, 0.2, 0.0], "share": [0.99, 0.95, 1.0]}
    )
    assert minimum_norms(frame)["minimum"].tolist() == [0.1, np.inf, 0.0]
    assert minimum_norms(frame, 0.9)["minimum"].tolist() == [0.1, 0.2, 0.0]


def test_the_cdf_by_hand() -> None:
    frame = per_image({"pgd": [1 / 255, 4 / 255, np.inf, 0.0], "alma": [2 / 255, 2 / 255, np.inf, np.inf]}, "minimum")
    actual = perturbation_cdf(frame)
    curves = {name: rows["share"].tolist() for name, rows in actual.groupby("attack", sort=False)}
    assert actual.loc[actual["attack"].eq("pgd"), "grey_level"].tolist() == pytest.approx([0, 1, 2, 4])
    assert curves == {
        "pgd": [0.25, 0.5, 0.5, 0.75],
        "alma": [0.0, 0.0, 0.5, 0.5],
        "aggregated": [0.25, 0.5, 0.75, 0.75],
    }
    at = perturbation_cdf(frame, levels=[3, 300])
    assert at[at["attack"].eq("aggregated")]["share"].tolist() == [0.75, 0.75]
    median = median_perturbation(frame).set_index("attack")
    assert median["median"].tolist() == pytest.approx([1, 2, 1])
    assert median["fooled"].tolist() == [0.75, 0.5, 0.75]


def test_a_median_can_be_infinite() -> None:
    actual = median_perturbation(per_image({"pgd": [0.1, np.inf, np.inf]}, "minimum"))
    assert np.isinf(actual["median"]).all()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from([0.0, 0.01, 0.02, 0.5, np.inf]), min_size=1, max_size=15))
def test_the_median_is_where_the_cdf_reaches_one_half(norms: list[float]) -> None:
    frame = per_image({"pgd": norms}, "minimum")
    median = median_perturbation(frame)["median"].iloc[0]
    curve = perturbation_cdf(frame).query("attack == 'pgd'")
    reached = curve[curve["share"] >= 0.5]["grey_level"]
    assert median == (pytest.approx(reached.iloc[0]) if len(reached) else np.inf)
    assert curve["share"].is_monotonic_increasing


def test_the_distribution_over_images_by_hand() -> None:
    frame = per_image({"all": [0.0, 0.1, 0.5, 1.0, np.nan], "inside": [0.2, 0.2, 0.2, 0.2, 0.2]}, "mIoU")
    actual = image_distribution(frame, bins=2)
    assert actual[actual["view"].eq("all")]["images"].tolist() == [2, 2]
    assert actual[actual["view"].eq("all")]["cumulative"].tolist() == [0.5, 1.0]
    assert actual[actual["view"].eq("inside")]["images"].tolist() == [5, 0]
    with pytest.raises(GauntletError, match="at least 1"):
        image_distribution(frame, bins=0)


def test_the_summary_over_images_stands_beside_the_dataset_figure() -> None:
    frame = per_image({"all": [0.0, 0.2, 0.4, np.nan]}, "mIoU")
    figures = pd.DataFrame({"view": ["all", "all"], "metric": ["mIoU", "NmIoU"], "class_name": "", "value": [0.3, 0.2]})
    row = image_summary(frame, figures).iloc[0]
    assert row["NmIoU"] == pytest.approx(0.2)
    assert row["CmIoU"] == 0.3
    assert row["q50"] == 0.2
    assert (row["worst_image"], row["worst"], row["images"]) == ("i0", 0.0, 3)
    assert np.isnan(image_summary(frame)["CmIoU"].iloc[0])


def test_images_without_a_valid_pixel_are_no_failure_of_an_attack() -> None:
    """Three images, two of them fooled, the third all void: half and all of those that can be fooled are."""
    frame = pd.DataFrame(
        {
            "image_id": ["0", "1", "2"],
            "view": "pdpgd",
            "norm": [2.55 / 255, 5.1 / 255, 0.0],
            "share": [1.0, 1.0, np.nan],
        }
    )
    minimum = minimum_norms(frame)
    shares = perturbation_cdf(minimum, levels=[10])
    assert shares["share"].tolist() == [1.0, 1.0]
    assert shares["images"].tolist() == [2, 2]
    medians = median_perturbation(minimum)
    assert medians["median"].tolist() == pytest.approx([2.55, 2.55])
    assert medians[["fooled", "images"]].to_numpy().tolist() == [[1.0, 2], [1.0, 2]]


def test_an_attack_that_returned_nothing_has_failed_where_another_did_not() -> None:
    minimum = pd.DataFrame({"image_id": ["0", "1", "0"], "view": ["one", "one", "two"], "minimum": [0.01, 0.01, 0.02]})
    fooled = median_perturbation(minimum).set_index("attack")["fooled"].to_dict()
    assert fooled == {"one": 1.0, "two": 0.5, "aggregated": 1.0}


def test_a_store_of_void_images_has_no_median() -> None:
    frame = pd.DataFrame({"image_id": ["0"], "view": "pdpgd", "norm": [0.0], "share": [np.nan]})
    medians = median_perturbation(minimum_norms(frame))
    assert medians["images"].tolist() == [0, 0]
    assert medians["median"].isna().all()
    assert perturbation_cdf(minimum_norms(frame)).empty
