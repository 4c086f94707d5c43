"""Claims of SemSegBench and DetecBench (Agnihotri et al.; docs/specs/studies.md, 7, claims 24 to 44)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from gauntlet import analysis
from gauntlet.results import published
from gauntlet.studies.correlation_rules import (
    NO,
    OPEN,
    YES,
    Judge,
    judge_moderate,
    judge_not_correlated,
    judge_not_strong,
    judge_positive,
    judge_strong,
    judge_very_strong,
    judge_weak,
)
from gauntlet.studies.figure_tables import (
    ATTACKS,
    GAM,
    L2,
    LINF,
    MEAN,
    METRICS,
    dataset_table,
    label,
    metric_table,
    score_table,
)
from gauntlet.studies.findings.evidence import (
    DATASETS,
    NO_CLAIM,
    Evidence,
    Figures,
    PaperClaim,
    both,
    correlation_rows,
    counted,
    group_rows,
    in_both,
    partial_rows,
    percent,
)

FAMILIES = (("segformer", "mit-"), ("upernet", "internimage-"))
"""Architecture and beginning of the backbone of models that differ in their size."""
LINF_COSPGD = "cospgd linf 8/255 x20"
OTHER_ATTACKS = tuple(name for name in ATTACKS if name != LINF_COSPGD)


def claims() -> list[PaperClaim]:
    """Every claim, in the order of the page."""
    figures = both(published.frame(source="semsegbench"))
    tables = {name: score_table(rows) for name, rows in figures.items()}
    return [
        *_scores(tables),
        *_real_weather(tables),
        *_across(figures),
        *_backbones(tables),
        *_capacity_and_time(tables),
        *_attacks(tables),
        *_detection(),
    ]


def on(datasets: Sequence[str], *pairs: tuple[str, str]) -> list[tuple[str, str, str]]:
    """Pairs of figures on datasets."""
    return [(dataset, x, y) for dataset in datasets for x, y in pairs]


def _scores(tables: Figures) -> list[PaperClaim]:
    ade = tables["all cells"].query("dataset == 'ade20k'")
    lost = (1 - ade[L2] / ade["clean"]).dropna()
    voc = tables["all cells"].query("dataset == 'voc'")
    intern = voc["backbone"].str.startswith("internimage")
    below = voc.loc[~intern, "clean"].min() - voc.loc[intern, "clean"].max()
    return [
        PaperClaim(
            "Clean mIoU and generalization (GAM), ADE20K",
            "some correlation between performance on clean images and under the worst corruption",
            "Sec. 4.1.1, Fig. 2a",
            correlation_rows(tables, on(["ade20k"], ("clean", GAM)), judge_positive),
            "It is even strong. The two DeepLabV3 models whose corruption runs failed pull Pearson's r down; ranks "
            "hardly notice them.",
        ),
        PaperClaim(
            "Clean mIoU and reliability (l2-ReM), ADE20K",
            "a strong correlation under l2 attacks",
            "Sec. 4.1.1, Fig. 2a",
            correlation_rows(tables, on(["ade20k"], ("clean", L2)), judge_strong),
            "No attack cell is flagged, so both rows agree. The l2 budget of 64/255 takes away between "
            f"{percent(lost.min())} and {percent(lost.max())} of a model's mIoU: much of this correlation is the clean "
            "figure showing through a weak attack.",
        ),
        PaperClaim(
            "Reliability and generalization, ADE20K",
            "positive, but not strong",
            "Sec. 4.1.1; Table 1 says strong, App. A not high",
            correlation_rows(tables, on(["ade20k"], (L2, GAM)), judge_not_strong),
            "The paper contradicts itself; by our rule its Table 1 is right where this is not confirmed.",
        ),
        PaperClaim(
            "The same on the other datasets",
            "clean and l2-ReM strongly correlated, clean and GAM to some extent",
            "Sec. 4.1.1; the step from ADE20K to the other datasets is ours",
            pd.concat(
                [
                    correlation_rows(tables, on(["cityscapes", "voc"], ("clean", score)), judge)
                    for score, judge in ((GAM, judge_positive), (L2, judge_strong))
                ]
            ),
            "On Cityscapes clean mIoU says little about l2 reliability. On VOC the three InternImage models are "
            f"published with a clean mIoU more than {int(100 * below)} points below every other model and span most of "
            "the range.",
        ),
        PaperClaim(
            "Means instead of minima",
            "the same conclusions hold with the mean over attacks or corruptions",
            "Sec. 3",
            correlation_rows(tables, on(DATASETS, (GAM, MEAN), (L2, f"mean of {L2}")), judge_strong),
        ),
        _nothing_resists(tables),
        PaperClaim(
            "InternImage generalizes best",
            "InternImage has the best generalization, though it drops much from its clean performance",
            "Sec. 4.1.1",
            counted(tables, _intern_image),
            "Whether the model with the best GAM of a dataset has such a backbone, and whether each of them loses more "
            "than a quarter of its clean mIoU (the rule is ours). On ADE20K and Cityscapes their median loss is still "
            "smaller than that of all other models.",
        ),
        PaperClaim(
            "DeepLabV3 generalizes poorly",
            "DeepLabV3 has a particularly poor generalization",
            "Sec. 4.1.1",
            _poorer(tables, "deeplabv3", GAM),
            "The median of its models against that of all others. On ADE20K both runs failed, so that nothing is "
            "left to judge; on VOC less than a point is between them.",
        ),
        PaperClaim(
            "Large SegFormer and InternImage models resist l2 attacks",
            "the larger SegFormers and InternImages are reliable to some extent",
            "Sec. 4.1.1",
            pd.concat([_within(tables, *family, (L2,), judge_positive) for family in FAMILIES]),
            "Whether l2-ReM grows with the number of parameters within the family; the three or four models that "
            "InternImage has left in places are too few to be judged.",
        ),
    ]


def _intern_image(table: pd.DataFrame) -> dict[str, list[bool]]:
    """By dataset: whether InternImage has the best GAM, and which of its models lose more than a quarter."""
    found = {}
    for dataset, rows in table.dropna(subset=[GAM]).groupby("dataset"):
        own = rows["backbone"].str.startswith("internimage")
        found[f"{dataset}: best GAM"] = [bool(own.iloc[int(rows[GAM].argmax())])]
        found[f"{dataset}: loses much"] = [bool(share < 0.75) for share in rows.loc[own, "retained"]]
    return found


def _within(tables: Figures, architecture: str, backbone: str, scores: Sequence[str], judge: Judge) -> Evidence:
    """Scores against size within one family of models."""
    family = {
        name: table[table["architecture"].eq(architecture) & table["backbone"].str.startswith(backbone)]
        for name, table in tables.items()
    }
    rows = correlation_rows(family, on(DATASETS, *(("parameters", score) for score in scores)), judge)
    return rows.assign(pair=f"{architecture} {backbone}, " + rows["pair"])


def _poorer(tables: Figures, architecture: str, score: str) -> Evidence:
    """Whether the median score of an architecture is below that of all others."""
    rows = []
    for name, table in tables.items():
        for dataset in DATASETS:
            chosen = table[table["dataset"].eq(dataset)].dropna(subset=[score])
            own = chosen["architecture"].eq(architecture)
            one, others = chosen.loc[own, score], chosen.loc[~own, score]
            verdict = OPEN if one.empty else YES if one.median() < others.median() else NO
            rows.append(
                {
                    "dataset": dataset,
                    "cells": name,
                    f"{architecture}, median": f"{percent(one.median())} ({len(one)})" if len(one) else "-",
                    "others, median": f"{percent(others.median())} ({len(others)})",
                    "verdict": verdict,
                }
            )
    return pd.DataFrame(rows)


def _nothing_resists(tables: Figures) -> PaperClaim:
    def rows(table: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame([_of_linf(str(dataset), chosen) for dataset, chosen in table.groupby("dataset")])

    return PaperClaim(
        "Nothing resists l-infinity attacks",
        "at 8/255 nearly all models are broken; no correlation can be seen",
        "Sec. 4.1.1",
        in_both(tables, rows),
        "All linf-ReM figures lie at the floor; their correlation with anything is noise. Confirmed means that the "
        "best model keeps less than 2 % (bound ours).",
    )


def _of_linf(dataset: str, rows: pd.DataFrame) -> dict[str, str]:
    """What linf attacks leave of the models of a dataset."""
    values = rows[LINF].dropna()
    return {
        "dataset": dataset,
        "models": str(len(values)),
        "largest linf-ReM": percent(values.max()),
        "median linf-ReM": percent(values.median()),
        "verdict": OPEN if values.empty else YES if values.max() < 0.02 else NO,
    }


def _real_weather(tables: Figures) -> list[PaperClaim]:
    def weather(title: str, words: str, x: str, judge: Judge, remark: str = "") -> PaperClaim:
        rows = correlation_rows(tables, on(["cityscapes"], ("acdc all", x)), judge)
        return PaperClaim(title, words, "App. A.1, Fig. 4", rows, remark)

    return [
        weather(
            "Real weather (ACDC) and the mean over synthetic corruptions, Cityscapes",
            "very strongly correlated, so that synthetic corruptions are a proxy for real shifts",
            MEAN,
            judge_very_strong,
            "Here the flags matter most: with the failed DeepLabV3+ run and the five doubtful SegFormer runs the "
            "agreement looks far weaker than it is.",
        ),
        weather("ACDC and brightness", "a weak positive correlation", "brightness 3", judge_weak),
        weather("ACDC and fog", "a weak positive correlation", "fog 3", judge_weak),
        weather("ACDC and snow", "a strong correlation", "snow 3", judge_strong),
        PaperClaim(
            "Real weather and synthetic corruptions at equal clean mIoU, Cityscapes",
            "synthetic corruptions are a proxy for real shifts",
            "App. A.1; to hold clean mIoU fixed is ours",
            partial_rows(
                tables, on(["cityscapes"], ("acdc all", MEAN), ("acdc all", "snow 3")), "clean", judge_positive
            ),
            "Better models are better in both, so that a correlation could be that with the clean figure alone. "
            "Confirmed means that corruptions say something of real weather that clean mIoU does not.",
        ),
        PaperClaim(
            "Clean mIoU and real weather, Cityscapes",
            "nothing: a control that the paper does not have",
            "no section",
            correlation_rows(tables, on(["cityscapes"], ("acdc all", "clean")), judge_strong).assign(verdict=NO_CLAIM),
            "Whatever is correlated with clean mIoU is a proxy for ACDC as far as this goes.",
        ),
        PaperClaim(
            "ACDC and GAM, Cityscapes",
            "nothing in words: ACDC goes with the mean, and GAM is drawn beside it",
            "App. A.1, Fig. 5",
            correlation_rows(tables, on(["cityscapes"], ("acdc all", GAM), (GAM, MEAN)), judge_strong).assign(
                verdict=NO_CLAIM
            ),
        ),
    ]


def _across(figures: Figures) -> list[PaperClaim]:
    wide = {name: dataset_table(rows).assign(dataset="both") for name, rows in figures.items()}

    def across(score: str, words: str, judge: Judge) -> PaperClaim:
        pair = (f"{score} cityscapes", f"{score} ade20k")
        rows = correlation_rows(wide, on(["both"], pair), judge)
        return PaperClaim(f"Cityscapes and ADE20K: {score}", words, "App. A.2, Fig. 6", rows)

    metrics = {name: metric_table(rows) for name, rows in figures.items()}
    pairs = [
        (f"{row} {first}", f"{row} {second}")
        for row in ("clean", "cospgd l2 64/255 x20", MEAN)
        for first, second in itertools.combinations(METRICS, 2)
    ]
    return [
        across("clean", "high correlation, no outliers", judge_strong),
        across(L2, "weak correlation", judge_weak),
        across(LINF, "all near 0, so that nothing can be seen", judge_not_correlated),
        across(GAM, "weak correlation", judge_weak),
        PaperClaim(
            "mIoU, mAcc and aAcc",
            "very strongly correlated, so that one metric is enough",
            "App. A.3, Fig. 7 to 9",
            correlation_rows(metrics, on(DATASETS, *pairs), judge_very_strong),
            "Under linf CosPGD all three lie at the floor and are left out.",
        ),
    ]


def _backbones(tables: Figures) -> list[PaperClaim]:
    return [
        PaperClaim(
            "Transformer against convolution backbones: generalization",
            "transformers have clearly better generalization",
            "Sec. 4.1.2, Fig. 2b",
            group_rows(tables, (GAM, MEAN, "retained"), datasets=DATASETS),
            "InternImage counts as a transformer, as in the paper's text. On ADE20K the advantage stays, smaller, "
            "without the two failed DeepLabV3 runs. With InternImage as the convolution that it is (last difference) "
            "nothing is certain there; on VOC it is the other way round, as its InternImage runs are the weakest. The "
            "groups differ in much else than the backbone.",
        ),
        PaperClaim(
            "Transformer against convolution backbones: clean",
            "transformers are slightly better on clean images",
            "Sec. 4.1.2, Fig. 2b",
            group_rows(tables, ("clean",), datasets=DATASETS),
        ),
        PaperClaim(
            "Transformer against convolution backbones: reliability",
            "no clear advantage is claimed; as a control",
            "Sec. 4.1.2, Fig. 2b",
            group_rows(tables, (L2,), datasets=DATASETS).assign(verdict=NO_CLAIM),
            "Mask2Former was attacked with PGD only and BEiT not at all: neither has a ReM, so that the transformers "
            "here are SegFormers, and InternImages as the paper counts.",
        ),
        PaperClaim(
            "Transformer against convolution backbones: real weather",
            "trends by backbone hold in ACDC",
            "Sec. 4.1.2; the step to ACDC is ours",
            group_rows(tables, ("acdc all",), datasets=("cityscapes",)),
        ),
    ]


def _capacity_and_time(tables: Figures) -> list[PaperClaim]:
    def rows(x: str, others: Sequence[str], judge: Judge) -> Evidence:
        return correlation_rows(tables, on(DATASETS, *((x, other) for other in others)), judge)

    return [
        PaperClaim(
            "Model capacity and clean mIoU",
            "a moderate correlation",
            "Sec. 4.3, Fig. 2c",
            rows("parameters", ("clean",), judge_moderate),
            "Correlated with the number of parameters; excluding flags also drops the two counts that look swapped.",
        ),
        PaperClaim(
            "Model capacity and the other scores",
            "weaker than with clean mIoU",
            "Sec. 4.3, Fig. 2c",
            counted(tables, _weaker),
            "Whether Spearman's rho of parameters with l2-ReM and with GAM is below that with clean mIoU.",
        ),
        PaperClaim(
            "Model capacity within one architecture",
            "larger models are moderately better",
            "Sec. 4.3, Fig. 2c; the step to single architectures is ours",
            pd.concat([_within(tables, *family, ("clean", GAM), judge_positive) for family in FAMILIES]),
            "Families of 3 to 12 models, below six without a verdict; l2-ReM is tested above. The doubtful SegFormer "
            "runs hide it in GAM on Cityscapes.",
        ),
        PaperClaim(
            "The architecture matters more than its size",
            "the architecture matters more than capacity",
            "Sec. 4.3",
            _architecture_or_size(tables),
            "Share of the variance of a score that the architecture explains, and that the logarithm of the number of "
            "parameters explains, both adjusted for the number of groups or slopes. Backbone and year go with the "
            "architecture.",
        ),
        PaperClaim(
            "Progress over time: clean performance",
            "performance on clean images has risen over the years",
            "caption of Fig. 1",
            rows("year", ("clean",), judge_positive),
            "By the date of proposal of the architecture. On VOC the newest models, UPerNet with InternImage, are the "
            "weakest.",
        ),
        PaperClaim(
            "Progress over time: robustness lags behind",
            "reliability and generalization have not improved at the same rate",
            "caption of Fig. 1",
            rows("year", ("gap", "l2 gap"), judge_positive),
            "Confirmed means that the gap to clean performance grows with the years. GAM lies far below the clean "
            "figure everywhere.",
        ),
    ]


def _architecture_or_size(tables: Figures) -> Evidence:
    """What explains more of a score: the architecture or the size."""
    rows = []
    for name, table in tables.items():
        for dataset in DATASETS:
            for score in ("clean", L2, GAM):
                chosen = table[table["dataset"].eq(dataset)].dropna(subset=[score, "parameters"])
                values = chosen[score].astype(float)
                groups = chosen.groupby("architecture")[score]
                within = float(((values - groups.transform("mean")) ** 2).sum())
                size = np.log(chosen["parameters"].astype(float))
                left = values - np.polyval(np.polyfit(size, values, 1), size)
                by_group = _explained(values, within, groups.ngroups - 1)
                by_size = _explained(values, float((left**2).sum()), 1)
                rows.append(
                    {
                        "pair": f"{dataset}: {label(score)}",
                        "cells": name,
                        "models": str(len(values)),
                        "architectures": str(groups.ngroups),
                        "by architecture": percent(by_group),
                        "by size": percent(by_size),
                        "verdict": YES if by_group > by_size else NO,
                    }
                )
    return pd.DataFrame(rows)


def _explained(values: pd.Series, left: float, freedom: int) -> float:
    """Adjusted share of the variance of values that is explained, with `left` the sum of squares that is not."""
    total = float(((values - values.mean()) ** 2).sum())
    return 1 - (left / (len(values) - freedom - 1)) / (total / (len(values) - 1))


def _weaker(table: pd.DataFrame) -> dict[str, list[bool]]:
    """By dataset: whether size goes less with robust scores than with the clean one."""
    found: dict[str, list[bool]] = {}
    for dataset in DATASETS:
        chosen = table[table["dataset"].eq(dataset)]
        rho = {}
        for score in ("clean", L2, GAM):
            rows = analysis.correlate(chosen["parameters"], chosen[score]).to_dict("records")
            rho[score] = next(float(row["value"]) for row in rows if row["coefficient"] == "spearman")
        found[dataset] = [rho[L2] < rho["clean"], rho[GAM] < rho["clean"]]
    return found


def _attacks(tables: Figures) -> list[PaperClaim]:
    pgd = published.frame(source="semsegbench", metric="mIoU", kind="attack")
    pgd = pgd[pgd["threat"].eq("pgd linf 8/255 x20")]
    pairs = list(itertools.combinations(OTHER_ATTACKS, 2))
    return [
        PaperClaim(
            "Attacks rank models alike",
            "strongly correlated, but for linf CosPGD, which leaves about 0",
            "App. I.1, Fig. 16 to 18",
            correlation_rows(tables, on(DATASETS, *pairs), judge_strong),
            "Pairs of PGD, SegPGD and CosPGD in two norms without linf CosPGD.",
        ),
        PaperClaim(
            "Attacks rank models alike: the exception",
            "linf CosPGD leaves about 0 and is correlated with no other attack",
            "App. I.1, Fig. 16 to 18",
            correlation_rows(
                tables, on(DATASETS, *((LINF_COSPGD, each) for each in OTHER_ATTACKS)), judge_not_correlated
            ),
            "Linf CosPGD against the five others.",
        ),
        PaperClaim(
            "Mask2Former under PGD",
            "Mask2Former with fewer parameters beats InternImage, but is merely harder to attack",
            "Sec. 4.3 and App. I.1",
            in_both(both(pgd), _mask2former),
            "Judged against the median InternImage, with all others beside it; all of them are unusable in practice. "
            "The paper finds the order reversed at a smaller budget with more steps, and the public code attacks "
            "Mask2Former through its dice loss alone: this points to masked gradients rather than to robustness.",
        ),
        PaperClaim(
            "Adversarial training helps, a large gap stays",
            "robust models are better under attack, far below their clean performance",
            "App. H, Table 3",
            counted(both(published.frame(source="adversarially_trained", metric="mIoU")), _adversarially_trained),
            "Copied by the paper from others; half is a bound of ours. No undefended UPerNet stands in the table. "
            "Halmosi et al. find that DDC-AT falls to 0 under stronger attacks.",
        ),
    ]


def _mask2former(pgd: pd.DataFrame) -> pd.DataFrame:
    """By dataset: what linf PGD leaves of Mask2Former, of InternImage and of all others."""
    rows = []
    for dataset, chosen in pgd.groupby("dataset"):
        mask = chosen["architecture"].eq("mask2former")
        intern = chosen["backbone"].str.startswith("internimage")
        rest = chosen[~mask]
        one, other = (chosen.loc[each, "value"] for each in (mask, intern))
        rows.append(
            {
                "dataset": dataset,
                "Mask2Former, median": f"{percent(one.median())} ({len(one)})",
                "InternImage, median": f"{percent(other.median())} ({len(other)})",
                "others, median": f"{percent(rest['value'].median())} ({len(rest)})",
                "best other": f"{percent(rest['value'].max())} ({rest['model'].iloc[int(rest['value'].argmax())]})",
                "verdict": OPEN if one.empty or other.empty else YES if one.median() > other.median() else NO,
            }
        )
    return pd.DataFrame(rows)


def _adversarially_trained(rows: pd.DataFrame) -> dict[str, list[bool]]:
    table = analysis.threat_table(rows).set_index("model")
    attacks = ["bim linf 8/255 x10", "segpgd linf 8/255 x10", "cospgd linf 8/255 x10"]
    plain = table.loc[["Robust PSPNet No Defense"], attacks].to_numpy(float)  # (1, attacks)
    trained = ["Robust PSPNet SAT", "Robust PSPNet DDC-AT"]
    figures, clean = table.loc[trained, attacks].to_numpy(float), table.loc[trained, ["clean"]].to_numpy(float)
    other = table.loc["Robust UPerNet-ConvNeXt-t PIR-AT"]
    return {
        "PSPNet: above the undefended one": [bool(each) for each in (figures > plain).ravel()],
        "PSPNet: less than half of the clean figure": [bool(each) for each in (figures < clean / 2).ravel()],
        "UPerNet with PIR-AT: the same under its strongest attack": [
            bool(other.filter(regex="linf").min() < other["clean"] / 2)
        ],
    }


def _detection() -> list[PaperClaim]:
    tables = {name: score_table(rows) for name, rows in both(published.frame(source="detecbench_interim")).items()}
    note = (
        "Interim exports only: one step of 2.55 grey levels on COCO is hardly an attack, and VOC has eleven models of "
        "four architectures. The final figures were not readable."
    )
    reliability = [("coco", "clean", "pgd linf 8/255 x1"), ("voc0712", "clean", LINF)]
    metrics = {
        name: metric_table(rows, ("mAP", "mAP_small", "mAP_medium", "mAP_large"))
        for name, rows in both(published.frame(source="detecbench_interim")).items()
    }
    threats = {"coco": ("clean", "pgd linf 8/255 x1"), "voc0712": ("clean", "fgsm linf 8/255 x1", "bim linf 8/255 x20")}
    pairs = [
        (dataset, f"{threat} {first}", f"{threat} {second}")
        for dataset, of_dataset in threats.items()
        for threat in of_dataset
        for first, second in itertools.combinations(("mAP", "mAP_small", "mAP_medium", "mAP_large"), 2)
    ]
    return [
        PaperClaim(
            "Detection: clean mAP and ReM",
            "a weak positive correlation, then none",
            "Sec. 4.2.1, Fig. 3a",
            correlation_rows(tables, reliability, judge_not_correlated),
            note,
        ),
        PaperClaim(
            "Detection: FGSM and clean mAP",
            "a high positive correlation",
            "App. O.2.1, Fig. 28",
            correlation_rows(
                tables,
                [("coco", "clean", "pgd linf 8/255 x1"), ("voc0712", "clean", "fgsm linf 8/255 x1")],
                judge_strong,
            ),
            note,
        ),
        PaperClaim(
            "Detection: FGSM and size",
            "no correlation with the number of parameters",
            "App. O.2.1, Fig. 28",
            correlation_rows(tables, [("coco", "parameters", "pgd linf 8/255 x1")], judge_not_correlated),
            "Numbers of parameters of detectors are not published.",
        ),
        PaperClaim(
            "Detection: metrics agree",
            "mAP and its parts by size are very strongly correlated",
            "App. B.3, Fig. 13",
            correlation_rows(metrics, pairs, judge_very_strong),
            "Clean and under attacks of the interim exports; figures under corruptions are not published.",
        ),
        PaperClaim(
            "Detection: transformer backbones, clean",
            "marginally better on clean images",
            "Sec. 4.2.2, Fig. 3b",
            group_rows(tables, ("clean",), datasets=("coco", "voc0712")),
            note,
        ),
    ]
