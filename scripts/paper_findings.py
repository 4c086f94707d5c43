"""Writes docs/paper-findings.md: what the papers claim, recomputed from the published figures alone.

    python scripts/paper_findings.py [--output docs/paper-findings.md]

Nothing is run; every number comes from the packaged table, with the cells of known faults included and excluded.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gauntlet import analysis
from gauntlet.results import published

ROOT = Path(__file__).resolve().parents[1]
STRONG = 0.7
SUPPORT = 0.5
LINF, L2, GAM, MEAN = "linf-ReM^8_20", "l2-ReM^64_20", "GAM_3", "mean of GAM_3"
YES, NO, OPEN = "confirmed", "not confirmed", "cannot be judged"
SELECTIONS = ("all cells", "flagged cells excluded")

SEMSEGBENCH = "SemSegBench and DetecBench (arXiv 2505.18015)"
PROXY = "Are Synthetic Corruptions A Reliable Proxy For Real-World Corruptions? (arXiv 2505.04835)"
HALMOSI = "Trying Harder Pays Off (Halmosi et al.)"
ARNAB = "On the Robustness of Semantic Segmentation Models to Adversarial Attacks (Arnab et al.)"
SPATIAL = "Benchmarking the Spatial Robustness of DNNs (Marchiori Pietrosanti et al.)"

DATASETS = ("ade20k", "cityscapes", "voc")

Evidence = pd.DataFrame
Figures = dict[str, pd.DataFrame]
Judge = Callable[[Mapping[Hashable, Any]], str]


@dataclass(frozen=True)
class Claim:
    """A claim and the numbers for it.

    Attributes:
        title: the claim in a few words.
        claim: the claim in a sentence, in our words.
        paper: where it is made.
        evidence: rows of numbers, the last column `verdict`.
        remark: what a reader should know beside the numbers.
    """

    title: str
    claim: str
    paper: str
    evidence: Evidence
    remark: str = ""


def main() -> None:
    """Computes and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "paper-findings.md")
    options = parser.parse_args()
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(render(claims()), encoding="utf-8")
    print(f"wrote {options.output}")


def claims() -> list[Claim]:
    """Every claim, in the order of the page."""
    tables = {name: _scores(rows) for name, rows in _both(published.frame(source="semsegbench")).items()}
    return [
        *_clean_performance(tables),
        *_real_weather(tables),
        *_backbones(tables),
        *_capacity_and_time(tables),
        *_reliability(tables),
        *_detection(),
        *_other_papers(),
    ]


def _both(rows: pd.DataFrame) -> Figures:
    return dict(zip(SELECTIONS, (rows, published.unflagged(rows)), strict=True))


def _scores(rows: pd.DataFrame) -> pd.DataFrame:
    table = analysis.scores(rows)
    clean = table["clean"]
    return table.assign(**{"retained": table[GAM] / clean, "gap": clean - table[GAM], "l2 gap": clean - table[L2]})


# The kinds of evidence


def correlation_row(table: pd.DataFrame, x: str, y: str, judge: Judge) -> dict[str, str]:
    """n, the three coefficients with intervals, and a verdict on Spearman's."""
    rows = analysis.correlate(table[x].astype(float), table[y].astype(float)).to_dict("records")
    by_name = {str(row["coefficient"]): row for row in rows}
    return {
        "models": str(by_name["spearman"]["n"]),
        "Pearson r": interval(by_name["pearson"]),
        "Spearman rho": interval(by_name["spearman"]),
        "Kendall tau-b": interval(by_name["kendall"]),
        "verdict": judge(by_name["spearman"]),
    }


def correlation_rows(
    tables: Figures, pairs: Sequence[tuple[str, str, str]], judge: Judge, *, named: bool = True
) -> Evidence:
    """Correlations of (dataset, x, y) with both selections of cells; `named` says which pair a row is about."""
    rows = []
    for dataset, x, y in pairs:
        for name, table in tables.items():
            head = {"pair": f"{dataset}: {label(x)}, {label(y)}"} if named else {}
            chosen = table[table["dataset"].eq(dataset)]
            rows.append({**head, "cells": name, **correlation_row(chosen, x, y, judge)})
    return pd.DataFrame(rows)


def group_rows(tables: Figures, scores: Sequence[str], *, datasets: Sequence[str]) -> Evidence:
    """Transformer against convolution backbones in several scores: means, difference with interval, p-value."""
    rows = []
    for dataset in datasets:
        for score in scores:
            for name, table in tables.items():
                chosen = table[table["dataset"].eq(dataset)]
                groups = analysis.compare_groups(chosen, score, "backbone_type", "convolution", "transformer").iloc[0]
                rows.append(
                    {
                        "dataset": dataset,
                        "score": label(score),
                        "cells": name,
                        "convolution": f"{percent(groups['mean_first'])} ({groups['n_first']})",
                        "transformer": f"{percent(groups['mean_second'])} ({groups['n_second']})",
                        "difference": " ".join(
                            [points(groups["difference"]), f"[{points(groups['low'])}, {points(groups['high'])}]"]
                        ),
                        "p": f"{groups['p_value']:.3f}",
                        "verdict": YES if groups["low"] > 0 else NO,
                    }
                )
    return pd.DataFrame(rows)


def judge_strong(row: Mapping[Hashable, Any]) -> str:
    """A strong correlation: at least 0.7, and at least 0.5 is certain."""
    if row["warning"]:
        return OPEN
    return YES if row["value"] >= STRONG and row["low"] >= SUPPORT else NO


def judge_weak(row: Mapping[Hashable, Any]) -> str:
    """No strong correlation: below 0.7, and 0.7 is outside the interval or 0 is inside."""
    if row["warning"]:
        return OPEN
    return YES if row["value"] < STRONG and (row["high"] < STRONG or row["low"] <= 0) else NO


def judge_positive(row: Mapping[Hashable, Any]) -> str:
    """Any positive correlation: 0 lies below the interval."""
    return OPEN if row["warning"] else YES if row["low"] > 0 else NO


# The claims


def _clean_performance(tables: Figures) -> list[Claim]:
    claim = "Models that are better on clean images are also {}: the two are strongly correlated (shown on ADE20K)."
    ade = tables[SELECTIONS[0]].query("dataset == 'ade20k'")
    lost = (1 - ade[L2] / ade["clean"]).dropna()
    voc = tables[SELECTIONS[0]].query("dataset == 'voc'")
    intern = voc["backbone"].str.startswith("internimage")
    below = voc.loc[~intern, "clean"].min() - voc.loc[intern, "clean"].max()
    return [
        Claim(
            "Clean mIoU and generalization (GAM), ADE20K",
            claim.format("better under their worst corruption"),
            f"{SEMSEGBENCH}, as public reviews sum it up",
            correlation_rows(tables, [("ade20k", "clean", GAM)], judge_strong, named=False),
            "The two DeepLabV3 models whose corruption runs failed pull Pearson's r down; ranks hardly notice them.",
        ),
        Claim(
            "Clean mIoU and reliability (l2-ReM), ADE20K",
            claim.format("more reliable under l2 attacks"),
            f"{SEMSEGBENCH}, as public reviews sum it up",
            correlation_rows(tables, [("ade20k", "clean", L2)], judge_strong, named=False),
            "No attack cell is flagged, so both rows agree. The l2 budget of 64/255 takes away between "
            f"{percent(lost.min())} and {percent(lost.max())} of a model's mIoU: much of this correlation is the clean "
            "figure showing through a weak attack.",
        ),
        Claim(
            "Reliability and generalization, ADE20K",
            "Models that resist l2 attacks also generalize to corruptions.",
            f"{SEMSEGBENCH}, as public reviews sum it up",
            correlation_rows(tables, [("ade20k", L2, GAM)], judge_strong, named=False),
        ),
        Claim(
            "The same on the other datasets",
            "The correlations are a property of segmentation models, not of one dataset.",
            "the step from ADE20K to the other datasets is ours",
            correlation_rows(
                tables, [(each, "clean", other) for each in ("cityscapes", "voc") for other in (GAM, L2)], judge_strong
            ),
            "On Cityscapes clean mIoU says little about l2 reliability. On VOC the three InternImage models are "
            f"published with a clean mIoU more than {int(100 * below)} points below every other model and span most of "
            "the range.",
        ),
    ]


def _real_weather(tables: Figures) -> list[Claim]:
    threats = {
        name: analysis.threat_table(rows)
        for name, rows in _both(published.frame(source="semsegbench", dataset="cityscapes", metric="mIoU")).items()
    }
    alike = [("cityscapes", "acdc fog", "fog 3"), ("cityscapes", "acdc snow", "snow 3")]
    return [
        Claim(
            "Real weather (ACDC) and the mean over synthetic corruptions, Cityscapes",
            "Mean performance under the 15 synthetic corruptions is strongly correlated with performance in real "
            "adverse conditions, so that synthetic corruptions can stand in for them.",
            f"{PROXY}, abstract",
            correlation_rows(tables, [("cityscapes", "acdc all", MEAN)], judge_strong, named=False),
            "Here the flags matter most: with the failed DeepLabV3+ run and the five doubtful SegFormer runs the "
            "agreement looks far weaker than it is.",
        ),
        Claim(
            "Single conditions, Cityscapes",
            "A synthetic corruption represents the real condition of its own kind.",
            f"{PROXY}, which asks when this holds",
            correlation_rows(threats, [*alike, ("cityscapes", "acdc snow", "frost 3")], judge_strong),
        ),
        Claim(
            "Clean mIoU and real weather, Cityscapes",
            "For comparison: clean performance alone is strongly correlated with ACDC.",
            "no paper",
            correlation_rows(tables, [("cityscapes", "acdc all", "clean")], judge_strong, named=False),
        ),
    ]


def _backbones(tables: Figures) -> list[Claim]:
    paper = f"{SEMSEGBENCH}: trends by backbone, abstract and public reviews"
    return [
        Claim(
            "Transformer against convolution backbones: generalization",
            "Models with a transformer backbone hold up better under corruptions.",
            paper,
            group_rows(tables, (GAM, MEAN, "retained"), datasets=DATASETS),
            "On ADE20K the whole advantage comes from the two failed DeepLabV3 runs. InternImage counts as a "
            "convolution backbone, as in the source. The groups differ in much else than the backbone.",
        ),
        Claim(
            "Transformer against convolution backbones: reliability",
            "Models with a transformer backbone are more reliable under l2 attacks.",
            paper,
            group_rows(tables, (L2,), datasets=DATASETS),
            "Mask2Former was attacked with PGD only and BEiT not at all: neither has a ReM, so that the transformers "
            "here are SegFormers.",
        ),
        Claim(
            "Transformer against convolution backbones: real weather",
            "Models with a transformer backbone hold up better in ACDC.",
            paper,
            group_rows(tables, ("acdc all",), datasets=("cityscapes",)),
        ),
    ]


def _capacity_and_time(tables: Figures) -> list[Claim]:
    def rows(x: str, others: Sequence[str]) -> Evidence:
        return correlation_rows(tables, [(each, x, other) for each in DATASETS for other in others], judge_positive)

    return [
        Claim(
            "Model capacity",
            "Larger models are more reliable and generalize better.",
            f"{SEMSEGBENCH}: trends by model capacity, abstract",
            rows("parameters", (GAM, L2)),
            "Correlated with the number of parameters; excluding flags also drops the two counts that look swapped.",
        ),
        Claim(
            "Progress over time: clean performance",
            "Performance on clean images has risen over the years.",
            f"{SEMSEGBENCH}, caption of Figure 1",
            rows("year", ("clean",)),
            "By the date of proposal of the architecture. On VOC the newest models, UPerNet with InternImage, are the "
            "weakest.",
        ),
        Claim(
            "Progress over time: robustness lags behind",
            "Reliability and generalization have not improved at the same rate, so that the gap to clean performance "
            "grows with the years.",
            f"{SEMSEGBENCH}, caption of Figure 1",
            rows("year", ("gap", "l2 gap")),
            "Confirmed means that the gap grows. It does so only on ADE20K and only for l2 attacks; elsewhere it "
            "shrinks or does not change significantly. GAM still lies far below the clean figure everywhere.",
        ),
    ]


def _reliability(tables: Figures) -> list[Claim]:
    table = tables[SELECTIONS[0]]
    rows = []
    for dataset, chosen in table.groupby("dataset"):
        values = chosen[LINF].dropna()
        rows.append(
            {
                "dataset": dataset,
                "models": str(len(values)),
                "largest linf-ReM": percent(values.max()),
                "median linf-ReM": percent(values.median()),
                "verdict": YES if values.max() < 0.02 else NO,
            }
        )
    pgd = published.frame(source="semsegbench", metric="mIoU", kind="attack")
    pgd = pgd[pgd["threat"].eq("pgd linf 8/255 x20")]
    ranks = []
    for dataset, chosen in pgd.groupby("dataset"):
        mask = chosen["architecture"].eq("mask2former")
        rest = chosen[~mask]
        ranks.append(
            {
                "dataset": dataset,
                "Mask2Former, median": f"{percent(chosen.loc[mask, 'value'].median())} ({mask.sum()})",
                "others, median": f"{percent(rest['value'].median())} ({len(rest)})",
                "best other": f"{percent(rest['value'].max())} ({rest['model'].iloc[int(rest['value'].argmax())]})",
                "verdict": YES if chosen.loc[mask, "value"].median() > rest["value"].median() else NO,
            }
        )
    return [
        Claim(
            "Nothing resists l-infinity attacks",
            "No undefended model keeps a usable mIoU under l-infinity attacks of 8/255.",
            f"{SEMSEGBENCH}: systematic weaknesses",
            pd.DataFrame(rows),
            "All linf-ReM figures lie at the floor; their correlation with anything is noise.",
        ),
        Claim(
            "Mask2Former under PGD",
            "Mask2Former looks the most reliable under 20 steps of PGD at 8/255.",
            SEMSEGBENCH,
            pd.DataFrame(ranks),
            "True of the printed medians, though all of them are unusable in practice. The paper finds the order "
            "reversed at a smaller budget with more steps, and the public code attacks Mask2Former through its dice "
            "loss alone: this points to masked gradients rather than to robustness.",
        ),
    ]


def _detection() -> list[Claim]:
    tables = {}
    for name, rows in _both(published.frame(source="detecbench_interim", metric="mAP")).items():
        threats = analysis.threat_table(rows).drop(columns="clean")
        units = ["source", "table", "task", "model", "dataset", "split", "view"]
        tables[name] = analysis.scores(rows).merge(threats, on=units, how="left")
    pairs = [("coco", "clean", "pgd linf 8/255 x1"), ("voc0712", "clean", LINF)]
    return [
        Claim(
            "Detection behaves differently",
            "Clean and robust performance of detectors are not strongly correlated, unlike in segmentation.",
            f"{SEMSEGBENCH}, as a public review sums it up",
            correlation_rows(tables, pairs, judge_weak),
            "Interim exports only: one step of 2.55 grey levels on COCO is hardly an attack (2 % of the mAP is lost on "
            "average), and VOC has eleven models of four architectures. The final figures were not readable.",
        )
    ]


def _other_papers() -> list[Claim]:
    return [_halmosi_drop(), _halmosi_diversity(), _halmosi_size(), _arnab_scales(), _spatial_transformers()]


def _halmosi_drop() -> Claim:
    rows = published.frame(source="halmosi", metric="aAcc")
    rows = rows[rows["table"].isin(["1", "2"]) & rows["view"].eq("all")]
    wide = analysis.threat_table(rows, "aAcc").merge(
        rows[["model", "dataset", "training"]].drop_duplicates(), on=["model", "dataset"]
    )
    half = wide["training"].isin(["DDC-AT", "PGD-AT", "SegPGD-AT"])
    full = wide["training"].str.contains("-100|SEA-AT")
    evidence = []
    for name, chosen, holds in (
        ("not or half adversarially trained", wide[half | wide["training"].str.startswith("Normal")], True),
        ("trained on adversarial images only", wide[full], False),
    ):
        worst = chosen["halmosi 8/255"]
        evidence.append(
            {
                "models": f"{name} ({len(chosen)})",
                "clean accuracy": f"{percent(chosen['clean'].min())} to {percent(chosen['clean'].max())}",
                "under the strongest attack": f"{percent(worst.min())} to {percent(worst.max())}",
                "verdict": YES if (worst.max() < 0.05) == holds else NO,
            }
        )
    return Claim(
        "Robust models that are not",
        "Models trained on half clean, half adversarial images, reported as robust, lose all accuracy under a strong "
        "set of attacks; only those trained on adversarial images alone keep some.",
        HALMOSI,
        pd.DataFrame(evidence),
        "Pixel accuracy with background, Tables 1 and 2; no flagged cell is involved.",
    )


def _halmosi_diversity() -> Claim:
    rows = published.frame(source="halmosi", kind="attack", metric="aAcc")
    robust = rows[rows["training"].str.contains("-100|SEA-AT")]
    keys = ["table", "dataset", "model", "view"]
    best = robust.loc[robust.groupby(keys)["value"].idxmin()]
    counts = best["threat"].str.removesuffix(" linf 8/255").value_counts()
    evidence = [
        {
            "columns of tables": str(len(best)),
            "strongest attack": ", ".join(f"{name} ({count})" for name, count in counts.items()),
            "verdict": YES if len(counts) > 1 else NO,
        }
    ]
    return Claim(
        "Different models fall to different attacks",
        "No single attack is the strongest against every robust model, so that a diverse set is needed.",
        HALMOSI,
        pd.DataFrame(evidence),
        "Attack with the lowest pixel accuracy over a whole dataset, models trained on adversarial images only. The "
        "attack names of these tables were inferred from the order of rows (flag `label_inferred`).",
    )


def _halmosi_size() -> Claim:
    figures = published.frame(source="halmosi")
    figures = figures[figures["table"].isin(["1", "2"]) & figures["training"].str.contains("-100|SEA-AT")]
    evidence = []
    for name, rows in _both(figures).items():
        ratios = analysis.image_to_dataset_ratio(rows)
        keys = ["model", "dataset", "view"]
        wide = ratios.set_index([*keys, "kind"])["ratio"].unstack("kind")
        evidence.append(
            {
                "cells": name,
                "columns of tables": str(len(wide)),
                "NmIoU / CmIoU clean, median": f"{wide['clean'].median():.2f}",
                "attacked, median": f"{wide['battery'].median():.2f}",
                "falls in": str(int((wide["battery"] < wide["clean"]).sum())),
                "verdict": YES if (wide["battery"] < wide["clean"]).all() else NO,
            }
        )
    return Claim(
        "Small objects fall first",
        "Small objects are more easily attacked, even where large ones are robust: the image-wise NmIoU falls more "
        "than the CmIoU of the dataset.",
        f"{HALMOSI}, abstract",
        pd.DataFrame(evidence),
        "Models trained on adversarial images only, under the strongest attack; confirmed means that the ratio falls "
        "for all. It falls for the SEA-AT models alone, whose clean and attacked NmIoU cannot be on one scale. NmIoU "
        "over CmIoU is an indirect sign; `gauntlet.analysis.size_bias` measures objects.",
    )


def _arnab_scales() -> Claim:
    figures = published.frame(source="arnab")
    evidence = []
    for name, rows in _both(figures[figures["table"].eq("1")]).items():
        for threat in ("fgsm linf 8/255", "iterative fgsm ll linf 8/255"):
            if not rows["threat"].eq(threat).any():
                evidence.append(
                    {"attack": threat, "cells": name, "white box": "-", "other scale": "-", "verdict": OPEN}
                )
                continue
            matrix = analysis.transfer_matrix(rows, threat).iloc[:3, :3].to_numpy()
            own, other = np.diag(matrix), matrix[~np.eye(3, dtype=bool)]
            evidence.append(
                {
                    "attack": threat,
                    "cells": name,
                    "white box": f"{percent(own.min())} to {percent(own.max())}",
                    "other scale": f"{percent(other.min())} to {percent(other.max())}",
                    "verdict": YES if other.min() > own.max() else NO,
                }
            )
    return Claim(
        "Perturbations do not transfer between scales",
        "A perturbation made at one scale of DeepLab v2 hurts the same network at another scale far less.",
        ARNAB,
        pd.DataFrame(evidence).sort_values("attack", kind="stable"),
        "IoU ratio of scales 50, 75 and 100 % of the same network, Table 1. The iterative cells are flagged: their "
        "white-box ratios disagree with the paper's own Tables 9 and 10.",
    )


def _spatial_transformers() -> Claim:
    rows = published.frame(source="spatial")
    evidence = []
    for severity in (1, 3, 5):
        chosen = rows[rows["threat"].str.contains(f" {severity} on") & rows["view"].eq("inside")]
        means = chosen.groupby(["model", "backbone_type"], as_index=False)["value"].mean()
        transformers = means["backbone_type"].eq("transformer")
        first, second = means.loc[transformers, "value"], means.loc[~transformers, "value"]
        evidence.append(
            {
                "severity": str(severity),
                "SegFormer b0, b1": " and ".join(percent(value) for value in sorted(first)),
                "12 convolution networks, median": percent(second.median()),
                "best of them": percent(second.max()),
                "verdict": YES if first.min() > second.median() else NO,
            }
        )
    return Claim(
        "Transformers under localized natural corruptions",
        "Transformer segmentation models are notably robust inside a naturally corrupted region.",
        SPATIAL,
        pd.DataFrame(evidence),
        "Mean accuracy inside the region over brightness, snow and Gaussian noise, Table 1; confirmed means that both "
        "SegFormers lie above the median network. With two transformers no test of significance is possible. Whether "
        "the severities are 1, 3, 5 or 1, 2, 3 is unclear in the paper.",
    )


# Text


def render(claims: Sequence[Claim]) -> str:
    """The page as Markdown."""
    lines = [
        "# What the papers claim, recomputed",
        "",
        "Made by `scripts/paper_findings.py` from the figures that come with the package (`gauntlet.published`); no",
        "model was run. Each claim is computed twice: with every published cell, and without the cells that carry a",
        "flag of the level *fault* or *doubt* (failed, repeated or doubtful runs, see [analysis](analysis.md)). ReM",
        "and GAM are computed from their parts, never taken from the source, where 12 GAM cells are wrong.",
        "",
        "How a verdict is found (the rules are ours; the papers describe scatter plots and print no coefficient):",
        "",
        f"- A claim of a strong correlation is *{YES}* when Spearman's rho is at least {STRONG} and the lower end of",
        f"  its 95 % interval at least {SUPPORT}. A claim of no strong correlation is *{YES}* when rho is below",
        f"  {STRONG} and the interval ends below {STRONG} or contains 0. A claim of any growth is *{YES}* when the",
        "  interval lies above 0.",
        f"- A claim that one group is better is *{YES}* when the 95 % interval of the difference lies above 0.",
        f"- *{OPEN.capitalize()}* means that a score sits at the floor or that too few figures are left.",
        "",
        "Intervals: bootstrap over models, 1000 resamples, seed 0. p: 10,000 random relabellings. Models share",
        "architectures and training recipes, so that they say less than as many independent ones would; the intervals",
        "do not know that.",
        "",
        "Claims are put in our words. Of the papers, abstracts, captions and public reviews were read; where a claim",
        "rests on a plot, the plot was not available.",
        "",
        "| Claim | " + " | ".join(SELECTIONS) + " |",
        "|---|---|---|",
    ]
    lines += [f"| [{each.title}](#{anchor(each.title)}) | {' | '.join(verdicts(each))} |" for each in claims]
    for each in claims:
        lines += ["", f"## {each.title}", "", f"{each.claim} *({each.paper})*", "", *table_lines(each.evidence)]
        if each.remark:
            lines += ["", each.remark]
    return "\n".join([*lines, ""])


def verdicts(claim: Claim) -> list[str]:
    """The verdict of a claim for both selections of cells, counted where several rows speak to it."""
    rows = claim.evidence
    result = []
    for name in SELECTIONS:
        of_rows = list(rows.loc[rows["cells"].eq(name), "verdict"] if "cells" in rows else rows["verdict"])
        if YES in of_rows and set(of_rows) != {YES}:
            result.append(f"partly {YES} ({of_rows.count(YES)} of {len(of_rows)})")
        else:
            result.append(next(each for each in (YES, NO, OPEN) if each in of_rows))
    return result


def table_lines(rows: pd.DataFrame) -> list[str]:
    """A table in Markdown."""
    head = ["| " + " | ".join(map(str, rows.columns)) + " |", "|" + "---|" * len(rows.columns)]
    return head + ["| " + " | ".join(map(str, row)) + " |" for row in rows.itertuples(index=False)]


def anchor(title: str) -> str:
    """The link target that Markdown makes of a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def label(score: str) -> str:
    """A score's name for a reader."""
    names = {
        MEAN: "mean of corruptions",
        "retained": "GAM_3 / clean",
        "acdc all": "ACDC",
        "gap": "clean - GAM_3",
        "l2 gap": f"clean - {L2}",
    }
    return names.get(score, score)


def interval(row: Mapping[Hashable, Any]) -> str:
    """A coefficient with its interval: "0.87 [0.68, 0.95]"."""
    if np.isnan(row["value"]):
        return "-"
    return f"{row['value']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def percent(value: float) -> str:
    """A fraction as a percentage."""
    return f"{100 * value:.1f} %"


def points(value: float) -> str:
    """A difference of fractions in percentage points, with its sign."""
    return f"{100 * value:+.1f}"


if __name__ == "__main__":
    main()
