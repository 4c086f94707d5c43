"""The studies of Halmosi et al. on a small network: histograms, size bias, smallest perturbations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gauntlet.analysis import stored_objects
from gauntlet.errors import GauntletError
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.report.charts import LineChart, Panel, PointChart
from gauntlet.report.document import Block
from gauntlet.report.render import plotly
from gauntlet.report.tables import Table
from gauntlet.results import Store
from gauntlet.studies import run_study, studies
from gauntlet.studies.contract import Drawing
from gauntlet.studies.papers import halmosi, halmosi_tables, halmosi_training
from gauntlet.studies.papers.halmosi import ATTACKED, CLEAN, MINIMUM, PLAIN, rising, small_objects_lose
from gauntlet.studies.papers.halmosi_tables import ATTACKS, METRICS
from gauntlet.studies.printed import Printed
from gauntlet.studies.results import FOREGROUND, Results
from gauntlet.studies.running import study_jobs
from gauntlet.studies.verdicts import judge, lacks, printed_words
from gauntlet.threats import build_threat

NETWORK = ModelEntry(address="python:nets:street_network", options={"num_classes": 11, "mean": [0.5] * 3})
SMALL = DatasetEntry(name="streets", options={"size": [32, 64], "length": 6})
CHEAP = {
    CLEAN: "clean",
    ATTACKED: {
        "battery": {
            "name": "ten",
            "members": {
                name: {"name": "fgsm", "epsilon": f"{1 + 3 * index % 10}/255"} for index, name in enumerate(ATTACKS)
            },
            "skip": False,
        }
    },
}


def run(name: str, store: Store, **changes: object) -> Results:
    study = replace(studies[name], **changes)
    return run_study(study, [NETWORK], SMALL, store, prepare="off", batch_size=8).of(NETWORK.address)


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAUNTLET_CACHE", str(tmp_path_factory.mktemp("cache")))
        return run("halmosi/figure-2", Store(), threats=CHEAP)


def drawn(name: str, results: Results) -> Sequence[Block]:
    drawing: Drawing | None = studies[name].drawing
    assert drawing is not None
    return drawing(results)


def test_histograms_count_every_image_once_and_draw_both_means(sized: Results) -> None:
    table, panel = drawn("halmosi/figure-1", sized)
    assert isinstance(table, Table)
    assert isinstance(panel, Panel)
    attacked = sized.evaluation(PLAIN, ATTACKED).figures
    row = next(row for row in table.rows if row[0] == ATTACKED)
    assert row[1].value == pytest.approx(attacked["mIoU"], abs=1e-12)  # type: ignore[union-attr]
    assert row[2].value == pytest.approx(attacked["NmIoU"], abs=1e-12)  # type: ignore[union-attr]
    chart = panel.charts[ATTACKED]
    assert isinstance(chart, LineChart)
    images, of_classes, of_images = chart.series
    assert sum(float(share) for share in images.y) == pytest.approx(1, abs=1e-12)
    assert [float(x) for x in of_classes.x] == pytest.approx([attacked["mIoU"]] * 2)
    assert [float(x) for x in of_images.x] == pytest.approx([attacked["NmIoU"]] * 2)


def test_objects_of_clean_and_attacked_images_are_joined(sized: Results) -> None:
    keys = [sized.evaluation(PLAIN, threat).key for threat in (CLEAN, ATTACKED)]
    objects = stored_objects(sized.store, *keys)
    assert set(objects["image_id"]) <= set(sized.image_ids(PLAIN, CLEAN))
    clean = sized.evaluation(PLAIN, CLEAN).figures["aAcc"]
    counted = sum(table.valid.sum() for table in sized.tables(PLAIN, CLEAN))
    assert (objects["clean_recall"] * objects["area"]).sum() / counted == pytest.approx(clean, abs=1e-12)
    assert objects["area"].sum() == counted  # no background: every pixel belongs to an object
    assert (objects["recall"] * objects["area"]).sum() <= (objects["clean_recall"] * objects["area"]).sum()


def test_size_bias_is_that_of_the_table(sized: Results) -> None:
    keys = [sized.evaluation(PLAIN, threat).key for threat in (CLEAN, ATTACKED)]
    objects = stored_objects(sized.store, *keys)
    kept = [part["recall"].mean() / part["clean_recall"].mean()
            for part in (objects[objects["fraction"] < 0.01], objects[objects["fraction"] >= 0.05])]  # fmt: skip
    assert small_objects_lose(sized)[0] == pytest.approx(kept[1] - kept[0], abs=1e-12)
    table, panel = drawn("halmosi/figure-2", sized)
    assert isinstance(table, Table)
    assert isinstance(panel, Panel)
    for _, _, clean, attacked, share in table.rows:
        assert share == pytest.approx(attacked / clean, abs=1e-12)  # type: ignore[operator]
    (chart,) = panel.charts.values()
    assert isinstance(chart, PointChart)
    assert [series.name for series in chart.series] == ["clean", "attacked"]


def test_evaluations_without_objects_say_what_to_do(sized: Results) -> None:
    store = Store()
    plain = run("halmosi/figure-1", store, threats={CLEAN: "clean"}, objects=False)
    key = plain.evaluation(PLAIN, CLEAN).key
    with pytest.raises(GauntletError, match="--objects"):
        stored_objects(store, key, key)
    assert key != sized.evaluation(PLAIN, CLEAN).key
    assert plain.evaluation(PLAIN, CLEAN).figures == sized.evaluation(PLAIN, CLEAN).figures


def test_a_dataset_without_background_is_refused(sized: Results) -> None:
    with pytest.raises(GauntletError, match="background class"):
        sized.miou(PLAIN, CLEAN, view=FOREGROUND)
    with pytest.raises(GauntletError, match="no view 'elsewhere'"):
        sized.miou(PLAIN, CLEAN, view="elsewhere")


def test_small_norms_and_thresholds_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    class Four:
        images = 4
        weights = np.ones((1, 4))

    grey = np.array([[0.5, 1.0, 2.0, 2.0], [20.0, 3.0, 3.0, 3.0], [20.0, 4.0, 4.0, 4.0], [np.inf] * 4])
    monkeypatch.setattr(halmosi, "norms_by_attack", lambda results, view: grey / 255)
    results: Any = Four()
    assert halmosi.alma_leads(results, "all") == pytest.approx([0.25])  # at 0.5/255, where the first quarter falls
    assert halmosi.fooled_up_to(results, "all", 0.25) == pytest.approx([0] * 5)
    assert halmosi.fooled_up_to(results, "all", 3) == pytest.approx([2 / 4, 1 / 3, 1 / 3, 2 / 3, 2 / 3])


def test_smallest_perturbations_are_drawn_on_a_logarithmic_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path))
    threats = {name: {"attack": {**own, "steps": 3}} for name, own in MINIMUM.items()}
    results = run("halmosi/figure-15", Store(), threats={CLEAN: "clean", **threats})
    table, panel = drawn("halmosi/figure-15", results)
    assert isinstance(table, Table)
    assert isinstance(panel, Panel)
    assert [row[0] for row in table.rows] == [*MINIMUM, "aggregated"]
    assert [column.name for column in table.columns][-1] == "optimality"
    assert table.rows[-1][-1] is None  # the best of all is what the others are measured by
    assert "smallest of alma-prox, dag-0.001, dag-0.003, pdpgd" in str(table.caption)
    passes = [row[[column.name for column in table.columns].index("passes per image")] for row in table.rows]
    assert all(isinstance(each, float) and each >= 2 for each in passes[:-1])
    together: Drawing | None = studies["halmosi/figure-15"].together
    assert together is not None
    (of_all,) = together(results)
    assert isinstance(of_all, Table)
    assert [row[0] for row in of_all.rows] == list(MINIMUM)
    means, own = (pd.DataFrame(each.rows).iloc[: len(MINIMUM)] for each in (of_all, table))
    assert np.array_equal(means[1].astype(float), own.iloc[:, -1].astype(float), equal_nan=True)  # of one model
    assert list(panel.charts) == ["99 % wrong", "90 % wrong"]
    for chart in panel.charts.values():
        assert isinstance(chart, LineChart)
        assert plotly.figure(chart)["layout"]["xaxis"]["type"] == "log"
        assert all(float(x) > 0 for series in chart.series for x in series.x)


def test_a_distribution_is_drawn_where_it_rises() -> None:
    shares = pd.DataFrame({"share": [0.0, 0.0, 0.5, 1.0, 1.0], "grey_level": [1, 2, 3, 4, 5]})
    assert rising(shares)["grey_level"].tolist() == [2, 3, 4]
    assert rising(shares[2:3])["grey_level"].tolist() == [3]


def test_tables_have_the_figures_of_the_evaluation(sized: Results) -> None:
    together: Drawing | None = studies["halmosi/table-4"].together
    assert together is not None
    frame = sized.store.frame()
    rows = frame[frame["class_name"].eq("")]
    stored = {
        (key, view, metric): float(value)
        for key, view, metric, value in rows[["key", "view", "metric", "value"]].itertuples(index=False)
    }
    key, clean = (sized.evaluation(PLAIN, threat).key for threat in (ATTACKED, CLEAN))
    for table, metric in zip(together(sized), METRICS.values(), strict=True):
        assert isinstance(table, Table)
        names = [column.name for column in table.columns[1:]]
        assert names == [CLEAN, *ATTACKS, ATTACKED]
        found = [cell.value for cell in table.rows[0][1:]]  # type: ignore[union-attr]
        expected = [stored[clean, "all", metric], *(stored[key, name, metric] for name in ATTACKS)]
        assert found == pytest.approx([*expected, stored[key, "all", metric]], abs=1e-12), metric
    alone = min(stored[key, name, "NmIoU"] for name in ATTACKS)
    margin = halmosi_tables.together_stronger("all", sized)[0]
    assert margin == pytest.approx(alone - stored[key, "all", "NmIoU"], abs=1e-12)


def by_hand(model: str, values: dict[tuple[str, str, str], float]) -> Printed:
    """Figures of one model by threat, view and metric."""
    return Printed("by hand", {}, of_views={((model, PLAIN, threat), view, metric): value
                                            for (threat, view, metric), value in values.items()})  # fmt: skip


@pytest.mark.parametrize(
    ("item", "holding"),
    [
        # docs/specs/studies.md, 7: claims 12 to 14 and 17 hold in Tables 1 and 2, of networks trained in such a way.
        ("table-1", ["12 of 12", "8 of 8", "8 of 8", "8 of 8", "8 of 8"]),
        ("table-1b", ["4 of 4"]),
        ("table-2", ["2 of 2", "2 of 2", "2 of 2"]),
        ("table-2b", ["2 of 2"]),
        # Claim 18 by half a point of NmIoU: 17.15 - 15.86 and 23.11 - 21.82 in Table 3.
        ("table-3", ["2 of 2", None, "2 of 2"]),
        ("table-6", ["4 of 4", None, "4 of 4"]),
        # 7b: SEA-BCE is not the strongest on one of the two.
        ("table-7b", ["2 of 2", None, "1 of 2"]),
    ],
)
def test_every_finding_of_a_table_is_a_claim(item: str, holding: list[str | None]) -> None:
    study = studies[f"halmosi/{item}"]
    words = [printed_words(claim, study.printed()) for claim in study.claims]
    assert len(words) == len(holding)
    for found, wanted in zip(words, holding, strict=True):
        assert wanted is None or found.startswith(f"holds for {wanted} networks"), words


def test_a_model_is_judged_by_how_it_was_trained() -> None:
    trainings = {
        "streets/enet": "normal", "streets/enet-at50": "half of the batches attacked", "PSPNet Normal, VOC": "normal",
        "streets/enet-at": "all batches attacked", "PSPNet DDC-AT, VOC": "half of the batches attacked",
        "PSPNet SegPGD-AT-100, VOC": "all batches attacked", "UPerNet-ConvNeXt SEA-AT-Tiny, VOC": "SEA-AT",
    }  # fmt: skip
    assert {model: halmosi_training.training(model) for model in trainings} == trainings
    left = {("aggregated", "all", metric): 0.04 for metric in METRICS.values()}
    claim = studies["halmosi/table-1"].claims[0]
    assert claim.margin(by_hand("a-at50", left).of("a-at50")) == pytest.approx([0.01])
    left["aggregated", "all", "aAcc"] = 0.07  # one metric is enough
    assert claim.margin(by_hand("a-at50", left).of("a-at50")) == pytest.approx([-0.02])


def test_together_is_no_claim_by_construction_nor_at_the_floor() -> None:
    claim = studies["halmosi/table-4"].claims[0]
    for single, worst, margin, lacking in (
        (0.2, 0.15, 0.045, ""),
        (0.2, 0.198, -0.003, ""),
        (0.01, 0, None, "at the floor"),
    ):
        values = {("aggregated", name, "NmIoU"): single for name in ATTACKS}
        figures = by_hand("m", {**values, ("aggregated", "all", "NmIoU"): worst}).of("m")
        assert lacks(claim, figures) == lacking
        if margin is not None:
            assert claim.margin(figures) == pytest.approx([margin])
    floor = {("aggregated", name, "NmIoU"): 0.0 for name in ATTACKS[:2]}
    rest = {("aggregated", name, "NmIoU"): 0.01 for name in ATTACKS[2:]}
    assert lacks(studies["halmosi/table-4"].claims[1], by_hand("m", floor | rest).of("m")) == (
        "several attacks leave nothing"
    )


def test_a_claim_about_a_training_that_no_model_has_cannot_be_told(sized: Results) -> None:
    study = studies["halmosi/table-1"]
    verdicts = {each.claim.text[:2]: each.verdict for each in judge(study, sized)}
    assert {verdicts[number] for number in ("12", "13")} == {"cannot be told: no model of this kind"}


def test_the_winner_of_an_image_is_the_attack_that_leaves_least(sized: Results) -> None:
    table, panel = drawn("halmosi/figure-4", sized)
    assert isinstance(table, Table)
    assert isinstance(panel, Panel)
    rows = sized.evaluation(PLAIN, ATTACKED).per_image
    for column, metric in ((2, "mIoU"), (4, "accuracy")):
        wide = rows.pivot(index="image_id", columns="view", values=metric)[list(ATTACKS)]
        wins = np.bincount(wide.to_numpy().argmin(axis=1), minlength=10) / len(wide)
        assert [row[column] for row in table.rows] == pytest.approx(wins)
    assert [row[:2] for row in table.rows] == [[index, name] for index, name in enumerate(ATTACKS)]
    assert halmosi_tables.none_dominates(sized)[0] == pytest.approx(0.99 - max(row[3] for row in table.rows))  # type: ignore[type-var, operator]
    assert halmosi_tables.all_contribute(sized)[0] == pytest.approx(min(row[3] for row in table.rows) - 0.01)  # type: ignore[type-var, operator]


def test_ties_at_the_floor_are_shared(sized: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, named = sized.evaluation(PLAIN, ATTACKED).per_image, sized.image_ids(PLAIN, CLEAN)
    first = rows["image_id"] == rows["image_id"].iloc[0]
    # One image is won, all others are tied.
    floor = rows.assign(mIoU=np.where(first & (rows["view"] != ATTACKS[4]), 0.3, 0.2))
    monkeypatch.setattr(Results, "evaluation", lambda *_: SimpleNamespace(per_image=floor))
    monkeypatch.setattr(Results, "image_ids", lambda *_: named)
    shares = halmosi_tables.shares_won(sized)[0]
    tied = (1 - 1 / sized.images) / len(ATTACKS)
    assert shares == pytest.approx([tied + (index == 4) / sized.images for index in range(len(ATTACKS))])
    assert halmosi_tables.all_contribute(sized)[0] == pytest.approx(tied - 0.01)
    assert halmosi_tables.may_yet_win(sized) == ""


def test_few_images_do_not_tell_that_an_attack_never_wins(sized: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = studies["halmosi/figure-4"].claims[1]
    without = int((halmosi_tables.shares_won(sized)[0] == 0).sum())
    assert without, "one attack at least wins on none of so few images"
    assert f"{without} of 10 win none of {sized.images} images" in lacks(claim, sized)
    monkeypatch.setattr(halmosi_tables, "ENOUGH_TO_WIN", sized.images)
    assert lacks(claim, sized) == ""


def test_an_attack_that_was_skipped_has_no_figure(sized: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = [sized, "aAcc", ATTACKED, ATTACKS[3], NETWORK.address]
    assert np.isfinite(halmosi_tables.figure(*ask)).all()  # type: ignore[arg-type]
    monkeypatch.setattr(halmosi_tables, "skipped", lambda results, view, model: True)
    assert np.isnan(halmosi_tables.figure(*ask)).all()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "model", "attack", "value"),
    [
        ("table-3", "DeepLabv3 PGD-AT-100, Cityscapes", None, 15.86),
        ("table-3", "DeepLabv3 PGD-AT-100, Cityscapes", "sea-jsd", 17.15),
        ("table-3", "DeepLabv3 SegPGD-AT-100, Cityscapes", "padam-ce", 23.11),
        ("table-2", "UPerNet-ConvNeXt SEA-AT-Small, VOC", None, 12.89),
    ],
)
def test_the_printed_tables_are_read_as_printed(item: str, model: str, attack: str | None, value: float) -> None:
    printed = studies[f"halmosi/{item}"].printed()
    found = printed.nmiou(PLAIN, ATTACKED, model, attack or "all")
    assert 100 * found[0] == pytest.approx(value, abs=1e-9)


def test_studies_without_background_refuse_a_dataset_that_has_none() -> None:
    for name in ("halmosi/table-6", "halmosi/figure-9"):
        with pytest.raises(GauntletError, match="leaves out the background, and 'streets' has none"):
            study_jobs(studies[name], [NETWORK], SMALL)


@pytest.mark.parametrize("name", ["halmosi/figure-9", "halmosi/figure-16"])
def test_background_is_ignored_by_every_attack(name: str) -> None:
    for threat in studies[name].threats.values():
        described = build_threat(threat).describe()
        kind, options = next(iter(described.items()))
        if kind == "battery":
            assert all(member["ignore"] == [0] for member in options["members"].values())
        elif kind == "attack":
            assert options["ignore"] == [0]


def test_every_figure_of_distributions_has_a_name() -> None:
    for number in (1, 2, 3, 7, 8, 9, 10, 11, 15, 16):
        assert f"halmosi/figure-{number}" in studies
    jobs = study_jobs(studies["halmosi/figure-7"], [NETWORK], SMALL)
    assert [threat for _, _, threat in jobs] == [CLEAN, ATTACKED]


def test_one_evaluation_serves_all_tables_and_figures_of_the_ten_attacks() -> None:
    names = [f"halmosi/{item}" for item in ("figure-1", "figure-2", "figure-4", "table-1", "table-3", "table-4")]
    keys = {
        tuple(planned.job.key for planned in study_jobs(studies[name], [NETWORK], SMALL).values()) for name in names
    }
    assert len(keys) == 1
