"""Studies of figures: the rules of correlation, tables, pages from published figures and from a store."""

from __future__ import annotations

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dataset_trees import MakeTree
from gauntlet.datasets import load_dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation import evaluate
from gauntlet.models import load_model, wrap_model
from gauntlet.report.charts import Panel
from gauntlet.report.document import Text
from gauntlet.report.tables import Table
from gauntlet.results import open_store
from gauntlet.studies import correlation_rules as rules
from gauntlet.studies import studies
from gauntlet.studies.figure_tables import GAM, MEAN, dataset_table, detector_table, metric_table, score_table
from gauntlet.studies.relations import PUBLISHED, Case, FigureStudy, Groups, Lines, Pair, draw_figures
from program import Call
from tiny import tiny_network

Numbers = tuple[float, float, float]
"""A coefficient and its interval."""


def row(value: float, low: float, high: float, warning: str = "", n: int = 6) -> dict[Hashable, Any]:
    return {"n": n, "value": value, "low": low, "high": high, "warning": warning}


@pytest.mark.parametrize(
    ("judge", "holds", "fails"),
    [
        (rules.judge_very_strong, (0.95, 0.8, 0.99), (0.95, 0.6, 0.99)),
        (rules.judge_strong, (0.8, 0.6, 0.9), (0.8, 0.4, 0.9)),
        (rules.judge_not_strong, (0.5, 0.1, 0.69), (0.8, 0.71, 0.9)),
        (rules.judge_moderate, (0.5, 0.41, 0.69), (0.3, 0.1, 0.39)),
        (rules.judge_weak, (0.2, 0.1, 0.39), (0.5, 0.41, 0.7)),
        (rules.judge_weak, (0.2, 0.1, 0.39), (-0.5, -0.7, -0.1)),
        (rules.judge_not_correlated, (0.1, -0.5, 0.69), (0.8, 0.71, 0.9)),
        (rules.judge_not_correlated, (0.1, -0.5, 0.69), (-0.95, -0.99, -0.8)),
        (rules.judge_positive, (0.2, 0.1, 0.3), (0.2, -0.1, 0.4)),
    ],
)
def test_the_rules(judge: rules.Judge, holds: Numbers, fails: Numbers) -> None:
    assert judge(row(*holds)) == rules.YES
    assert judge(row(*fails)) == rules.NO
    assert judge(row(*holds, warning="floor")) == rules.OPEN
    assert judge(row(*holds, n=5)) == rules.OPEN
    assert judge in rules.WORDS


def test_the_adversarially_trained_models_are_listed_and_judged() -> None:
    table_3: FigureStudy = studies["semsegbench/table-3"]
    drawn = draw_figures(table_3, table_3.published(), PUBLISHED)
    helps, gap = drawn.judged
    assert (helps.evidence, helps.verdict) == ("2 of 2 models", rules.YES)  # SAT and DDC-AT; PIR-AT has no such attack
    assert (gap.evidence, gap.verdict) == ("3 of 3 models", rules.YES)  # 34.6 of 75.2 under SEA is the largest share
    (listing,) = drawn.sections[0].blocks
    assert isinstance(listing, Table)
    assert (drawn.sections[0].title, listing.title) == ("dataset not named", "4 models, dataset not named")
    assert [column.kind for column in listing.columns] == ["text"] + 12 * ["percent"]
    rows = {row[0]: dict(zip([column.name for column in listing.columns], row, strict=True)) for row in listing.rows}
    assert rows["Robust PSPNet DDC-AT"]["cospgd linf 8/255 x10 mAcc"] == pytest.approx(0.4102)
    assert "10 steps (SEA 100)" in table_3.setting


def test_claims_that_no_figures_speak_to_are_named() -> None:
    """Claim 41: sizes of detectors are not published."""
    fgsm: FigureStudy = studies["detecbench/figure-28"]
    open_claims = {
        each.claim: each.evidence
        for each in draw_figures(fgsm, fgsm.published(), PUBLISHED).judged
        if each.verdict == rules.OPEN
    }
    words = "parameters and pgd linf 8/255 x1: none, or not strong (App. O.2.1)"
    assert open_claims[words] == "no figures of parameters"


def test_metrics_agree_in_the_appendix_of_each_benchmark() -> None:
    for name, place in (("semsegbench/figure-8", "App. A.3"), ("detecbench/figure-13", "App. B.3")):
        assert {pair.place for pair in studies[name].pairs} == {place}


@pytest.mark.parametrize(
    ("judge", "straddling"),
    [
        (rules.judge_not_strong, [(0.6, 0.1, 0.8), (0.75, 0.5, 0.9), (0.3, -0.1, 0.6)]),
        (rules.judge_moderate, [(0.4, -0.01, 0.71), (0.39, -0.01, 0.71), (0.5, 0.1, 0.6), (0.6, 0.5, 0.8)]),
        (rules.judge_weak, [(0.4, -0.01, 0.71), (0.39, -0.01, 0.71), (0.3, 0.1, 0.41), (0.3, -0.1, 0.35)]),
        (rules.judge_not_correlated, [(0.5, -0.1, 0.8), (0.75, 0.4, 0.9)]),
    ],
)
def test_a_word_that_another_draw_of_models_would_change_cannot_be_judged(
    judge: rules.Judge, straddling: list[Numbers]
) -> None:
    assert {judge(row(*each)) for each in straddling} == {rules.OPEN}


def figures(values: dict[str, list[float]], **columns: list[str]) -> pd.DataFrame:
    """Tidy clean figures of models a, b, c, ... on one dataset, by metric."""
    rows = []
    for metric, numbers in values.items():
        for index, value in enumerate(numbers):
            facts = {name: texts[index] for name, texts in columns.items()}
            rows.append(
                {"task": "segmentation", "model": "abcdefgh"[index], "dataset": "d", "split": "", "view": "all"}
                | {"threat": "clean", "kind": "clean", "description": '{"clean": {}}', "class_name": ""}
                | {"metric": metric, "value": value, **facts}
            )
    return pd.DataFrame(rows)


def study(**settings: Any) -> FigureStudy:
    texts: dict[str, Any] = {"name": "little/figure-1", "title": "Little", "question": "Is it?", "finding": "It is."}
    return FigureStudy(**texts, published=pd.DataFrame, **settings)


def test_pairs_are_correlated_and_judged() -> None:
    frame = figures({"mIoU": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "mAcc": [0.2, 0.3, 0.5, 0.6, 0.9, 0.95]})
    pair = Pair("clean mIoU", "clean mAcc", rules.judge_very_strong, "Sec. 1")
    drawn = draw_figures(study(table=metric_table, pairs=[pair, Pair("clean mIoU", "clean aAcc")]), frame, "here")
    assert [each.verdict for each in drawn.judged] == ["confirmed"]
    assert drawn.judged[0].claim == "d: clean mIoU and clean mAcc: very strong (Sec. 1)"
    assert [section.title for section in drawn.sections] == ["d", "What is not there"]


def test_three_models_in_one_order_prove_nothing() -> None:
    frame = figures({"mIoU": [0.1, 0.2, 0.3], "mAcc": [0.2, 0.3, 0.5]})
    pair = Pair("clean mIoU", "clean mAcc", rules.judge_very_strong)
    judged = draw_figures(study(table=metric_table, pairs=[pair]), frame, "here").judged[0]
    assert (judged.evidence, judged.verdict) == ("1.00, 3 models", "cannot be judged")


def test_the_weather_of_a_store_is_named_by_its_condition(make_tree: MakeTree) -> None:
    model = wrap_model(tiny_network(19), num_classes=19, name="net")
    with open_store() as store:
        acdc, cityscapes = make_tree("acdc"), make_tree("cityscapes")
        evaluate(model, load_dataset("cityscapes", root=cityscapes), "clean", store=store)
        conditions: dict[str, dict[str, Any]] = {
            "all": {},
            "fog": {"condition": "fog"},
            "all train": {"split": "train"},
        }
        values = {
            name: evaluate(model, load_dataset("acdc", root=acdc, **options), "clean", store=store).figures["mIoU"]
            for name, options in conditions.items()
        }
        table = score_table(store.frame(facts=True)).set_index("dataset")
    for name, value in values.items():
        assert table.loc["cityscapes", f"acdc {name}"] == pytest.approx(value)


def test_one_dataset_keeps_its_real_weather() -> None:
    frame = figures({"mIoU": [0.1, 0.2, 0.3]}).assign(dataset="cityscapes", split="val", condition="")
    weather = figures({"mIoU": [0.2, 0.3, 0.5]}).assign(dataset="acdc", split="val", condition="all")
    other = figures({"mIoU": [0.2, 0.3, 0.5]}).assign(dataset="voc")
    every = pd.concat([frame, weather, other], ignore_index=True)
    drawn = draw_figures(study(pairs=[Pair("clean", "acdc all"), Pair("clean", GAM)]), every, "here", "cityscapes")
    assert [section.title for section in drawn.sections] == ["cityscapes", "What is not there"]
    assert drawn.sections[-1].blocks == [Text("Without figures on cityscapes: GAM_3.")]


def test_attacks_of_detecbench_are_known_by_their_settings() -> None:
    frame = figures({"mIoU": [0.6, 0.5]})
    settings = {"norm": "linf", "epsilon": 8 / 255, "alpha": 0.01, "random_start": False, "target": None}
    for threat, attack, values in (
        ("fgsm linf 8/255 x1 alpha 0.01", {"name": "fgsm", "steps": 1}, (0.3, 0.2)),
        ("fgsm linf 8/255 x1", {"name": "fgsm", "steps": 1, "alpha": 8 / 255}, (0.1, 0.1)),
        ("pgd linf 8/255 x20 random_start False", {"name": "pgd", "steps": 20}, (0.05, 0.04)),
    ):
        more = figures({"mIoU": list(values)}).assign(threat=threat, kind="attack")
        more["description"] = json.dumps({"attack": {**settings, **attack}})
        frame = pd.concat([frame, more], ignore_index=True)
    table = detector_table(frame)
    assert list(table["fgsm linf 8/255 x1"]) == [0.3, 0.2]
    assert list(table["pgd linf 8/255 x20"]) == [0.05, 0.04]


def test_groups_are_compared() -> None:
    kinds = ["convolution"] * 4 + ["transformer"] * 4
    frame = figures({"mIoU": [0.1, 0.11, 0.12, 0.09, 0.5, 0.51, 0.52, 0.49]}, backbone_type=kinds)
    groups = Groups("backbone_type", ("clean",), "convolution", "transformer")
    drawn = draw_figures(study(groups=[groups]), frame, "here")
    assert (drawn.judged[0].verdict, drawn.judged[0].evidence[:12]) == ("confirmed", "+40.0 points")


def test_what_is_said_of_every_model_and_of_no_group() -> None:
    kinds = ["dense"] * 4 + ["sparse"] * 4
    frame = figures({"mIoU": [0.1, 0.11, 0.12, 0.13, 0.5, 0.51, 0.52, 0.49]}, proposal_type=kinds)
    cases = [Case("it is above a tenth", ("clean",), lambda rows: rows["clean"] > 0.1)]
    groups = [Groups("proposal_type", ("clean",), "dense", "sparse", better=False)]
    drawn = draw_figures(study(groups=groups, cases=cases), frame, "here")
    assert [(each.claim, each.verdict) for each in drawn.judged] == [
        ("d: clean is not better for sparse than for dense", "not confirmed"),
        ("d: it is above a tenth", "not confirmed"),
    ]
    assert drawn.judged[1].evidence == "7 of 8 models"


def test_three_models_against_three_cannot_be_told_apart() -> None:
    """Two of the twenty ways to form the groups are as extreme: p is 0.1 at best, whatever the resamples say."""
    kinds = ["convolution"] * 3 + ["transformer"] * 3
    frame = figures({"mIoU": [0.1, 0.11, 0.12, 0.5, 0.51, 0.52]}, backbone_type=kinds)
    groups = Groups("backbone_type", ("clean",), "convolution", "transformer")
    (judged,) = draw_figures(study(groups=[groups]), frame, "here").judged
    assert (judged.verdict, judged.evidence) == (rules.OPEN, "3 and 3 models, too few for a test")


def test_internimage_is_judged_as_the_paper_counts_it() -> None:
    made = studies["semsegbench/figure-2b"]
    judged = {each.claim: each for each in draw_figures(made, made.published(), "published").judged}
    found = judged["ade20k: GAM_3 is better for transformer than for convolution"]
    assert (found.evidence.split()[0], found.verdict) == ("+8.5", "confirmed")


def test_lines_over_a_number_and_where_they_settle() -> None:
    lines = Lines("BIM", "iterations", {0: "clean", 10: "bim linf 8/255 x10", 20: "bim linf 8/255 x20"}, enough=10)
    frame = figures({"mIoU": [0.6, 0.5]})
    for steps, values in ((10, (0.1, 0.2)), (20, (0.06, 0.1))):
        attack = {"name": "bim", "norm": "linf", "epsilon": 8 / 255, "steps": steps}
        more = figures({"mIoU": list(values)})
        more = more.assign(threat=f"bim linf 8/255 x{steps}", kind="attack", description=json.dumps({"attack": attack}))
        frame = pd.concat([frame, more], ignore_index=True)
    drawn = draw_figures(study(lines=[lines], least_models=1), frame, "here")
    # Of the falls 0.54 and 0.4 the first 0.5 and 0.3 are behind after ten steps.
    assert drawn.judged[0].evidence == "1 of 2 models, smallest 75%"
    assert drawn.judged[0].verdict == "not confirmed"
    panel, table = drawn.sections[0].blocks
    assert isinstance(panel, Panel)
    assert isinstance(table, Table)
    assert table.rows[0] == ["a", 0.6, 0.1, 0.06]


def test_too_few_models_or_figures_are_told() -> None:
    with pytest.raises(GauntletError, match="'little/figure-1' needs: 3 models with GAM_3"):
        draw_figures(study(pairs=[Pair("clean", GAM)]), figures({"mIoU": [0.1, 0.2, 0.3]}), "here")


def test_tables_of_the_published_figures() -> None:
    frame = studies["semsegbench/figure-6"].published()
    table = dataset_table(frame)
    both = table[["clean cityscapes", "clean ade20k"]].dropna()
    assert len(both) >= 5
    cityscapes = frame[frame["dataset"].eq("cityscapes")]
    assert {"acdc all", "fog 3", MEAN, "gap", "parameters"} <= set(score_table(cityscapes))


def test_what_the_figures_say_of_real_weather() -> None:
    made = studies["semsegbench/figure-4"]
    judged = draw_figures(made, made.published(), "published").judged
    words = {each.claim.split(": ", 1)[1].partition(" (")[0]: each.verdict for each in judged}
    assert words["mean of corruptions and ACDC: very strong"] == "confirmed"
    assert words["snow 3 and ACDC: strong"] == "confirmed"
    assert words["fog 3 and ACDC: weak"] == "not confirmed"


def test_the_command_draws_published_figures(call: Call, tmp_path: Path) -> None:
    code, out, err = call("study", "run", "semsegbench/figure-5", "--published", "--json", "-o", str(tmp_path))
    assert code == 0, err
    written = json.loads(out)
    assert written["verdicts"][0]["verdict"] == "confirmed"
    assert "published figures" in Path(written["written"][0]).read_text()
    code, _, err = call("study", "run", "spatial/figure-11", "--published")
    assert (code, "nothing is published" in err) == (2, True)
    code, out, err = call("study", "run", "arnab/table-1", "--published", "-o", str(tmp_path))
    assert code == 0, err
    assert "Published figures" in (tmp_path / "arnab-table-1.md").read_text()
    assert "holds" in out
    code, _, err = call("study", "run", "arnab/table-1", "--published", "--dataset", "streets")
    assert (code, "leave out --model and --dataset" in " ".join(err.split())) == (2, True)
    for item in ("semsegbench/figure-5", "arnab/table-1"):
        code, out, err = call("study", "run", item, "--published", "--dry-run", "-o", str(tmp_path / "none"))
        assert (code, f"no evaluation would run for the study '{item}'" in " ".join(err.split())) == (0, True)
    assert not (tmp_path / "none").exists()


def test_the_command_draws_figures_of_a_store(call: Call, tmp_path: Path) -> None:
    with open_store(tmp_path / "own.db") as store:
        for index in range(3):
            model = load_model("python:nets:street_network", num_classes=11, mean=(0.5,) * 3, name=f"net-{index}")
            evaluate(model, "streets", "clean", limit=1, store=store)
    arguments = ("--store", str(tmp_path / "own.db"), "-o", str(tmp_path), "--json")
    code, out, err = call("study", "run", "semsegbench/table-2", *arguments)
    assert code == 0, err
    page = Path(json.loads(out)["written"][0]).read_text()
    assert "net-2" in page
    assert "parameters" in page  # a fact of the model, from the store
    code, _, err = call("study", "run", "semsegbench/figure-4", *arguments)
    assert (code, "needs: 3 models with" in " ".join(err.split())) == (2, True)


def test_groups_of_one_model_are_not_judged() -> None:
    frame = figures({"mIoU": [0.1, 0.5, 0.9]}, proposal_type=["dense", "two-stage", "sparse"])
    groups = [Groups("proposal_type", ("clean",), "dense", "sparse", better=better) for better in (True, False)]
    judged = draw_figures(study(groups=groups), frame, "here").judged
    assert [each.verdict for each in judged] == [rules.OPEN, rules.OPEN]
    assert {each.evidence for each in judged} == {"1 and 1 models, too few for a test"}


@pytest.mark.parametrize(
    ("low", "high", "better", "not_better"),
    [(0.1, 0.2, rules.YES, rules.NO), (-0.2, -0.1, rules.NO, rules.YES), (-0.1, 0.1, rules.NO, rules.OPEN)],
)
def test_a_difference_of_groups_is_judged_by_its_interval(
    low: float, high: float, better: str, not_better: str
) -> None:
    assert rules.judge_difference(low, high) == better
    assert rules.judge_difference(low, high, better=False) == not_better
    assert rules.judge_difference(float("nan"), high) == rules.OPEN


def test_groups_and_cases_without_figures_are_named() -> None:
    frame = figures({"mIoU": [0.1, 0.2, 0.3]}, backbone_type=["convolution"] * 3)
    groups = [Groups("backbone_type", (GAM,), "convolution", "transformer")]
    cases = [Case("fog 3 breaks all", ("fog 3",), lambda rows: rows["fog 3"] < 0.1)]
    drawn = draw_figures(study(pairs=[Pair("clean", "clean")], groups=groups, cases=cases), frame, "here")
    assert [(each.claim, each.evidence, each.verdict) for each in drawn.judged] == [
        (f"{GAM} is better for transformer than for convolution", f"no figures of {GAM}", rules.OPEN),
        ("fog 3 breaks all", "no figures of fog 3", rules.OPEN),
    ]


def test_own_models_on_two_datasets_are_told_apart() -> None:
    """One network by its facts; by its name where these are not known or several trainings share them."""
    parts = []
    for dataset, values in (("cityscapes", [0.8, 0.7, 0.6, 0.5]), ("ade20k", [0.4, 0.3, 0.2, 0.1])):
        facts = {"architecture": ["segformer", "", "enet", "enet"], "backbone": ["mit-b0", "", "", ""]}
        frame = figures({"mIoU": values}, **facts).assign(dataset=dataset)
        first = frame["model"].eq("a")
        parts.append(frame.assign(model=frame["model"].mask(first, f"segformer of {dataset}")))
    table = dataset_table(pd.concat(parts, ignore_index=True)).set_index("model")
    assert table[["clean cityscapes", "clean ade20k"]].T.to_dict("list") == {
        "b": [0.7, 0.3], "c": [0.6, 0.2], "d": [0.5, 0.1], "segformer/mit-b0": [0.8, 0.4],
    }  # fmt: skip


def test_what_detectors_make_up_and_lose_is_judged() -> None:
    """Claim 43, DetecBench's Figure 25: the third detector invents no more under PGD."""
    made_up, lost = [1.0, 1.0, 1.0], [0.2, 0.2, 0.2]
    frame = figures({"hallucinated_per_image": made_up, "disappeared": lost}).assign(task="detection")
    under = {"pgd linf 8/255 x20": ([5.0, 4.0, 1.0], lost), "zoom_blur 3": (made_up, [0.6, 0.5, 0.4])}
    for threat, (invented, gone) in under.items():
        kind = "attack" if threat.startswith("pgd") else "corruption"
        more = figures({"hallucinated_per_image": invented, "disappeared": gone})
        more = more.assign(threat=threat, kind=kind, task="detection", description="")
        frame = pd.concat([frame, more], ignore_index=True)
    judged = draw_figures(studies["detecbench/text-errors"], frame, "here").judged
    found = {each.claim.partition(" (Fig. 25)")[0]: (each.evidence, each.verdict) for each in judged}
    assert found["d: pgd linf 8/255 x20 adds objects"] == ("2 of 3 models", rules.NO)
    assert found["d: zoom_blur 3 loses objects"] == ("3 of 3 models", rules.YES)
    assert found["fog_3d 3 loses objects"][1] == rules.OPEN
