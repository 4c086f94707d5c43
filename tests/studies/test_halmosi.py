"""The studies of Halmosi et al. on a small network: histograms, size bias, smallest perturbations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gauntlet.analysis import by_size, stored_objects
from gauntlet.errors import GauntletError
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.report.charts import LineChart, Panel, PointChart
from gauntlet.report.document import Block
from gauntlet.report.render import plotly
from gauntlet.report.tables import Table
from gauntlet.results import Store
from gauntlet.studies import run_study, studies
from gauntlet.studies.contract import Drawing
from gauntlet.studies.papers.halmosi import ATTACKED, CLEAN, MINIMUM, PLAIN, alma_leads, small_objects_lose
from gauntlet.studies.results import FOREGROUND, Results
from gauntlet.studies.running import study_jobs
from gauntlet.threats import build_threat

NETWORK = ModelEntry(address="python:nets:street_network", options={"num_classes": 11, "mean": [0.5] * 3})
SMALL = DatasetEntry(name="streets", options={"size": [32, 64], "length": 6})
CHEAP = {
    CLEAN: "clean",
    ATTACKED: {
        "battery": {
            "name": "two",
            "members": {
                "fgsm": {"name": "fgsm", "epsilon": "8/255"},
                "pgd": {"name": "pgd", "epsilon": "8/255", "steps": 2},
            },
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
    table = by_size(stored_objects(sized.store, *keys))
    kept = table.loc[table["counted"] > 0, "ratio"].to_numpy(float)
    assert small_objects_lose(sized)[0] == pytest.approx(kept[-1] - kept[0], abs=1e-12)
    _, panel = drawn("halmosi/figure-2", sized)
    assert isinstance(panel, Panel)
    (chart,) = panel.charts.values()
    assert isinstance(chart, PointChart)
    assert [series.name for series in chart.series] == ["clean", "attacked"]


def test_evaluations_without_objects_say_what_to_do(sized: Results) -> None:
    store = Store()
    plain = run("halmosi/figure-1", store, threats={CLEAN: "clean"})
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
    assert -1 <= alma_leads(results, "all")[0] <= 1
    (chart,) = panel.charts.values()
    assert isinstance(chart, LineChart)
    assert plotly.figure(chart)["layout"]["xaxis"]["type"] == "log"
    assert all(float(x) > 0 for series in chart.series for x in series.x)


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
    assert np.all([job.settings.objects is False for job in jobs.values()])
