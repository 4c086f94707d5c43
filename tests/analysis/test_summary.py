from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from store_rows import figure

from gauntlet.analysis import gam, leaderboard, rem, scores, summaries, threat_table
from gauntlet.analysis.scoring.benchmark_sets import COMMON_3D, COMMON_CORRUPTIONS, DEPTH_CORRUPTIONS
from gauntlet.analysis.scoring.ranking import by_preference
from gauntlet.errors import GauntletError
from gauntlet.results import published
from gauntlet.threats.corruptions import registry


def attack(name: str, epsilon: float | str = "8/255", **settings: Any) -> dict[str, Any]:
    return {"attack": {"name": name, "epsilon": epsilon, "steps": 20, "norm": "linf", **settings}}


def corruption(name: str, severity: int = 3) -> dict[str, Any]:
    return {"corruption": {"name": name, "severity": severity}}


def full_model(model: str, clean: float, pgd: float, fog: float) -> list[dict[str, Any]]:
    rows = [figure(model, {"clean": {}}, clean)]
    rows += [figure(model, attack(name), pgd + shift) for name, shift in (("pgd", 0.2), ("segpgd", 0.1), ("cospgd", 0))]
    rows += [figure(model, corruption(name), 0.5) for name in COMMON_CORRUPTIONS if name != "fog"]
    rows.append(figure(model, corruption("fog"), fog))
    return rows


def test_rem_is_the_minimum_in_the_published_notation() -> None:
    rows = pd.DataFrame(full_model("a", 0.8, 0.1, 0.2))
    actual = rem(rows)
    assert len(actual) == 1
    assert actual.loc[0, "summary"] == "linf-ReM^8_20"
    assert actual.loc[0, "value"] == pytest.approx(0.1)
    assert actual.loc[0, "mean"] == pytest.approx(0.2)
    assert actual.loc[0, "worst"] == "cospgd"
    assert actual.loc[0, "members"] == "pgd, segpgd, cospgd"


def test_epsilon_as_text_and_as_number_are_one_budget() -> None:
    rows = [figure("a", attack("pgd", "8/255"), 0.3), figure("a", attack("segpgd", 8 / 255), 0.2)]
    actual = rem(pd.DataFrame(rows), members=["pgd", "segpgd"])
    assert list(actual["summary"]) == ["linf-ReM^8_20"]
    assert actual.loc[0, "value"] == 0.2


def test_budgets_are_kept_apart() -> None:
    rows = [
        figure("a", attack("pgd"), 0.3),
        figure("a", attack("pgd", "4/255"), 0.5),
        figure("a", attack("pgd", "64/255", norm="l2"), 0.4),
        figure("a", attack("pgd", "0.5/255", steps=40), 0.7),
    ]
    actual = rem(pd.DataFrame(rows), members=["pgd"]).set_index("summary")["value"]
    assert actual.to_dict() == {
        "linf-ReM^8_20": 0.3,
        "linf-ReM^4_20": 0.5,
        "l2-ReM^64_20": 0.4,
        "linf-ReM^0.5_40": 0.7,
    }


def test_a_missing_member_gives_nan_and_its_name() -> None:
    rows = [row for row in full_model("a", 0.8, 0.1, 0.2) if "pgd" not in row["description"].split('"')]
    actual = rem(pd.DataFrame(rows))
    assert actual["value"].isna().loc[0]
    assert actual["mean"].isna().loc[0]
    assert actual.loc[0, "missing"] == "pgd"
    assert actual.loc[0, "worst"] == ""


def test_a_stronger_second_run_of_one_attack_counts() -> None:
    rows = [figure("a", attack("pgd", alpha=0.01), 0.3), figure("a", attack("pgd", alpha=0.1), 0.2)]
    assert rem(pd.DataFrame(rows), members=["pgd"]).loc[0, "value"] == 0.2


def test_transferred_localized_and_class_figures_do_not_enter() -> None:
    rows = [
        figure("a", attack("pgd"), 0.3),
        figure("a", attack("pgd", source_model="b"), 0.1),
        figure("a", {"localized": {"attack": {"name": "pgd", "epsilon": 8 / 255}, "ratio": 0.5}}, 0.05),
        figure("a", attack("pgd"), 0.01, class_name="car", metric="mIoU"),
    ]
    actual = rem(pd.DataFrame(rows), members=["pgd"])
    assert list(actual["value"]) == [0.3]


def test_gam_by_severity() -> None:
    rows = [*full_model("a", 0.8, 0.1, 0.2), figure("a", corruption("fog", 5), 0.1)]
    actual = gam(pd.DataFrame(rows)).set_index("summary")
    assert actual.loc["GAM_3", "value"] == 0.2
    assert actual.loc["GAM_3", "worst"] == "fog"
    assert actual.loc["GAM_3", "mean"] == pytest.approx((14 * 0.5 + 0.2) / 15)
    assert actual["value"].isna().loc["GAM_5"]
    assert actual.loc["GAM_5", "members"] == "fog"


def test_gam_takes_depth_by_the_rule_of_the_benchmark() -> None:
    kinds = {"task": "detection", "metric": "mAP"}
    rows = []
    for name in (*COMMON_CORRUPTIONS, *COMMON_3D):
        described = corruption(name)
        if name in DEPTH_CORRUPTIONS:
            described["corruption"]["depth_rule"] = "estimated"
        rows.append(figure("a", described, 0.3, **kinds))
    metric = figure("a", corruption("fog_3d"), 0.0, **kinds)
    actual = gam(pd.DataFrame([*rows, metric]))
    assert (list(actual["summary"]), list(actual["value"])) == (["GAM_3"], [0.3])
    without = [row for row in rows if "fog_3d" not in row["description"]]
    assert gam(pd.DataFrame([*without, metric]))["missing"].tolist() == ["fog_3d"]
    printed = pd.DataFrame([*without, metric]).drop(columns="key")  # as published figures come: without the rule
    assert gam(printed)["value"].tolist() == [0.0]


def test_the_corruptions_that_look_at_depth_are_those_of_the_registry() -> None:
    assert set(DEPTH_CORRUPTIONS) == {name for name in COMMON_3D if registry[name].needs_depth}
    assert not any(registry[name].needs_depth for name in COMMON_CORRUPTIONS)


def test_summaries_hold_both() -> None:
    actual = summaries(pd.DataFrame(full_model("a", 0.8, 0.1, 0.2)))
    assert list(actual["summary"]) == ["linf-ReM^8_20", "GAM_3"]


def test_scores_put_everything_about_a_model_in_one_row() -> None:
    rows = full_model("a", 0.8, 0.1, 0.2)
    rows.append(figure("a", {"battery": {"name": "halmosi"}}, 0.05, threat="halmosi"))
    rows.append(figure("a", {"battery": {"name": "halmosi"}}, 0.06, threat="halmosi", view="dag"))
    table = scores(pd.DataFrame(rows))
    assert len(table) == 1
    row = table.iloc[0]
    assert row["clean"] == 0.8
    assert row["linf-ReM^8_20"] == pytest.approx(0.1)
    assert row["mean of linf-ReM^8_20"] == pytest.approx(0.2)
    assert row["GAM_3"] == 0.2
    assert row["noise_3"] == 0.5
    assert row["weather_3"] == pytest.approx((0.2 + 3 * 0.5) / 4)
    assert row["halmosi"] == 0.05


def test_clean_figures_on_acdc_are_weather_for_the_other_datasets() -> None:
    rows = [
        figure("a", {"clean": {}}, 0.8, dataset="cityscapes"),
        figure("a", {"clean": {}}, 0.4, dataset="acdc", condition="fog"),
        figure("b", {"clean": {}}, 0.7, dataset="cityscapes"),
    ]
    table = scores(pd.DataFrame(rows)).set_index(["dataset", "model"])
    assert table.loc[("cityscapes", "a"), "acdc fog"] == 0.4
    assert table["acdc fog"].isna().loc[("cityscapes", "b")]
    assert table.loc[("acdc", "a"), "clean"] == 0.4


def test_weather_in_two_protocols_is_two_columns() -> None:
    rows = [
        figure("a", {"clean": {}}, 0.8, dataset="cityscapes", dataset_digest="c" * 16),
        figure("a", {"clean": {}}, 0.4, dataset="acdc", condition="fog", dataset_digest="1" * 16),
        figure("a", {"clean": {}}, 0.3, dataset="acdc", condition="fog", dataset_digest="2" * 16),
        figure("a", {"clean": {}}, 0.2, dataset="acdc", condition="snow", dataset_digest="3" * 16),
    ]
    table = scores(pd.DataFrame(rows)).set_index("dataset")
    actual = table.loc["cityscapes", ["acdc fog [11111111]", "acdc fog [22222222]", "acdc snow"]]
    assert list(actual) == [0.4, 0.3, 0.2]


def test_the_latest_of_two_clean_runs_counts_in_a_store() -> None:
    rows = [
        figure("a", {"clean": {}}, 0.8, created="2025-02-01"),
        figure("a", {"clean": {}}, 0.7, created="2025-01-01"),
    ]
    assert scores(pd.DataFrame(rows)).loc[0, "clean"] == 0.8


def test_two_different_figures_without_a_date_are_an_error() -> None:
    rows = pd.DataFrame([figure("a", {"clean": {}}, 0.8), figure("a", {"clean": {}}, 0.7)]).drop(columns="created")
    with pytest.raises(GauntletError, match="two different figures"):
        scores(rows)


def test_a_leaderboard_ranks_within_a_dataset_and_shares_ties() -> None:
    rows = full_model("a", 0.8, 0.1, 0.2) + full_model("b", 0.7, 0.2, 0.3)
    rows += [*full_model("c", 0.9, 0.0, 0.3), figure("d", {"clean": {}}, 0.95)]
    rows.append(figure("z", {"clean": {}}, 0.1, dataset="other"))
    board = leaderboard(pd.DataFrame(rows))
    streets = board[board["dataset"].eq("streets")]
    assert list(streets["model"]) == ["b", "c", "a", "d"]
    assert list(streets["rank"].astype(object)[:3]) == [1, 1, 3]
    assert pd.isna(streets["rank"].iloc[3])
    by_clean = leaderboard(pd.DataFrame(rows), sort_by="clean")
    assert list(by_clean[by_clean["dataset"].eq("streets")]["model"]) == ["d", "c", "a", "b"]
    assert by_clean.loc[by_clean["model"].eq("z"), "rank"].iloc[0] == 1
    with pytest.raises(GauntletError, match="score to sort by"):
        leaderboard(pd.DataFrame(rows), sort_by="GAM_4")


def test_the_score_that_ranks_is_a_robust_one() -> None:
    assert by_preference(["clean", "mean of GAM_3", "GAM_5", "GAM_3"])[:2] == ["GAM_3", "GAM_5"]
    assert by_preference(["clean", "worst attack", "worst corruption"])[0] == "worst corruption"
    assert by_preference(["clean", "linf-ReM^8_1", "linf-ReM^8_20"])[0] == "linf-ReM^8_20"
    assert by_preference(["worst attack", "clean"])[0] == "clean"


def test_a_score_that_nobody_has_ranks_nobody() -> None:
    """One corruption makes a column GAM_3 without a value: it decides as the worst one; without it, the attacks do."""
    models = (("a", 0.2, 0.3), ("b", 0.1, 0.4))
    rows = [row for model, pgd, fog in models for row in full_model(model, 0.8, pgd, fog)]
    rows = [row for row in rows if row["kind"] != "corruption" or "fog" in row["description"]]
    board = leaderboard(pd.DataFrame(rows))
    assert board["GAM_3"].isna().all()
    assert set(board["ranked_by"]) == {"worst corruption"}
    assert list(zip(board["model"], board["rank"], strict=True)) == [("b", 1), ("a", 2)]
    attacks_only = leaderboard(pd.DataFrame([row for row in rows if row["kind"] != "corruption"]))
    assert list(zip(attacks_only["model"], attacks_only["rank"], strict=True)) == [("a", 1), ("b", 2)]


def test_a_leaderboard_of_detection_uses_map() -> None:
    rows = [
        figure(model, description, value, task="detection", metric="mAP")
        for model, shift in (("a", 0.0), ("b", 0.1))
        for description, value in (({"clean": {}}, 0.4), (attack("bim"), 0.2 + shift), (attack("pgd"), 0.1 + shift))
    ]
    board = leaderboard(pd.DataFrame(rows))
    assert list(board["model"]) == ["b", "a"]
    assert list(board["linf-ReM^8_20"]) == [pytest.approx(0.2), pytest.approx(0.1)]


def test_the_published_leaderboard_of_ade20k() -> None:
    board = leaderboard(published.frame(source="semsegbench", dataset="ade20k"))
    assert len(board) == 26
    assert board.loc[0, "model"] == "upernet/internimage-h"
    assert board.loc[0, "GAM_3"] == 0.4193
    assert set(board.tail(2)["model"]) == {"deeplabv3/resnet50", "deeplabv3/resnet101"}
    assert board.tail(2)["flag"].str.contains("failed_run").all()


def test_a_threat_table_has_a_column_per_threat() -> None:
    rows = [figure("a", {"clean": {}}, 0.8, threat="clean"), figure("a", corruption("fog"), 0.5, threat="fog 3")]
    rows.append(figure("b", {"clean": {}}, 0.7, threat="clean"))
    table = threat_table(pd.DataFrame(rows)).set_index("model")
    assert list(table.columns)[-2:] == ["clean", "fog 3"]
    assert table.loc["a", "fog 3"] == 0.5
    assert table["fog 3"].isna().loc["b"]


def test_a_threat_with_an_old_and_a_new_name_is_one_threat() -> None:
    battery = {"battery": {"name": "halmosi", "epsilon": 8 / 255}}
    rows = [
        figure("a", battery, 0.1, threat="halmosi 8/255", created="2025-02-01"),
        figure("b", battery, 0.2, threat="halmosi 0.0313725", created="2025-01-01"),
    ]
    for table in (threat_table(pd.DataFrame(rows)), scores(pd.DataFrame(rows))):
        assert "halmosi 0.0313725" not in table
        assert table.set_index("model")["halmosi 8/255"].to_dict() == {"a": 0.1, "b": 0.2}
