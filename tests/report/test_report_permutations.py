"""Reports, leaderboards, cards and sites follow from the results: not from the order or the time of the runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_store import DATASET, image_counts

from gauntlet.analysis import leaderboard
from gauntlet.analysis.scoring.ranking import by_preference, deciding_score, place
from gauntlet.metrics import WHOLE, Figure, SegmentationMetric
from gauntlet.metrics.segmentation.counts import ImageCounts
from gauntlet.report.assembly import Options, build_part
from gauntlet.report.document import Bullets, of_type
from gauntlet.report.pages import leaderboard_site, model_card
from gauntlet.report.pages.entries import leaderboard_tables, store_entries
from gauntlet.report.render.html import asset
from gauntlet.report.scope import scopes
from gauntlet.report.scope_ranking import Ranking
from gauntlet.report.sections.summary import verdict
from gauntlet.report.write import write_report
from gauntlet.results import Job, Store
from gauntlet.results.record import ImageRow

OPTIONS: dict[str, Any] = {"class_names": ["road", "car"], "ignore_index": 255, "background_index": None}
TIMES = re.compile(rb"\d{4}-\d\d-\d\dT[\d:+]+|on \d\d \w+ \d{4}(, \d\d:\d\d UTC)?")
REM = ("pgd", "segpgd", "cospgd")


@dataclass(frozen=True)
class Run:
    """One evaluation: of a model under a threat, with the share of right pixels."""

    model: str
    threat: str
    description: dict[str, Any]
    right: float
    seed: int = 0
    protocol: str = ""
    precision: str = "fp32"


def attack(model: str, name: str, grey: int, right: float) -> Run:
    options = {"name": name, "norm": "linf", "epsilon": grey / 255, "alpha": 0.01, "steps": 20}
    return Run(model, f"{name} linf {grey}/255 x20", {"attack": options}, right)


def fog(model: str, right: float, **other: Any) -> Run:
    return Run(model, "fog-3", {"corruption": {"name": "fog", "severity": 3}}, right, **other)


def jpeg(model: str, right: float) -> Run:
    return Run(model, "jpeg_compression-3", {"corruption": {"name": "jpeg_compression", "severity": 3}}, right)


def budgets() -> list[Run]:
    """Three models of which others are best at 1/255 and at 8/255."""
    at = {1: {"a": 0.6, "b": 0.5, "c": 0.4}, 8: {"a": 0.1, "b": 0.2, "c": 0.3}}
    attacks = [
        attack(model, name, grey, right - 0.01 * number)
        for grey, of_models in at.items()
        for number, name in enumerate(REM)
        for model, right in of_models.items()
    ]
    return [*(Run(model, "clean", {"clean": {}}, 0.9) for model in "abc"), *attacks]


MIXED = [
    *budgets(),
    fog("a", 0.5),  # a tie with jpeg
    jpeg("a", 0.5),
    fog("b", 0.45),
    fog("a", 0.42, seed=1),
    fog("b", 0.44, precision="bf16"),
    fog("b", 0.7, protocol="half size"),
    Run("b", "clean", {"clean": {}}, 0.8, protocol="half size"),
]


@cache
def counted(right: float) -> tuple[list[ImageRow], list[Figure]]:
    """Counts of four images of which a share of the pixels is right, and their figures."""
    metric, own = SegmentationMetric(**OPTIONS), np.random.default_rng(0)
    counts = [image_counts(np.full(2, right), np.array([600, 400]), own, "all") for _ in range(4)]
    rows = [ImageRow(n, str(n), ImageCounts.stack([each]).to_bytes(), {}) for n, each in enumerate(counts)]
    return rows, list(metric.compute((metric.decode(row.counts) for row in rows), WHOLE))


def stored(runs: Sequence[Run], times: Sequence[int]) -> Store:
    """A store into which evaluations were put in an order, each begun at a time of its own."""
    store = Store()
    for run, time in zip(runs, times, strict=True):
        identity = {**DATASET, "length": 4, "protocol": {"name": run.protocol} if run.protocol else {}}
        kind = next(iter(run.description))
        changed = {} if run.precision == "fp32" else {"precision": run.precision}
        job = Job("segmentation", run.model, "0", identity, run.threat, kind, run.description, 1, run.seed, changed)
        provenance = {"started": f"2026-01-01T00:00:{time:02d}+00:00", "precision": run.precision}
        started = store.begin(job, images=4, batch_size=4, metric=OPTIONS, provenance=provenance)
        rows, figures = counted(run.right)
        store.add_images(started, rows, WHOLE, seconds=1.0)
        store.finish(started, figures)
    return store


def shown(store: Store, folder: Path) -> dict[str, bytes]:
    """Every page over a store, without the times in it."""
    frame = store.frame()
    pages = {
        "report": write_report(store, folder / "report.html").read_bytes(),
        "markdown": write_report(store, folder / "report.md", format="md").read_bytes(),
        "board": leaderboard(frame).to_csv(index=False).encode(),
        "tables": repr(leaderboard_tables(store_entries(frame))).encode(),
        "card": model_card.write_card(store, "b", folder / "card.md")[0].read_bytes(),
        "card data": (folder / "card.json").read_bytes(),
    }
    site = leaderboard_site.write_site(
        store_entries(frame), folder / "site", defended=leaderboard_site.defended_parts(frame)
    )
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".js") and "plotly" not in path.name:
            pages[str(path.relative_to(site))] = path.read_bytes()
    return {name: TIMES.sub(b"TIME", content) for name, content in pages.items()}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return shown(stored(MIXED, range(len(MIXED))), tmp_path_factory.mktemp("reference"))


@pytest.mark.slow
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(MIXED))), times=st.permutations(range(len(MIXED))))
def test_every_page_is_the_same_for_every_order_of_runs(
    order: list[int], times: list[int], reference: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    actual = shown(stored([MIXED[index] for index in order], times), tmp_path_factory.mktemp("permuted"))
    assert [name for name in reference if actual[name] != reference[name]] == []
    assert set(actual) == set(reference)


def test_leaderboards_of_a_store_filled_backwards_are_the_same() -> None:
    frames = [stored(runs, range(len(runs))).frame() for runs in (MIXED, MIXED[::-1])]
    boards = [leaderboard(frame).to_csv(index=False) for frame in frames]
    tables = [repr(leaderboard_tables(store_entries(frame))) for frame in frames]
    assert boards[0] == boards[1]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("first", [1, 8])
def test_the_budget_of_the_suite_ranks_whichever_was_run_first(first: int) -> None:
    runs = sorted(budgets(), key=lambda run: f" {first}/255" not in run.threat)
    store = stored(runs, range(len(runs)))
    (scope,) = scopes(store.frame())
    ranking = Ranking(scope)
    assert (ranking.criterion, ranking.models) == ("linf-ReM^8_20", ["c", "b", "a"])
    (board,) = leaderboard_tables(store_entries(store.frame()))
    assert board.caption == "mIoU in per cent, ranked by linf-ReM^8_20."
    assert {"linf-ReM^8_20", "linf-ReM^1_20"} <= {column.name for column in board.columns}
    assert list(leaderboard(store.frame())["model"]) == ["c", "b", "a"]


def of(names: Sequence[str]) -> dict[str, float]:
    return dict.fromkeys(names, 0.5)


BOARDS: list[tuple[list[list[str]], str]] = [
    ([["clean", "linf-ReM^2_20", "linf-ReM^4_20"]] * 2, "linf-ReM^4_20"),  # no suite: the largest
    ([["linf-ReM^2_20", "linf-ReM^4_20"], ["linf-ReM^2_20"], ["linf-ReM^2_20"]], "linf-ReM^2_20"),  # shared
    ([["linf-ReM^16_20", "linf-ReM^8_20"]] * 2, "linf-ReM^8_20"),  # the suite's
    ([["l2-ReM^64_20", "linf-ReM^8_20"]] * 2, "linf-ReM^8_20"),
    ([["GAM_5", "GAM_3", "GAM_1"]] * 2, "GAM_3"),
    ([["GAM_5", "GAM_3", "GAM_1"], ["GAM_5", "GAM_1"]], "GAM_5"),
    ([["GAM_3", "worst corruption"], ["worst corruption"]], "worst corruption"),  # a suite that was stopped
    ([["GAM_3", "worst attack"], ["GAM_3", "worst attack"], ["worst attack"], ["clean"]], "GAM_3"),  # one stray run
    ([["clean", "worst attack"], ["clean"]], "clean"),
    ([[], []], "clean"),
]
"""The scores of some models, and which of them ranks."""


@pytest.mark.parametrize(("models", "expected"), BOARDS)
def test_the_score_that_ranks_is_the_suites_else_the_largest_shared_one(models: list[list[str]], expected: str) -> None:
    for order in (models, models[::-1], [own[::-1] for own in models]):
        assert deciding_score([of(names) for names in order]) == expected


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_site_chooses_the_same_score() -> None:
    source = asset("site.js")
    function = source[source.index("function decidingScore") : source.index("let render")]
    names = by_preference({name for models, _ in BOARDS for own in models for name in own})
    site = {"default_scores": names, "score_places": {name: place(name) for name in names}}
    boards = [[{"scores": {"mIoU": of(own)}} for own in models] for models, _ in BOARDS if any(models)]
    called = "boards.map((b) => decidingScore(b, 'mIoU', [...new Set(b.flatMap((e) => Object.keys(e.scores.mIoU)))]))"
    script = f"const site = {json.dumps(site)}; const boards = {json.dumps(boards)}; {function}"
    run = ["node", "-e", f"{script} console.log(JSON.stringify({called}));"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [expected for models, expected in BOARDS if any(models)]


def test_a_verdict_names_the_worst_of_what_was_run_on_the_model() -> None:
    """All models ran JPEG, one alone ran noise, under which nothing is left of it."""
    noise = Run("b", "gaussian_noise-3", {"corruption": {"name": "gaussian_noise", "severity": 3}}, 0.1)
    clean = [Run(model, "clean", {"clean": {}}, 0.9) for model in "ab"]
    runs = [*clean, jpeg("a", 0.8), jpeg("b", 0.85), noise]
    store = stored(runs, range(len(runs)))
    (scope,) = scopes(store.frame())
    ranking = Ranking(scope)
    assert ranking.criterion_words == "mIoU under the worst corruption that all were run under"
    assert ranking.models == ["b", "a"]  # compared by what both have
    assert "its worst corruption (gaussian_noise-3" in verdict(scope, ranking, "b").text
    (words,) = re.findall(
        r"its worst corruption \((\w+)",
        model_card.card_text(store, "b", model_card.card_data(store, "b")).replace("\\", ""),
    )
    assert words == "gaussian_noise"


def test_the_costliest_threat_names_how_many_models_it_rests_on() -> None:
    clean = [Run(model, "clean", {"clean": {}}, 0.9) for model in "abc"]
    runs = [*clean, *(fog(model, 0.7) for model in "abc"), jpeg("a", 0.3), jpeg("b", 0.2)]
    store = stored(runs, range(len(runs)))
    (scope,) = scopes(store.frame())
    (bullets,) = of_type(build_part(store, scope, Options()).sections[0], Bullets)
    (sentence,) = [each for each in bullets.items if each.startswith("The costliest")]
    assert "2 threats is jpeg_compression-3: the 2 of 3 models that were run under it lose on average" in sentence


def test_precisions_are_not_blended() -> None:
    store = stored(MIXED, range(len(MIXED)))
    names = {model for scope in scopes(store.frame()) for model in scope.models}
    assert {"b (fp32)", "b (bf16)"} <= names
    board = leaderboard(store.frame())
    assert sorted(board.loc[board["model"].eq("b"), "precision"]) == ["bf16", "fp32", "fp32"]


def test_a_card_keeps_its_times(tmp_path: Path) -> None:
    """Only the pages that compare say nothing of times: a record has them."""
    store = stored(budgets()[:1], [7])
    model_card.write_card(store, "a", tmp_path / "card.md")
    assert json.loads((tmp_path / "card.json").read_text())["results"][0]["created"] == "2026-01-01T00:00:07+00:00"
