from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from store_rows import figure

from gauntlet.analysis import by_class, curve, transfer, transfer_matrix, transfer_means, transform_matrix
from gauntlet.errors import GauntletError
from gauntlet.results import published
from gauntlet.results.descriptions import threat_settings


def pgd(epsilon: float | str, steps: int = 20, **settings: Any) -> dict[str, Any]:
    return {"attack": {"name": "pgd", "epsilon": epsilon, "steps": steps, "norm": "linf", **settings}}


def test_an_epsilon_curve_starts_at_the_clean_figure() -> None:
    rows = [figure("a", {"clean": {}}, 0.8), figure("a", pgd("8/255"), 0.2), figure("a", pgd("2/255"), 0.4)]
    actual = curve(pd.DataFrame(rows), "epsilon")
    assert actual["x"].tolist() == pytest.approx([0, 2 / 255, 8 / 255])
    assert actual["value"].tolist() == [0.8, 0.4, 0.2]
    assert actual["relative"].tolist() == pytest.approx([1, 0.5, 0.25])
    assert set(actual["series"]) == {"pgd, norm linf, steps 20"}


def test_a_curve_along_the_rank_of_the_target_has_no_clean_start() -> None:
    ranked = [{"attack": {"name": "fgsm-nth", "rank": rank, "target": {"rank": rank}}} for rank in (2, 3, 7)]
    values = zip(ranked, (0.2, 0.3, 0.4), strict=True)
    rows = [figure("a", {"clean": {}}, 0.8), *(figure("a", each, value) for each, value in values)]
    actual = curve(pd.DataFrame(rows), "rank")
    assert actual["x"].tolist() == [2, 3, 7]
    assert actual["relative"].tolist() == pytest.approx([0.25, 0.375, 0.5])
    assert actual["series"].nunique() == 1


def test_other_settings_make_other_series() -> None:
    rows = [figure("a", pgd(epsilon, steps), 0.5) for epsilon in (0.01, 0.02) for steps in (10, 20)]
    assert curve(pd.DataFrame(rows), "epsilon")["series"].nunique() == 2
    steps = curve(pd.DataFrame(rows), "steps")
    assert set(steps["series"]) == {"pgd, norm linf, epsilon 0.01", "pgd, norm linf, epsilon 0.02"}
    assert steps["x"].tolist() == [10, 20, 10, 20]


def test_a_step_size_that_follows_the_budget_does_not_break_the_curve() -> None:
    rows = [figure("a", pgd(f"{level}/255", alpha=level / 1000, box=True), 0.5) for level in (2, 4, 8)]
    actual = curve(pd.DataFrame(rows), "epsilon")
    assert set(actual["series"]) == {"pgd, norm linf, steps 20"}
    assert len(actual) == 3
    two = [figure("a", pgd(f"{level}/255", alpha=alpha), 0.5) for level in (2, 4) for alpha in (0.01, 0.02)]
    names = set(curve(pd.DataFrame(two), "epsilon")["series"])
    assert names == {"pgd, norm linf, steps 20, alpha 0.01", "pgd, norm linf, steps 20, alpha 0.02"}


def test_settings_that_differ_tell_series_apart() -> None:
    rows = [
        figure("a", pgd(epsilon, loss=loss, box=True), 0.5) for epsilon in ("2/255", "4/255") for loss in ("ce", "cos")
    ]
    names = set(curve(pd.DataFrame(rows), "epsilon")["series"])
    assert names == {"pgd, norm linf, steps 20, loss ce", "pgd, norm linf, steps 20, loss cos"}


def test_a_single_setting_is_no_curve() -> None:
    rows = pd.DataFrame([figure("a", {"clean": {}}, 0.8), figure("a", pgd("8/255"), 0.2)])
    assert curve(rows, "epsilon").empty
    assert len(curve(rows, "epsilon", least=1)) == 2
    assert len(curve(rows, "epsilon", least=1, from_clean=False)) == 1


@pytest.mark.parametrize(
    ("parameter", "description"),
    [
        ("severity", lambda value: {"corruption": {"name": "fog", "severity": value}}),
        ("ratio", lambda value: {"localized": {"corruption": {"name": "fog", "severity": 3}, "ratio": value}}),
        ("steps", lambda value: {"attack": {"name": "bim", "steps": value}}),
        ("rounds", lambda value: {"region_aware": {"attack": {"name": "bim", "steps": 50}, "rounds": value}}),
    ],
)
def test_every_parameter_is_read_from_the_description(
    parameter: str, description: Callable[[float], dict[str, Any]]
) -> None:
    rows = [figure("a", description(value), 1 - value / 10) for value in (3, 1, 2)]
    actual = curve(pd.DataFrame(rows), parameter)
    assert actual["x"].tolist() == [1, 2, 3]
    assert actual["value"].tolist() == pytest.approx([0.9, 0.8, 0.7])
    assert actual["clean"].isna().all()


def test_views_are_curves_of_their_own_and_share_the_clean_figure() -> None:
    def local(ratio: float) -> dict[str, Any]:
        return {"localized": {"corruption": {"name": "fog", "severity": 3}, "ratio": ratio}}

    rows = [figure("a", {"clean": {}}, 0.8)]
    rows += [figure("a", local(ratio), 0.5, view=view) for ratio in (0.25, 0.5) for view in ("inside", "outside")]
    actual = curve(pd.DataFrame(rows), "ratio")
    assert actual.groupby("view")["x"].agg(list).to_dict() == {"inside": [0, 0.25, 0.5], "outside": [0, 0.25, 0.5]}
    assert actual["clean"].eq(0.8).all()


def test_patches_in_words_and_rectangles_are_series_of_their_own() -> None:
    def local(ratio: float, patch: Any) -> dict[str, Any]:
        return {"localized": {"corruption": {"name": "fog", "severity": 3}, "ratio": ratio, "patch": patch}}

    rows = [figure("a", local(ratio, patch), 0.5) for ratio in (0.25, 0.5) for patch in (32, "quarter", [8, 16])]
    names = set(curve(pd.DataFrame(rows), "ratio")["series"])
    assert names == {f"fog, severity 3, patch {patch}" for patch in ("32", "quarter", "[8, 16]")}
    assert threat_settings(pd.DataFrame(rows))["patch"].tolist()[::3] == [32, 32]
    assert threat_settings(pd.DataFrame(rows))["patch"].isna().sum() == 4


def test_a_setting_that_no_threat_has_gives_an_empty_curve() -> None:
    rows = [figure("a", {"clean": {}}, 0.8), figure("a", pgd("8/255"), 0.2)]
    actual = curve(pd.DataFrame(rows), "rounds")
    assert actual.empty
    assert list(actual.columns) == list(curve(pd.DataFrame([*rows, figure("a", pgd("2/255"), 0.4)]), "epsilon").columns)


def test_unknown_parameters_are_an_error() -> None:
    with pytest.raises(GauntletError, match="did you mean 'epsilon'"):
        curve(pd.DataFrame([figure("a", {"clean": {}}, 0.8)]), "epsilo")


def test_the_published_epsilon_curve_of_arnab() -> None:
    rows = published.frame(source="arnab")
    actual = curve(rows[rows["table"].eq("13") & rows["model"].eq("ICNet")], "epsilon")
    assert (actual["x"] * 255).tolist() == pytest.approx([0, 0.25, 0.5, 1, 2, 4, 8, 16, 32])
    assert actual["value"].tolist() == [0.565, 0.458, 0.388, 0.286, 0.166, 0.097, 0.073, 0.025, 0.009]


def test_a_transfer_matrix_is_relative_to_the_row_models_own_clean_figure() -> None:
    rows = [figure("a", {"clean": {}}, 0.8), figure("b", {"clean": {}}, 0.5)]
    rows += [
        figure("a", pgd("8/255"), 0.2, threat="pgd"),
        figure("b", pgd("8/255"), 0.1, threat="pgd"),
        figure("a", pgd("8/255", source_model="b"), 0.6, threat="pgd"),
        figure("b", pgd("8/255", source_model="a"), 0.3, threat="pgd"),
    ]
    matrix = transfer_matrix(pd.DataFrame(rows), "pgd")
    assert list(matrix.index) == list(matrix.columns) == ["a", "b"]
    np.testing.assert_allclose(matrix.to_numpy(), [[0.25, 0.75], [0.6, 0.2]])


def test_a_clean_figure_of_zero_gives_no_ratio() -> None:
    rows = pd.DataFrame([figure("a", {"clean": {}}, 0.0), figure("a", pgd("8/255"), 0.0)])
    assert transfer(rows)["ratio"].isna().all()


def test_the_published_transfer_matrix_of_arnab_table_one() -> None:
    rows = published.frame(source="arnab")
    matrix = transfer_matrix(rows[rows["table"].eq("1")], "fgsm linf 8/255")
    assert matrix.shape == (7, 4)
    assert np.diag(matrix.to_numpy()[:4]).tolist() == [0.373, 0.397, 0.377, 0.531]
    assert matrix.loc["Deeplab v2 50% scale (ResNet)", "Deeplab v2 75% scale (ResNet)"] == 0.705
    with pytest.raises(GauntletError, match="several transfers"):
        transfer_matrix(rows, "fgsm linf 8/255")
    with pytest.raises(GauntletError, match="no transfers"):
        transfer_matrix(rows, "nothing")


def test_the_published_transform_matrix_of_arnab_table_two() -> None:
    matrix = transform_matrix(published.frame(source="arnab"))
    assert matrix.shape == (5, 5)
    assert matrix.loc["JPEG recompression", "None"] == 0.477
    assert list(matrix.index) == list(matrix.columns)


def test_classes_are_compared_with_their_clean_figure() -> None:
    rows = [
        figure("a", {"clean": {}}, value, metric="IoU", class_name=name)
        for name, value in (("road", 0.9), ("pole", 0.5), ("sky", 0.0))
    ]
    rows += [
        figure("a", pgd("8/255"), value, metric="IoU", class_name=name, threat="pgd")
        for name, value in (("road", 0.8), ("pole", 0.1), ("sky", 0.0))
    ]
    rows.append(figure("a", pgd("8/255"), 0.3, threat="pgd"))
    actual = by_class(pd.DataFrame(rows))
    assert actual["class_name"].tolist() == ["pole", "road", "sky"]
    assert actual["drop"].tolist() == pytest.approx([0.4, 0.1, 0.0])
    assert actual["ratio"].tolist()[:2] == pytest.approx([0.2, 8 / 9])
    assert np.isnan(actual["ratio"].iloc[2])


def test_means_of_a_matrix_leave_the_diagonal_out() -> None:
    matrix = pd.DataFrame(
        [[0.2, 0.6, 0.9], [0.8, 0.7, 0.4]], index=["a", "b"], columns=["a", "b", "c"]
    )  # what a and b keep on images of a, b and c
    means = transfer_means(matrix)
    assert means["white_box"].tolist()[:2] == [0.2, 0.7]
    assert means["as_source"].tolist() == pytest.approx([0.8, 0.6, 0.65])
    assert means["as_target"].tolist()[:2] == pytest.approx([0.75, 0.6])
    assert means["strongest"].tolist() == ["b", "c", ""]  # b keeps 0.4 on images of c, 0.7 on its own: masked
    assert means["least"].tolist()[:2] == [0.6, 0.4]
    assert means.loc["c", ["white_box", "as_target", "least"]].isna().all()
