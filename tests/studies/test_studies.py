"""Studies: jobs from templates, paired intervals, verdicts, pages, the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gauntlet.errors import GauntletError
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.report.tables import Interval
from gauntlet.results import Store
from gauntlet.studies import Claim, Study, run_study, studies
from gauntlet.studies.contract import Condition
from gauntlet.studies.correlation_rules import ENOUGH_MODELS
from gauntlet.studies.figures import interval, largest, mean_of, rank_correlation, smallest
from gauntlet.studies.page import study_page, verdict_table, write_page
from gauntlet.studies.printed import Printed
from gauntlet.studies.relations import FigureStudy
from gauntlet.studies.results import Results
from gauntlet.studies.running import study_jobs
from gauntlet.studies.verdicts import decide, judge, lacks, margin_words, printed_words
from program import Call

NETWORK = ModelEntry(address="python:nets:street_network", options={"num_classes": 11, "mean": [0.5] * 3})
SMALL = DatasetEntry(name="streets", options={"size": [32, 64], "length": 16})


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAUNTLET_CACHE", str(tmp_path / "cache"))


def little_study() -> Study:
    """A transfer between two members, and one claim that is true by construction."""
    transferred = {"transfer": {"source_model": "@half", "attack": {"name": "fgsm", "epsilon": "8/255"}}}
    return Study(
        name="little/table-1",
        title="Little",
        question="Is it?",
        setting="none",
        finding="It is.",
        members={"plain": "{model}", "half": "multiscale:scales=0.5:{model}"},
        threats={"clean": "clean", "fgsm from half": transferred},
        drawing=lambda results: [],
        claims=[
            Claim("An image is worth its own figure.", lambda results: results.miou("plain", "clean")),
            Claim("It is not.", lambda results: -results.miou("plain", "clean")),
            Claim("Two models differ.", lambda results: results.miou("plain", "clean"), models=2),
        ],
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAUNTLET_CACHE", str(tmp_path_factory.mktemp("cache")))
        return run_study(little_study(), [NETWORK], SMALL, Store(), prepare="off", batch_size=8)


def test_jobs_are_every_member_under_every_threat_with_sources_filled_in() -> None:
    jobs = study_jobs(little_study(), [NETWORK], SMALL)
    assert list(jobs) == [
        (NETWORK.address, member, threat) for member in ("plain", "half") for threat in ("clean", "fgsm from half")
    ]
    half = jobs[NETWORK.address, "half", "clean"].job
    crossed = jobs[NETWORK.address, "plain", "fgsm from half"].job
    assert crossed.description["transfer"]["source_digest"] == half.model_digest


def test_figures_are_those_of_the_evaluation_and_paired(stored: Results) -> None:
    evaluation = stored.evaluation("plain", "clean")
    assert stored.miou("plain", "clean")[0] == pytest.approx(evaluation.figures["mIoU"])
    assert stored.accuracy("plain", "clean")[0] == pytest.approx(evaluation.figures["aAcc"])
    assert stored.image_accuracy("plain", "clean")[0] == pytest.approx(evaluation.figures["aAcc_images"])
    attacked = stored.evaluation("plain", "fgsm from half").figures["mIoU"]
    assert stored.ratio("plain", "fgsm from half")[0] == pytest.approx(attacked / evaluation.figures["mIoU"])
    # The same images are left out of both, so a figure minus itself has no width.
    difference = interval(stored.miou("plain", "clean") - stored.miou("plain", "clean"))
    assert (difference.value, difference.low, difference.high) == (0, 0, 0)
    low, high = evaluation.intervals["mIoU"]
    assert interval(stored.miou("plain", "clean")).low == pytest.approx(low, abs=1e-9)
    assert interval(stored.miou("plain", "clean")).high == pytest.approx(high, abs=1e-9)


def test_mean_class_accuracy_is_that_of_the_evaluation(stored: Results) -> None:
    for threat in ("clean", "fgsm from half"):
        found = stored.class_accuracy("plain", threat)
        assert found[0] == pytest.approx(stored.evaluation("plain", threat).figures["mAcc"], abs=1e-12)
        assert found.shape == stored.miou("plain", threat).shape


def test_arrays_of_figures() -> None:
    first, second = np.array([1.0, 2.0]), np.array([3.0, 0.0])
    assert largest([first, second]).tolist() == [3, 2]
    assert smallest([first, second]).tolist() == [1, 0]
    assert mean_of([first, second]).tolist() == [2, 1]


def test_confidence_and_entropy_are_those_of_the_evaluation(stored: Results) -> None:
    evaluation = stored.evaluation("plain", "clean")
    for name in ("confidence", "entropy"):
        assert stored.certainty(name, "plain", "clean")[0] == pytest.approx(evaluation.figures[name])


def test_rank_correlation_is_spearmans_of_figures_drawn_from_their_intervals() -> None:
    changes = np.tile([0.01, -0.01], 8)
    first = [np.append(1.0, 1 + changes), np.append(2.0, 2 - changes), np.append(3.0, 3 + changes)]
    second = [np.array([10.0]), np.array([20.0]), np.array([20.0])]  # figures without images
    found = rank_correlation(first, second)
    # Ranks 0 1 2 against 0 1.5 1.5: 1.5 / sqrt(2 * 1.5).
    assert found[0] == pytest.approx(1.5 / 3**0.5)
    # The first and the third rise together, the second falls: it is sometimes below the first, seldom above the third.
    assert (found[1:] > 0.8).mean() > 0.95
    wide = rank_correlation([each[0] + 50 * (each - each[0]) for each in first], second)
    assert (wide[1:] < 0.8).mean() > 0.2
    assert interval(wide - 0.5).low < interval(wide - 0.5).value
    assert np.isnan(rank_correlation(first[:2], second[:2])).all()


def test_an_interval_of_a_correlation_over_models_draws_models_too() -> None:
    # The same without any of the images: their interval has no width, that over models has.
    values = [np.full(17, value) for value in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
    others = [values[place] for place in (1, 0, 3, 2, 5, 4)]
    fixed, drawn = (interval(rank_correlation(values, others, redraw=redraw)) for redraw in (False, True))
    assert fixed.value == pytest.approx(29 / 35)
    assert fixed.low == fixed.high == fixed.value
    assert drawn.value == fixed.value
    assert drawn.low < fixed.value < drawn.high


def test_another_threat_or_none_in_one_cell() -> None:
    plain = {"attack": {"name": "fgsm", "epsilon": "4/255"}}
    study = replace(little_study(), exceptions={("plain", "fgsm from half"): plain, ("half", "fgsm from half"): None})
    jobs = study_jobs(study, [NETWORK], SMALL)
    assert ("half", "fgsm from half") not in {cell[1:] for cell in jobs}
    assert jobs[NETWORK.address, "plain", "fgsm from half"].job.kind == "attack"


def test_a_second_model_takes_its_place_and_is_refused_where_there_is_none() -> None:
    mixed = replace(
        little_study(), members={"half": "ensemble:gamma=0.5:[{model}]+[{second}]"}, second_model="streets/enet"
    )
    mixed = replace(mixed, threats={"clean": "clean"})
    names = [
        study_jobs(mixed, ["streets/pspnet"], "streets", second_model=second)[
            "streets/pspnet", "half", "clean"
        ].job.model
        for second in ("", "streets/segformer")
    ]
    assert ["enet" in name for name in names] == [True, False]
    assert "segformer" in names[1]
    with pytest.raises(GauntletError, match="takes no second model"):
        study_jobs(little_study(), [NETWORK], SMALL, second_model="streets/enet")


def test_verdicts(stored: Results) -> None:
    verdicts = judge(little_study(), stored)
    assert [each.verdict for each in verdicts] == [
        "reproduces",
        "does not reproduce",
        "cannot be told with 1 of 2 models",
    ]
    assert decide(Interval(0.1, -0.1, 0.2), 16) == "cannot be told with 16 images"
    assert decide(Interval(0.1, 0.05, 0.2), 15) == "cannot be told with 15 images"
    assert decide(Interval(0.1, 0.05, 0.2), 16) == "reproduces"


def test_a_letter_is_a_part_and_a_page_has_the_name_that_was_asked_for(call: Call) -> None:
    for item, threats in (("spatial/figure-5a", 3), ("spatial/figure-4b", 11), ("arnab/table-10", 9)):
        network = ("--model", "python:nets:street_network", "--num-classes", "11")
        arguments = (*network, "--limit", "1", "--store", ":memory:", "--dry-run", "--json")
        code, out, err = call("study", "run", item, *arguments)
        assert code == 0, err
        assert out.count('"threat"') == threats, out
    named = studies["halmosi/figure-8"].named("halmosi/figure-8")
    assert named.name == "halmosi/figure-8"
    assert named.setting.startswith("Figure 8: PSPNet and DeepLabv3 on PASCAL VOC. ")
    assert studies["spatial/figure-9"].named("spatial/figure-9") is studies["spatial/figure-9"]


def test_a_condition_that_is_not_met_leaves_the_margin_and_no_verdict(stored: Results) -> None:
    conditions = [
        Condition("luck", lambda figures: ""),
        Condition("courage", lambda figures: "a coward"),
        Condition("time", lambda figures: "too late"),
    ]
    claim = Claim("It is.", lambda results: np.ones(3), conditions=conditions)
    study = replace(little_study(), claims=[claim])
    (verdict,) = judge(study, stored)
    assert (verdict.verdict, verdict.margin.value) == ("cannot be told: a coward; too late", 1)
    assert verdict_table(study, stored).caption.endswith("Rules of ours besides: luck; courage; time.")


def test_a_correlation_over_models_is_judged_of_six_and_printed_as_rho() -> None:
    claim = studies["arnab/figure-4"].claims[0]
    for models, verdict in ((4, "4 models, 6 at least"), (5, "5 models, 6 at least"), (6, "")):
        ratios = {(f"model {n}", "network", "fgsm 8/255"): 0.1 * n for n in range(models)}
        mious = {(f"model {n}", "network", "clean"): 0.2 * n for n in range(models)}
        figures = Printed("by hand", mious, ratios)
        assert lacks(claim, figures) == verdict
        words = f"cannot be judged: {verdict}" if verdict else "holds (+1.00 of rho)"
        assert printed_words(claim, figures) == words
    assert margin_words(claim, Interval(0.8, 0.2, 0.9)) == "+0.80 (+0.20 to +0.90) of rho"
    assert margin_words(claim, Interval(float("nan"))) == "-"


def test_every_claim_about_a_correlation_over_models_takes_six() -> None:
    rho = [
        (name, claim)
        for name in studies.names()
        for claim in getattr(studies[name], "claims", ())
        if claim.unit == "rho"
    ]
    assert {name for name, claim in rho if claim.models == 1} == {"arnab/figure-24", "arnab/figure-25"}  # over fields
    for name, claim in rho:
        assert (ENOUGH_MODELS in claim.conditions) == (claim.models > 1), name
        assert "Spearman's rho" in claim.text
    named = {
        claim.text for name in studies.names() for claim in getattr(studies[name], "claims", ()) if "rho" in claim.text
    }
    assert named == {claim.text for _, claim in rho}


def test_a_network_that_cannot_be_judged_counts_on_neither_side() -> None:
    floor = Condition("more than 0", lambda figures: "at the floor" if figures.miou("plain", "clean")[0] == 0 else "")
    claim = Claim("More than a half.", lambda figures: figures.miou("plain", "clean") - 0.5, conditions=[floor])
    values = {"a": 0.0, "b": 0.4, "c": 0.6, "d": 0.7}
    figures = Printed("by hand", {(model, "plain", "clean"): value for model, value in values.items()})
    assert printed_words(claim, figures) == "holds for 2 of 3 networks, 1 cannot be judged"
    nothing = Printed("by hand", {("a", "plain", "clean"): 0.0})
    assert printed_words(claim, nothing) == "cannot be judged: at the floor"


@pytest.mark.parametrize(("dataset", "expected"), [("streets", "here"), ("voc2012", "elsewhere")])
def test_claims_about_one_dataset_are_asked_there(stored: Results, dataset: str, expected: str) -> None:
    claims = [
        Claim("here", lambda results: np.ones(3), on=lambda name: name == "streets"),
        Claim("elsewhere", lambda results: np.ones(3), on=lambda name: name != "streets"),
    ]
    evaluations = {cell: replace(each, dataset=dataset) for cell, each in stored.evaluations.items()}
    verdicts = judge(replace(little_study(), claims=claims), replace(stored, evaluations=evaluations))
    assert [each.claim.text for each in verdicts] == [expected]


def test_the_page_says_what_was_found_here_and_there(stored: Results, tmp_path: Path) -> None:
    study = little_study()
    paths = write_page(study, study_page(study, stored, "gauntlet study run little/table-1"), tmp_path)
    assert [path.name for path in paths] == ["little-table-1.md", "little-table-1.html"]
    text = paths[0].read_text()
    for wanted in ("It is.", "does not reproduce", "16 images", "gauntlet study run little/table-1"):
        assert wanted in text


def test_every_study_is_complete_and_its_aliases_lead_to_it() -> None:
    assert "arnab/table-1" in studies.names()
    for name in studies.names():
        study = studies[name]
        assert study.question.endswith("?")
        assert all(studies[other] is study for other in study.also)
        if isinstance(study, Study):
            assert study.finding
            assert study.setting
            assert study.claims or study.kind in ("list", "picture")
        if isinstance(study, FigureStudy) and study.kind == "relate":
            claimed: list[Any] = [
                *(pair.claim for pair in study.pairs),
                *(group.first for group in study.groups),
                *study.cases,
            ]
            claimed += [lines.enough for lines in study.lines]
            assert any(claimed) is not study.finding.startswith("No claim"), study.name


@pytest.mark.parametrize("name", ["arnab/table-1", "arnab/table-2", "arnab/figure-9", "spatial/figure-11"])
def test_the_plans_of_studies_can_be_made(name: str) -> None:
    jobs = study_jobs(studies[name], ["streets/enet"], "streets")
    assert len(jobs) == len(studies[name].members) * len(studies[name].threats)


def test_a_study_draws_and_judges_from_real_runs() -> None:
    data = DatasetEntry(name="streets", options={"size": [32, 64], "length": 2})
    study = studies["arnab/table-1"]
    results = run_study(study, [NETWORK], data, Store(), prepare="off", batch_size=2)
    assert study.drawing is not None
    blocks = study.drawing(results.of(NETWORK.address))
    assert len(blocks) == 5
    assert all("cannot be told with 2 images" in each.verdict for each in judge(study, results))


def test_a_part_of_a_study() -> None:
    study, data = little_study(), DatasetEntry(name="streets", options={"size": [32, 64], "length": 2})
    cells = [cell[1:] for cell in study_jobs(study, [NETWORK], SMALL, only=["half", "fgsm*"])]
    assert cells == [("half", "clean"), ("half", "fgsm from half")]
    with pytest.raises(GauntletError, match="unknown part of the study little/table-1 'third'"):
        study_jobs(study, [NETWORK], SMALL, only=["third"])
    results = run_study(study, [NETWORK], data, Store(), prepare="off", batch_size=2, only=["half", "clean"])
    assert list(results.evaluations) == [(NETWORK.address, "half", "clean")]
    for figure in (results.miou, results.ratio, results.accuracy, results.image_accuracy, results.nmiou):
        assert np.isnan(figure("plain", "clean")).all()
        assert figure("plain", "clean").shape == results.miou("half", "clean").shape
    assert judge(study, results)[0].verdict == "cannot be told: a figure is missing"
    (section,) = [each for each in study_page(study, results, "x").parts[0].sections if each.id == "made"]
    assert "Left out: plain, fgsm from half." in section.blocks[1].text  # type: ignore[union-attr]


def test_too_few_models_are_told() -> None:
    with pytest.raises(GauntletError, match="needs 3 at least, not 1"):
        study_jobs(replace(little_study(), least_models=3), [NETWORK], SMALL)


@pytest.mark.slow
def test_the_command_lists_and_runs(call: Call) -> None:
    code, out, _ = call("study", "list", "spatial")
    listed = [line.split(",")[0].split()[0] for line in out.splitlines()]
    assert code == 0
    assert listed.index("spatial/figure-9") < listed.index("spatial/figure-11") < listed.index("spatial/table-1")
    code, _, err = call("study", "run", "arnab/table-99", "--model", "streets/enet")
    assert (code, "unknown study 'arnab/table-99'" in err) == (2, True)
    code, _, err = call("study", "run", "arnab/table-1")
    assert (code, "say which models" in err) == (2, True)
    code, out, err = call(
        "study", "run", "arnab/figure-16", "--model", "streets/enet", "--limit", "1", "--workers", "1", "--json"
    )
    assert code == 0, err
    written = json.loads(out)
    assert "cannot be told with 1 images" in written["verdicts"][0]["verdict"]
    assert all(Path(path).is_file() for path in written["written"])
