from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_rows import figure

from gauntlet.analysis import correlate, correlations, scores, scores_by_dataset, scores_by_metric
from gauntlet.errors import GauntletError
from gauntlet.results import published

# tests/data/attack_reference.json, metrics.correlation: with a tie in each list.
X = [0.1, 0.4, 0.35, 0.8, 0.8, 0.2]
Y = [1.0, 3.0, 2.0, 5.0, 4.0, 2.5]


def by_name(actual: pd.DataFrame, column: str = "value") -> dict[str, float]:
    return dict(zip(actual["coefficient"], actual[column], strict=True))


def test_the_reference_values() -> None:
    actual = by_name(correlate(X, Y))
    assert actual["pearson"] == pytest.approx(0.9277274494121511, abs=1e-12)
    assert actual["spearman"] == pytest.approx(0.9276336570439174, abs=1e-12)
    assert actual["kendall"] == pytest.approx(0.8280786712108251, abs=1e-12)


def test_hand_computed_ranks() -> None:
    # Ranks 1 2 3 4 against 1 3 2 4: one of six pairs is discordant, squared rank differences sum to 2.
    actual = by_name(correlate([1, 2, 3, 4], [10, 30, 20, 90]))
    assert actual["kendall"] == pytest.approx((5 - 1) / 6)
    assert actual["spearman"] == pytest.approx(1 - 6 * 2 / (4 * 15))


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), min_size=3, max_size=30).filter(
        lambda pairs: len({x for x, _ in pairs}) > 1 and len({y for _, y in pairs}) > 1
    )
)
def test_equal_to_scipy_with_many_ties(pairs: list[tuple[int, int]]) -> None:
    from scipy import stats  # takes as long to import as torch: not while tests are collected

    x, y = np.array(pairs, dtype=float).T
    actual = by_name(correlate(x, y, resamples=20))
    assert actual["pearson"] == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    assert actual["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    assert actual["kendall"] == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(6, 40), st.integers(0, 2**32 - 1))
def test_intervals_are_ordered_and_inside_their_range(n: int, seed: int) -> None:
    x, y = np.random.default_rng(seed).normal(size=(2, n))
    actual = correlate(x, y, resamples=200, seed=seed)
    assert (actual["low"] <= actual["high"]).all()
    assert actual["low"].ge(-1).all()
    assert actual["high"].le(1).all()
    assert actual["n"].eq(n).all()


def test_the_interval_is_the_wider_of_resampled_pairs_and_fisher() -> None:
    from scipy import stats

    generator = np.random.default_rng(3)
    x = np.round(generator.normal(size=12), 1)
    y = np.round(x + generator.normal(size=12), 1)
    draws = np.random.default_rng(0).multinomial(12, np.full(12, 1 / 12), size=50)
    expected = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
    actual = correlate(x, y, resamples=50).set_index("coefficient")
    for name, function in expected.items():
        values = [function(np.repeat(x, draw), np.repeat(y, draw)).statistic for draw in draws]
        low, high = np.percentile(values, [2.5, 97.5])
        value = float(actual["value"][name])
        variance = {"pearson": 1 / 9, "spearman": (1 + value**2 / 2) / 9, "kendall": 0.437 / 8}[name]
        fisher = np.tanh(np.arctanh(value) + np.array([-1, 1]) * stats.norm.ppf(0.975) * np.sqrt(variance))
        assert actual.loc[name, "low"] == pytest.approx(min(low, fisher[0]), abs=1e-9)
        assert actual.loc[name, "high"] == pytest.approx(max(high, fisher[1]), abs=1e-9)


@pytest.mark.parametrize(("models", "rho"), [(6, 0.0), (6, 0.9), (8, 0.5), (12, 0.9), (24, 0.5)])
def test_intervals_of_ranks_cover(models: int, rho: float) -> None:
    """Of 300 samples, at least 93 % less what chance takes; percentiles alone cover 85 % at six models and 0.9."""
    generator = np.random.default_rng(models)
    true = 6 / np.pi * np.arcsin(rho / 2)  # Spearman's rho of a normal pair
    covered = 0
    for _ in range(300):
        x, y = generator.multivariate_normal([0, 0], [[1, rho], [rho, 1]], models).T
        row = correlate(x, y, resamples=200).iloc[1]
        covered += row["low"] <= true <= row["high"]
    assert covered / 300 >= 0.93 - 3 * np.sqrt(0.07 * 0.93 / 300)


@pytest.mark.parametrize("models", [3, 4, 5])
def test_few_models_have_a_coefficient_and_no_interval(models: int) -> None:
    actual = correlate(range(models), range(models))
    assert actual["value"].tolist() == pytest.approx([1, 1, 1])
    assert actual[["low", "high"]].isna().all().all()


def test_the_same_seed_gives_the_same_interval_and_another_one_another() -> None:
    x = np.arange(40.0)
    y = x + 100 * (x == 5)  # one model off the line: the percentiles are wider than Fisher's interval
    first, again, other = (correlate(x, y, seed=seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first, again)
    assert not first["low"].equals(other["low"])


def test_six_models_in_one_order_do_not_prove_a_perfect_rank_correlation() -> None:
    actual = correlate(range(6), range(6)).set_index("coefficient")
    assert actual["value"].tolist() == pytest.approx([1, 1, 1])
    assert actual["high"].tolist() == pytest.approx([1, 1, 1])
    assert actual.loc["pearson", "low"] == pytest.approx(1)  # they lie on a line
    low = actual["low"].to_dict()
    assert 0.5 < low["spearman"] < 0.8
    assert 0.2 < low["kendall"] < 0.9


@pytest.mark.parametrize(("x", "y"), [([1.0, 2.0], [2.0, 1.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]), ([], [])])
def test_too_few_pairs_and_no_variance_give_nan(x: list[float], y: list[float]) -> None:
    actual = correlate(x, y)
    assert actual[["value", "low", "high"]].isna().all().all()
    assert actual["n"].eq(len(x)).all()


def test_parameter_counts_without_variance_give_nan_too() -> None:
    assert correlate([1.1e9] * 5, [0.1, 0.2, 0.3, 0.4, 0.5])["value"].isna().all()
    # Large numbers must not turn rounding noise of a constant resample into a correlation.
    actual = correlate([1.1e9] * 5 + [1.2e9], [0.1] * 5 + [0.3])
    assert by_name(actual)["pearson"] == pytest.approx(1)
    assert by_name(actual, "low")["pearson"] == pytest.approx(1)


def test_pairs_with_nan_are_dropped_together() -> None:
    actual = correlate([*X, np.nan, 3.0], [*Y, 4.0, np.nan])
    assert by_name(actual)["pearson"] == pytest.approx(0.9277274494121511)
    assert actual["n"].eq(6).all()


def test_scores_at_the_floor_are_warned_about() -> None:
    floor = [0.001, 0.0, 0.003, 0.002]
    assert correlate(floor, floor[::-1])["warning"].str.startswith("both scores lie below 0.02").all()
    assert correlate(floor, [0.5, 0.6, 0.7, 0.8])["warning"].str.startswith("one score").all()
    assert correlate([0.4, 0.5, 0.6], [0.5, 0.6, 0.7])["warning"].eq("").all()


def test_lists_of_different_length_are_an_error() -> None:
    with pytest.raises(GauntletError, match="two lists of one length"):
        correlate([1, 2, 3], [1, 2])


def test_a_table_of_correlations_split_by_a_column() -> None:
    table = pd.DataFrame({"kind": ["a"] * 4 + ["b"] * 4, "x": [1, 2, 3, 4] * 2, "y": [1, 2, 3, 4, 4, 3, 2, 1]})
    actual = correlations(table, ["x", "y"], by=["kind"], resamples=20)
    assert len(actual) == 6
    assert actual.groupby("kind")["value"].mean().to_dict() == pytest.approx({"a": 1, "b": -1})
    whole = correlations(table, pairs=[("x", "y")], resamples=20)
    assert whole["value"].tolist() == pytest.approx([0, 0, 0])
    with pytest.raises(GauntletError, match="needs the columns z"):
        correlations(table, ["x", "z"])


def test_published_linf_reliability_is_flagged_as_floor() -> None:
    table = scores(published.frame(source="semsegbench", dataset="ade20k"))
    actual = correlations(table, pairs=[("linf-ReM^8_20", "clean")], resamples=20)
    assert actual["n"].eq(18).all()
    assert actual["warning"].ne("").all()


def test_scores_side_by_side_across_metrics_and_datasets() -> None:
    frame = published.frame(source="semsegbench", kind="clean")
    metrics = scores_by_metric(frame, "clean", ["mIoU", "mAcc", "aAcc"])
    assert len(metrics) == 76
    row = metrics.set_index(["model", "dataset"]).loc[[("unet/custom", "cityscapes")]].iloc[0]
    assert [row["mIoU"], row["mAcc"], row["aAcc"]] == [0.6910, 0.7676, 0.9491]
    datasets = scores_by_dataset(frame, "clean", on=["architecture", "backbone"]).set_index(
        ["architecture", "backbone"]
    )
    row = datasets.loc[[("segformer", "mit-b0")]].iloc[0]
    assert row["ade20k"] == 0.3741
    assert row["cityscapes"] == pytest.approx((0.6906 + 0.7654) / 2)
    with pytest.raises(GauntletError, match="needs the columns GAM_9"):
        scores_by_dataset(frame, "GAM_9")


def test_other_images_of_one_dataset_are_not_averaged() -> None:
    """One model on 8 and on 64 images of streets, and on another dataset."""
    rows = [
        figure("a", {"clean": {}}, value, dataset=dataset, dataset_digest=digest * 16)
        for dataset, digest, value in (("streets", "1", 0.4), ("streets", "2", 0.8), ("other", "3", 0.5))
    ]
    across = scores_by_dataset(pd.DataFrame(rows), "clean")
    assert across.to_dict("records") == [
        {"model": "a", "other": 0.5, "streets/val [11111111]": 0.4, "streets/val [22222222]": 0.8}
    ]
    by_metric = scores_by_metric(pd.DataFrame(rows), "clean", ["mIoU"])
    assert sorted(by_metric["mIoU"]) == [0.4, 0.5, 0.8]
