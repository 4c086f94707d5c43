"""What a report says, against what is in the store."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic_store import DATASET, HOSTILE, MODELS, attack, corruption, fill_store, put

from gauntlet.analysis import leaderboard, trivial_figures
from gauntlet.errors import GauntletError
from gauntlet.metrics import Figure
from gauntlet.metrics.segmentation.figures import cmiou, nmiou
from gauntlet.report import build_report
from gauntlet.report.charts import BarChart, BoxChart, Chart, HeatChart, LineChart, Panel
from gauntlet.report.document import (
    Bullets,
    Document,
    Finding,
    Findings,
    Fold,
    Recipes,
    Section,
    Text,
    Verdicts,
    of_type,
)
from gauntlet.report.image_figures import LabelImages, read_images
from gauntlet.report.pages.comparison import compare_models
from gauntlet.report.pages.entries import leaderboard_tables, store_entries
from gauntlet.report.render import plotly
from gauntlet.report.scope import MINIMUM, Scope, scopes
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.sections import honesty
from gauntlet.report.sections.obtained import command
from gauntlet.report.sections.summary import grade
from gauntlet.report.sections.threats import TRIVIAL
from gauntlet.report.tables import Table, number_of
from gauntlet.results import Job, Store
from gauntlet.results.origin import FIELD, Origin
from gauntlet.threats.attacks.checks import Suspicion

pytest_plugins = ("report_fixtures",)


def pgd(epsilon: float | None, **options: Any) -> dict[str, Any]:
    return {"attack": {"name": "pgd", "norm": "linf", "epsilon": epsilon, "steps": 20, **options}}


FOG = {"corruption": {"name": "fog", "severity": 3}}
SNOW = {"corruption": {"name": "snow", "severity": 3}}


@pytest.fixture
def two_models() -> Store:
    """B is worse clean, better in fog; only a was run under snow."""
    store = Store()
    for model, clean, fog in (("a", 0.8, 0.2), ("b", 0.6, 0.4)):
        put(store, model, "clean", {"clean": {}}, mIoU=clean, aAcc=clean)
        put(store, model, "fog-3", FOG, mIoU=fog, aAcc=fog)
    put(store, "a", "snow-3", SNOW, mIoU=0.1, aAcc=0.1)
    return store


def only_scope(store: Store) -> Scope:
    (scope,) = scopes(store.frame())
    return scope


def test_worst_cases_count_only_threats_that_every_model_met(two_models: Store) -> None:
    scope = only_scope(two_models)
    assert scope.shared("corruption") == ["fog-3"]
    worst = scope.worst_shared("a", "corruption")
    assert worst is not None
    assert (worst[0], worst[1].value) == ("fog-3", 0.2)
    ranking = Ranking(scope)
    assert ranking.criterion == "worst corruption"
    assert ranking.ranks == {"b": 1, "a": 2}


def test_one_name_for_two_weights_or_two_seeds_gives_two_models() -> None:
    store = Store()
    for digest, seed in (("aaaaaaaaaa", 0), ("bbbbbbbbbb", 0), ("bbbbbbbbbb", 1)):
        put(store, "m", "clean", {"clean": {}}, digest=digest, seed=seed, mIoU=0.5)
    assert only_scope(store).models == ["m [aaaaaaaa] (seed 0)", "m [bbbbbbbb] (seed 0)", "m [bbbbbbbb] (seed 1)"]


def test_one_name_for_two_threats_says_what_differs() -> None:
    store = Store()
    for alpha in (0.01, 0.02):
        put(store, "m", "pgd", pgd(8 / 255, alpha=alpha), mIoU=alpha)
    assert list(only_scope(store).threats) == ["pgd (alpha 0.01)", "pgd (alpha 0.02)"]


def test_two_names_for_one_threat_give_the_latest_one() -> None:
    """A store that an older version wrote, which called half a grey level 0.00196078, is continued."""
    store = Store()
    half = pgd(8 / 255, alpha=0.5 / 255)
    put(store, "a", "pgd linf 8/255 x20 alpha 0.00196078", half, mIoU=0.2)
    put(store, "b", "pgd linf 8/255 x20 alpha 0.5/255", half, mIoU=0.1)
    scope = only_scope(store)
    assert list(scope.threats) == ["pgd linf 8/255 x20 alpha 0.5/255"]
    assert scope.shared("attack") == ["pgd linf 8/255 x20 alpha 0.5/255"]


def test_other_numbers_of_images_are_not_compared() -> None:
    store = Store()
    put(store, "a", "clean", {"clean": {}}, mIoU=0.5)
    put(store, "b", "clean", {"clean": {}}, images=8, mIoU=0.5)
    assert sorted((scope.images, scope.models) for scope in scopes(store.frame())) == [(8, ["b"]), (40, ["a"])]


def test_other_numbers_of_images_are_other_leaderboards() -> None:
    store = Store()
    for model, images, value in (("a", 8, 0.5), ("a", 40, 0.7), ("b", 16, 0.6), ("c", 16, 0.4)):
        put(store, model, "clean", {"clean": {}}, images=images, mIoU=value)
    boards = {
        board.title: [(row[0], row[1]) for row in board.rows]
        for board in leaderboard_tables(store_entries(store.frame()))
    }
    assert boards == {
        "d/val, 8 images": [("a", 1)],
        "d/val, 40 images": [("a", 1)],
        "d/val, 16 images": [("b", 1), ("c", 2)],
    }


def test_other_images_of_the_same_name_and_number_are_not_compared() -> None:
    store = Store()
    put(store, "a", "clean", {"clean": {}}, mIoU=0.8)
    assert [scope.title for scope in scopes(store.frame())] == ["d/val"]
    put(store, "b", "clean", {"clean": {}}, mIoU=0.7, protocol={"name": "half"})
    actual = scopes(store.frame())
    digests = store.frame().set_index("model")["dataset_digest"].to_dict()
    assert {(scope.models[0], scope.title) for scope in actual} == {
        ("a", f"d/val [{digests['a'][:8]}]"),
        ("b", f"d/val [{digests['b'][:8]}]"),
    }
    assert len({scope.id for scope in actual}) == 2
    assert len(leaderboard(store.frame())) == 2
    assert leaderboard(store.frame())["rank"].tolist() == [1, 1]  # each the first on its own images
    with pytest.raises(GauntletError, match="never evaluated on the same images"):
        compare_models(store, "a", "b")


def test_an_attack_without_a_budget_is_no_worst_case() -> None:
    store = Store()
    put(store, "a", "clean", {"clean": {}}, mIoU=0.8)
    put(store, "a", "pgd", pgd(8 / 255), mIoU=0.3)
    put(store, "a", "alma", pgd(None), mIoU=0.0)
    scope = only_scope(store)
    assert scope.threats["alma"] == MINIMUM
    worst = scope.worst("a", "attack")
    assert worst is not None
    assert worst[0] == "pgd"


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (1.2, "holds up"),
        (0.9, "holds up"),
        (0.89, "weakened"),
        (0.4, "badly hurt"),
        (0.1, "mostly breaks"),
        (0.0, "collapses"),
    ],
)
def test_grades(kept: float, words: str) -> None:
    assert words in grade(kept)


def test_the_verdict_tells_the_shares(two_models: Store) -> None:
    document = build_report(two_models)
    texts = [block.text for block in document.parts[0].sections[0].blocks if isinstance(block, Text)]
    assert texts[0] == (
        "No model can be called the most reliable of 2 models by mIoU under the worst corruption that all were run "
        "under: b has the highest figure and is badly hurt by its worst corruption (fog-3: 66.7 % kept)."
    )
    cards = next(block for block in document.parts[0].sections[0].blocks if isinstance(block, Verdicts))
    assert [(card.model, card.rank, card.clean.value) for card in cards.items] == [("b", 1, 0.6), ("a", 2, 0.8)]
    assert [card.bars[0].kept for card in cards.items] == pytest.approx([2 / 3, 1 / 8])  # each of what it was run under


# Findings ----------------------------------------------------------------------------------------------------------


def warnings(store: Store) -> list[str]:
    scope = only_scope(store)
    section = honesty.section(scope, Ranking(scope), {}, [], [])
    return [
        item.text
        for block in section.blocks
        if isinstance(block, Findings)
        for item in block.items
        if item.level == "warning"
    ]


def test_an_honest_order_of_attacks_gives_no_warning() -> None:
    store = Store()
    put(store, "m", "clean", {"clean": {}}, mIoU=0.8, aAcc=0.8)
    for epsilon, value in ((2, 0.5), (4, 0.3), (8, 0.1)):
        put(store, "m", f"pgd {epsilon}", pgd(epsilon / 255), mIoU=value, aAcc=value)
    put(store, "m", "fgsm", {"attack": {"name": "fgsm", "norm": "linf", "epsilon": 8 / 255}}, mIoU=0.3, aAcc=0.3)
    assert warnings(store) == []


def test_a_single_step_that_beats_iterations_is_a_warning() -> None:
    store = Store()
    put(store, "m", "pgd 8", pgd(8 / 255), mIoU=0.4, aAcc=0.4)
    put(store, "m", "fgsm", {"attack": {"name": "fgsm", "norm": "linf", "epsilon": 8 / 255}}, mIoU=0.2, aAcc=0.2)
    assert len(warnings(store)) == 1
    assert "single step (fgsm) is stronger" in warnings(store)[0]


def test_an_attack_that_only_asks_and_beats_the_gradient_is_a_warning() -> None:
    store = Store()
    put(store, "m", "pgd 8", pgd(8 / 255), mIoU=0.4, aAcc=0.4)
    for queries, value in ((100, 0.395), (200, 0.2)):
        description = {"attack": {"name": "square", "norm": "linf", "epsilon": 8 / 255, "queries": queries}}
        put(store, "m", f"square {queries}", description, mIoU=value, aAcc=value)
    assert warnings(store) == [
        "An attack that only asks the model (square 200) is stronger than all that follow its gradient: the gradient "
        "is masked."
    ]


def test_a_larger_budget_that_is_weaker_is_a_warning() -> None:
    store = Store()
    for epsilon, value in ((4, 0.2), (8, 0.3)):
        put(store, "m", f"pgd {epsilon}", pgd(epsilon / 255), mIoU=value, aAcc=value)
    for steps, value in ((5, 0.1), (50, 0.19)):
        put(
            store,
            "m",
            f"bim x{steps}",
            {"attack": {"name": "bim", "norm": "linf", "epsilon": 8 / 255, "steps": steps}},
            mIoU=value,
            aAcc=value,
        )
    assert warnings(store) == [
        "pgd is weaker with a larger epsilon: pgd 8 leaves more standing than pgd 4.",
        "bim is weaker with more steps: bim x50 leaves more standing than bim x5.",
    ]


def test_an_attack_that_helps_is_a_warning() -> None:
    store = Store()
    put(store, "m", "clean", {"clean": {}}, mIoU=0.3, aAcc=0.3)
    put(store, "m", "pgd", pgd(8 / 255), mIoU=0.35, aAcc=0.35)
    assert warnings(store) == ["pgd raises the figure instead of lowering it."]


def test_a_gam_with_most_members_names_the_missing_ones() -> None:
    store = Store()
    from gauntlet.analysis.scoring.benchmark_sets import COMMON_CORRUPTIONS

    for name in COMMON_CORRUPTIONS[:-2]:
        put(store, "m", name, {"corruption": {"name": name, "severity": 3}}, mIoU=0.5)
    actual = list(honesty.incomplete_summaries(only_scope(store)))
    assert [(each.subject, each.evidence) for each in actual] == [("GAM_3", "missing: pixelate, jpeg_compression")]


def test_findings_of_checks_are_taken_over() -> None:
    actual = honesty.from_checks("m", [Suspicion("zero-gradient", "error", "the gradient is zero.")], 4)
    assert actual == [Finding("warning", "m", "The gradient is zero.", "check 'zero-gradient' on 4 images")]
    assert honesty.from_checks("m", [], 4)[0].level == "good"


def test_mixed_versions_are_noted() -> None:
    actual = list(honesty.mixed_versions([{"torch": "2.1", "device": "cpu"}, {"torch": "2.2", "device": "cpu"}]))
    assert [(each.text, each.evidence) for each in actual] == [("Evaluations differ in torch.", "2.1, 2.2")]


# The whole document ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def document(store_path: Path) -> Document:
    from gauntlet.results import open_store

    with open_store(store_path, read_only=True) as store:
        return build_report(store)


def blocks_of(document: Document, kind: type) -> list[Any]:
    actual: list[Any] = []

    def walk(blocks: Any) -> None:
        for block in blocks:
            if isinstance(block, Fold):
                walk(block.blocks)
            elif isinstance(block, kind):
                actual.append(block)

    for part in document.parts:
        for section in part.sections:
            walk(section.blocks)
    return actual


def test_every_section_is_there(document: Document) -> None:
    (part,) = document.parts
    assert [section.title for section in part.sections] == [
        "Summary",
        "Leaderboard",
        "Corruptions",
        "Localized corruptions",
        "Attacks",
        "Batteries of attacks",
        "Curves",
        "Single images",
        "Classes",
        "Relations",
        "Honesty",
        "What was not tested",
        "How each figure was obtained",
    ]
    ids = [section.id for section in part.sections] + [
        table.id for section in part.sections for table in of_type(section, Table)
    ]
    ids += [panel.id for section in part.sections for panel in of_type(section, Panel)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9-]+", each) for each in ids)


def clean_key(store: Store) -> str:
    frame = store.frame()
    return str(frame.loc[frame["kind"].eq("clean"), "key"].iloc[0])


def test_tables_hold_the_figures_of_the_store(document: Document, small_store: Store) -> None:
    frame = small_store.frame()
    frame = frame[frame["metric"].eq("mIoU") & frame["view"].eq("all") & frame["class_name"].eq("")]
    stored = {(row.model, row.threat): (row.value, row.low, row.high) for row in frame.itertuples()}
    tables = [table for table in blocks_of(document, Table) if table.title == "mIoU by threat"]
    assert len(tables) == 4
    seen = set()
    for table in tables:
        for row in table.rows:
            for column, cell in zip(table.columns[1:], row[1:], strict=True):
                if column.name == TRIVIAL:
                    continue
                pair = (column.name, row[0]) if (column.name, row[0]) in stored else (row[0], column.name)
                np.testing.assert_equal((cell.value, cell.low, cell.high), stored[pair])
                seen.add(pair)
        assert {row[-1] for row in table.rows} == {trivial_figures(small_store, clean_key(small_store))["mIoU"]}
    assert len(seen) == len(MODELS) * 14  # all threats but the two attacks without a budget


def test_the_images_give_the_stored_figures(small_store: Store) -> None:
    frame = small_store.frame()
    rows = frame[frame["view"].eq("all") & frame["class_name"].eq("") & frame["metric"].isin(["mIoU", "NmIoU"])]
    for key, part in rows.groupby("key"):
        images = read_images(small_store, str(key))
        assert isinstance(images, LabelImages)
        values = dict(zip(part["metric"], part["value"], strict=True))
        assert cmiou(images.headline) == pytest.approx(values["mIoU"], abs=1e-12)
        assert nmiou(images.headline) == pytest.approx(values["NmIoU"], abs=1e-12)


def charts_of(document: Document, start: str) -> dict[str, Chart]:
    (panel,) = [panel for panel in blocks_of(document, Panel) if panel.id.startswith(start)]
    charts: dict[str, Chart] = panel.charts
    return charts


def test_curves_start_at_the_clean_figure(document: Document, small_store: Store) -> None:
    (chart,) = charts_of(document, "curve-epsilon").values()
    assert isinstance(chart, LineChart)
    assert {series.name for series in chart.series} == set(MODELS)
    frame = small_store.frame()
    clean = frame[frame["threat"].eq("clean") & frame["metric"].eq("mIoU")].set_index("model")["value"]
    for series in chart.series:
        assert list(series.x) == [0, 2, 4, 8]
        assert series.y[0] == clean[series.name]


def test_what_attacks_leave_is_drawn_and_tabled_as_a_share_of_the_clean_figure(document: Document) -> None:
    (chart,) = charts_of(document, "curve-epsilon").values()
    (kept,) = charts_of(document, "kept-epsilon").values()
    assert isinstance(chart, LineChart)
    assert isinstance(kept, LineChart)
    for whole, share in zip(chart.series, kept.series, strict=True):
        assert list(share.y) == pytest.approx([float(value) / float(whole.y[0]) for value in whole.y])
    table = next(table for table in blocks_of(document, Table) if table.id.startswith("attack-ratios"))
    assert table.title == "mIoU ratio by threat"
    assert all(0 <= number_of(cell) <= 1.5 for row in table.rows for cell in row[1:])


def test_relative_errors_of_regions_have_curves(document: Document) -> None:
    (chart,) = charts_of(document, "rce-outside-ratio").values()
    assert isinstance(chart, LineChart)
    assert {series.name for series in chart.series} == set(MODELS)
    assert len(chart.series[0].x) > 1
    assert 0 not in chart.series[0].x


def test_boxes_hold_quantiles_and_both_means(document: Document, small_store: Store) -> None:
    chart = charts_of(document, "spread")["model: zoo/plain"]
    assert isinstance(chart, BoxChart)
    box = next(each for each in chart.boxes if each.name == "fog-3")
    frame = small_store.frame()
    rows = frame[frame["model"].eq("zoo/plain") & frame["threat"].eq("fog-3") & frame["class_name"].eq("")]
    values = small_store.per_image(rows["key"].iloc[0])["mIoU"]
    assert box.quantiles == pytest.approx(np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]))
    figures = dict(zip(rows["metric"], rows["value"], strict=True))
    assert box.image_mean == pytest.approx(figures["NmIoU"])
    assert box.dataset == figures["mIoU"]


def test_shares_of_the_strongest_attack_sum_to_one(document: Document) -> None:
    charts = charts_of(document, "best-attack")
    assert len(charts) == 2
    for chart in charts.values():
        assert isinstance(chart, BarChart)
        totals = np.sum([series.x for series in chart.series], axis=0)
        assert totals == pytest.approx(1)


def test_distribution_functions_rise_to_the_share_of_fooled_images(document: Document) -> None:
    charts = charts_of(document, "smallest")
    assert "all models (linf)" in charts
    table = next(each for each in blocks_of(document, Table) if each.id.startswith("medians"))
    fooled = {(row[0], row[1]): row[4] for row in table.rows}
    chart = charts["zoo/plain (linf)"]
    assert isinstance(chart, LineChart)
    for series in chart.series:
        assert list(series.y) == sorted(series.y)
        assert float(series.x[0]) > 0  # the axis is logarithmic
        assert series.y[-1] == pytest.approx(fooled["zoo/plain", series.name])


def test_heat_maps_are_the_per_class_figures(document: Document, small_store: Store) -> None:
    chart = charts_of(document, "classes-map")["model: zoo/steady"]
    assert isinstance(chart, HeatChart)
    frame = small_store.frame()
    row = list(chart.y.categories or ()).index("fog-5")
    stored = frame[frame["model"].eq("zoo/steady") & frame["threat"].eq("fog-5") & frame["metric"].eq("IoU")]
    assert list(chart.x.categories or ()) == stored["class_name"].tolist()
    assert chart.values[row] == pytest.approx(stored["value"].tolist())


def test_many_classes_are_cut_and_it_says_so() -> None:
    store = fill_store(
        Store(), ["m"], [attack("pgd", 8, 20), corruption("fog", 3)], images=2, classes=[f"c{i}" for i in range(40)]
    )
    table = next(each for each in blocks_of(build_report(store), Table) if each.title.startswith("IoU per class"))
    assert len(table.columns) == 31
    assert table.caption.startswith("The 30 of 40 classes that lose most")


def test_every_evaluation_has_a_command_that_repeats_it(document: Document, small_store: Store) -> None:
    recipes = [recipe for block in blocks_of(document, Recipes) for recipe in block.items]
    keys = [dict(recipe.facts)["key"] for recipe in recipes]
    assert sorted(keys) == sorted(small_store.keys())
    recipe = next(each for each in recipes if each.title == "fog-5")
    words = shlex.split(recipe.command)
    options = dict(zip(words[2::2], words[3::2], strict=True))
    evaluation = small_store.load(dict(recipe.facts)["key"])
    assert evaluation is not None
    assert dict(recipe.facts)["digest of the images"] == evaluation.dataset_digest
    assert options["--model"] == evaluation.model
    assert (options["--dataset"], options["--split"], options["--limit"], options["--seed"]) == (
        "streets",
        "val",
        "8",
        "0",
    )
    assert options["--threat"] == '{"corruption": {"name": "fog", "severity": 5}}'


OF_CLEAN: dict[str, Any] = {
    "split": "",
    "kind": "clean",
    "description": {},
    "images": 4,
    "seed": 0,
    "all_figures": (),
}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (
            "gauntlet run -m script:net.pt --num-classes 11 --mean=0.5,0.5,0.5 --suite quick",
            ["script:net.pt", "11", "0.5,0.5,0.5"],
        ),
        ("gauntlet run -m onnx:boxes.onnx --class-names 'car,traffic light'", ["onnx:boxes.onnx", "car,traffic light"]),
    ],
)
def test_a_command_keeps_what_the_key_does_not_tell(run: str, expected: list[str]) -> None:
    from types import SimpleNamespace

    evaluation = SimpleNamespace(model="m", dataset="streets", provenance={"command": run}, **OF_CLEAN)
    words = shlex.split(command(evaluation, "results.db"))  # type: ignore[arg-type]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    kept = [options[name] for name in ("--model", "--num-classes", "--class-names", "--mean") if name in options]
    assert kept == expected


@pytest.mark.parametrize(
    "run",
    [
        "python -m gauntlet run --model a --model b --num-classes 11",
        "python train.py --model other",
        "gauntlet run 'unfinished",
    ],
)
def test_where_no_address_is_stored_no_command_is_made_up(run: str) -> None:
    from types import SimpleNamespace

    evaluation = SimpleNamespace(model="m", dataset="streets", provenance={"command": run}, **OF_CLEAN)
    said = command(evaluation, "results.db")  # type: ignore[arg-type]
    assert said.startswith("# no command repeats this, since none can name the model 'm', of which no address is")


def test_a_command_repeats_images_at_equal_distances() -> None:
    from types import SimpleNamespace

    origin = Origin(dataset={"name": "camvid", "root": "/data", "limit": 4, "spread": True})
    run = {FIELD: origin.as_dict()}
    evaluation = SimpleNamespace(model="streets/enet", dataset="d", provenance=run, **{**OF_CLEAN, "split": "test"})
    words = command(evaluation, "results.db")  # type: ignore[arg-type]
    assert "--dataset camvid --split test --spread --root /data --threat clean --limit 4" in words


def test_the_summary_says_whether_the_first_two_differ(document: Document) -> None:
    summary = document.parts[0].sections[0]
    bullets = next(block for block in summary.blocks if isinstance(block, Bullets))
    assert bullets.items[0].startswith("By mIoU under the worst corruption: "), bullets.items[0]
    assert "for 3 comparisons" in bullets.items[0]


def test_plotly_figures_have_their_traces_and_no_markup(document: Document) -> None:
    count = 0
    for panel in blocks_of(document, Panel):
        for chart in panel.charts.values():
            figure = plotly.figure(chart)
            assert figure["data"]
            assert figure["alt"]
            assert "<script" not in str(figure["data"]) + str(figure["layout"])
            count += 1
    assert count > 30


def test_hostile_names_are_kept_as_they_are(document: Document) -> None:
    board = next(each for each in blocks_of(document, Table) if each.id.startswith("leaderboard"))
    assert HOSTILE in [row[0] for row in board.rows]


def test_an_empty_store_is_one_sentence() -> None:
    with pytest.raises(GauntletError, match="holds no finished evaluation"):
        build_report(Store())


def test_a_store_without_counts_still_gives_a_report(two_models: Store) -> None:
    titles = [section.title for section in build_report(two_models).parts[0].sections]
    assert "Single images" not in titles
    assert titles[-1] == "How each figure was obtained"


def test_detection_and_missing_clean_figures_are_reported_as_far_as_they_go(tmp_path: Path) -> None:
    from gauntlet.report import write_report

    store = Store()
    for model, value in (("a", 0.3), ("b", 0.2)):
        job = Job("detection", model, model, DATASET, "fog-3", "corruption", FOG, 1, 0)
        started = store.begin(job, images=40, batch_size=4, metric={}, provenance={"started": "2026"})
        store.finish(started, [Figure("mAP", value), Figure("AP", value, class_name="car")])
    text = write_report(store, tmp_path / "report.md", format="md").read_text()
    assert "a has the highest figure and has 30.0 % under" in text
    assert "was not tested: no counts of the same images are kept" in text
    assert "No clean figure" in text
    assert "AP per class of a" in text
    write_report(store, tmp_path / "report.html")


def test_a_battery_on_a_detector_says_which_attack_was_chosen_by_f1() -> None:
    store = Store()
    job = Job("detection", "m", "m", DATASET, "b", "battery", {"battery": {"name": "b"}}, 1, 0)
    started = store.begin(job, images=40, batch_size=4, metric={}, provenance={"started": "2026"})
    shares = [Figure("chosen_by_F1", value, view=name) for name, value in (("bim", 0.25), ("pgd", 0.75))]
    store.finish(
        started, [Figure("mAP", 0.1), *shares, Figure("mAP", 0.2, view="bim"), Figure("mAP", 0.15, view="pgd")]
    )
    sections = {section.title: section for section in build_report(store).parts[0].sections}
    _, panel, table = sections["Batteries of attacks"].blocks
    assert isinstance(panel, Panel)
    (chart,) = panel.charts.values()
    assert chart.title == "Strongest attack of b per image, by F1"
    assert isinstance(chart, BarChart)
    assert [(series.name, list(series.x)) for series in chart.series] == [("bim", [0.25]), ("pgd", [0.75])]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["bim", "pgd", "worst case"]


def test_findings_given_from_outside_are_shown(two_models: Store) -> None:
    from gauntlet.report import Options

    given = Finding("warning", "a", "It hides its gradient.")
    sections: list[Section] = list(build_report(two_models, Options(findings=[given])).parts[0].sections)
    section = next(each for each in sections if each.title == "Honesty")
    assert given in next(block for block in section.blocks if isinstance(block, Findings)).items


def test_parts_of_one_split_have_titles_and_addresses_of_their_own() -> None:
    store = Store()
    put(store, "m", "clean", {"clean": {}}, images=40, mIoU=0.8)
    put(store, "m", "clean", {"clean": {}}, images=3, mIoU=0.7)
    parts = build_report(store).parts
    assert sorted(part.title for part in parts) == ["d/val, segmentation, 3 images", "d/val, segmentation, 40 images"]
    assert len({part.id for part in parts}) == 2
