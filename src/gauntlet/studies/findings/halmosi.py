"""Claims of Halmosi et al. (docs/specs/studies.md, 7, claims 12 to 23), from their tables 1 to 7."""

from __future__ import annotations

import pandas as pd

from gauntlet import analysis
from gauntlet.results import published
from gauntlet.studies.correlation_rules import NO, OPEN, YES
from gauntlet.studies.findings.evidence import Figures, PaperClaim, both, counted, in_both

HALF, FULL, SEA = ("DDC-AT", "PGD-AT", "SegPGD-AT"), ("PGD-AT-100", "SegPGD-AT-100"), ("SEA-AT-Tiny", "SEA-AT-Small")
NORMAL = ("Normal", "Normal-Tiny", "Normal-Small")
CLEAN, WORST = "clean", "halmosi 8/255"
UNIT = ["dataset", "model", "training", "view", "metric"]


def claims() -> list[PaperClaim]:
    """Every claim, in the order of the page."""
    figures = both(published.frame(source="halmosi"))
    summary = {name: _clean_and_worst(rows) for name, rows in figures.items()}
    attacks = {name: _attacks(rows) for name, rows in figures.items()}
    return [
        PaperClaim(
            "Robust models that are not",
            "models trained with 50 % adversarial batches show no robustness by any metric",
            "Sec. 1.1 and 5.1, Table 1",
            counted(
                summary,
                lambda table: {
                    name: [worst < 0.05 for worst in _of(table, training, view="all")[WORST]]
                    for name, training in (("50 % adversarial batches", HALF), ("no adversarial images", ("Normal",)))
                },
            ),
            "Whether less than 5 % is left, in every metric, with background.",
        ),
        PaperClaim(
            "All batches adversarial: some accuracy, low mIoU, a worse clean model",
            "some accuracy, very low mIoU, clean performance much worse",
            "Sec. 5.1, Table 1",
            counted(summary, _all_adversarial),
        ),
        PaperClaim(
            "SEA-AT keeps its clean performance, not its NmIoU",
            "clean close to the normal model; NmIoU drops to a fraction",
            "Sec. 5.1, Table 2",
            counted(summary, _sea),
            "Close: within a tenth of the normal model's. A fraction: less than a quarter is kept. Clean and attacked "
            "NmIoU of these models cannot be on one scale (flag `nmiou_scale`).",
        ),
        PaperClaim(
            "Size bias: CmIoU above NmIoU under attack",
            "robust CmIoU exceeds NmIoU for the SEA-AT models only",
            "Sec. 5.1",
            counted(summary, _size_bias),
            "Exceeds: by half a point at least (bound ours). It holds with background. Without it the models trained "
            "on adversarial images only have CmIoU above NmIoU too, as all have on clean images.",
        ),
        _small_objects(),
        PaperClaim(
            "The foreground is more vulnerable",
            "ignoring the background robustness is lower, most for models trained on adversarial images only",
            "Sec. 5.1",
            counted(summary, _foreground),
            "Whether accuracy in the worst case is lower without background, and by more for every model trained on "
            "adversarial images only than for each SEA-AT model.",
        ),
        PaperClaim(
            "The set of attacks is stronger than each of them",
            "the aggregate is often much stronger than the best single attack",
            "Abstract and Sec. 5.2, Tables 3 to 7",
            counted(
                attacks,
                lambda table: {
                    "by two points or more, robust models": [
                        bool(row[WORST] < row.drop(WORST).min() - 0.02)
                        for _, row in _rows(table, (*FULL, *SEA)).iterrows()
                    ],
                },
                mostly=True,
            ),
            "Over every metric and view; confirmed in more than half. That the aggregate is not above an attack is so "
            "by construction and no case: it takes the worst attack of each image. The attack names of these tables "
            "were inferred from the order of rows (flag `label_inferred`).",
        ),
        _diversity(attacks),
        _not_dominated(attacks),
        PaperClaim(
            "Normal models fall to PAdam-Cos, SEA-AT to SEA",
            "PAdam is the strongest on normal models, SEA on robust ones",
            "Sec. 5.2",
            counted(
                attacks,
                lambda table: {
                    "Normal: PAdam-Cos": _wins(table, ("Normal",), ("padam-cos",)),
                    "Normal of UPerNet: PAdam-Cos": _wins(table, NORMAL[1:], ("padam-cos",)),
                    "PGD-AT-100: a SEA attack": _wins(table, ("PGD-AT-100",), SEA_ATTACKS),
                    "SegPGD-AT-100: a SEA attack": _wins(table, ("SegPGD-AT-100",), SEA_ATTACKS),
                    "SEA-AT: a SEA attack": _wins(table, SEA, SEA_ATTACKS),
                },
                mostly=True,
            ),
            "Whether the lowest figure of a column belongs to such an attack; confirmed where in more than half.",
        ),
        PaperClaim(
            "PSPNet and DeepLabv3 behave alike",
            "the architecture makes no difference, the share of adversarial images decides",
            "Suppl. S.9",
            counted(summary, _architectures),
            "Whether the two differ by less under attack than 100 % differs from 50 % adversarial batches.",
        ),
        PaperClaim(
            "Robustness costs clean performance",
            "the accuracy-robustness trade-off exists once measured well",
            "Sec. 5.1",
            counted(summary, _trade_off),
            "Whether training on adversarial images only lowers clean NmIoU and raises it under attack, over Normal.",
        ),
    ]


SEA_ATTACKS = ("sea-jsd", "sea-mce", "sea-msl", "sea-bce")


def _clean_and_worst(rows: pd.DataFrame) -> pd.DataFrame:
    """Tables 1 and 2: clean and worst case, a row per model, dataset, view and metric."""
    rows = rows[rows["table"].isin(["1", "2"])]
    return rows.set_index([*UNIT, "threat"])["value"].unstack("threat").dropna().reset_index()


def _attacks(rows: pd.DataFrame) -> pd.DataFrame:
    """Tables 4 to 7: a row per model, dataset, view and metric, a column per attack and for the aggregate."""
    rows = rows[rows["table"].isin(["4", "5", "6", "7"]) & rows["kind"].ne("clean")]
    return rows.set_index([*UNIT, "threat"])["value"].unstack("threat").dropna()


def _of(table: pd.DataFrame, training: tuple[str, ...], **chosen: str) -> pd.DataFrame:
    table = table[table["training"].isin(training)]
    for column, value in chosen.items():
        table = table[table[column].eq(value)]
    return table


def _rows(table: pd.DataFrame, training: tuple[str, ...]) -> pd.DataFrame:
    return table[table.index.get_level_values("training").isin(training)]


def _wins(table: pd.DataFrame, training: tuple[str, ...], names: tuple[str, ...]) -> list[bool]:
    """Whether one of some attacks leaves the least, for every column of the tables."""
    best = _rows(table, training).drop(columns=WORST).idxmin(axis=1)
    return [str(name).removesuffix(" linf 8/255") in names for name in best]


def _all_adversarial(table: pd.DataFrame) -> dict[str, list[bool]]:
    full = _of(table, FULL, view="all")
    normal = _of(table, ("Normal",), view="all", metric="NmIoU").set_index(["dataset", "model"])[CLEAN]
    clean = full[full["metric"].eq("NmIoU")]
    return {
        "accuracy above 35 %": [value > 0.35 for value in full.loc[full["metric"].eq("aAcc"), WORST]],
        "NmIoU below 25": [value < 0.25 for value in clean[WORST]],
        "clean NmIoU at least 10 points lower": [
            bool(value < normal[dataset, f"{model.split()[0]} Normal"] - 0.1)
            for dataset, model, value in clean[["dataset", "model", CLEAN]].itertuples(index=False)
        ],
    }


def _sea(table: pd.DataFrame) -> dict[str, list[bool]]:
    sea = _of(table, SEA, view="all")
    normal = _of(table, NORMAL[1:], view="all").set_index(["training", "metric"])[CLEAN]
    accuracy, nmiou = (sea[sea["metric"].eq(metric)] for metric in ("aAcc", "NmIoU"))
    return {
        "clean accuracy within a tenth": [
            bool(value > 0.9 * normal[training.replace("SEA-AT", "Normal"), "aAcc"])
            for training, value in accuracy[["training", CLEAN]].itertuples(index=False)
        ],
        "NmIoU keeps less than a quarter": [bool(value < 0.25) for value in nmiou[WORST] / nmiou[CLEAN]],
    }


def _size_bias(table: pd.DataFrame) -> dict[str, list[bool]]:
    wide = table.pivot(index=["dataset", "model", "training", "view"], columns="metric", values=WORST).dropna()
    above = (wide["mIoU"] > wide["NmIoU"] + 0.005).reset_index(name="above")
    found = {}
    for view, words in (("all", "with background"), ("foreground", "without")):
        found[f"SEA-AT, {words}"] = list(_of(above, SEA, view=view)["above"])
        found[f"not for 100 % adversarial batches, {words}"] = [
            not each for each in _of(above, FULL, view=view)["above"]
        ]
    return found


def _foreground(table: pd.DataFrame) -> dict[str, list[bool]]:
    rows = table[table["metric"].eq("aAcc") & table["dataset"].eq("voc")]
    wide = rows.pivot(index=["model", "training"], columns="view", values=WORST).reset_index()
    lost = {
        name: [float(whole - inside) for inside, whole in _of(wide, training)[["foreground", "all"]].to_numpy()]
        for name, training in (("100 % adversarial batches", FULL), ("SEA-AT", SEA))
    }
    full, sea = lost.values()
    found = {name: [each > 0 for each in values] for name, values in lost.items()}
    return {**found, "most for 100 % adversarial batches": [each > max(sea) for each in full] if sea else []}


def _architectures(table: pd.DataFrame) -> dict[str, list[bool]]:
    rows = table[table["metric"].eq("aAcc") & table["view"].eq("all")].assign(
        architecture=lambda each: each["model"].str.split().str[0]
    )
    wide = rows.pivot(index=["dataset", "training"], columns="architecture", values=WORST)[
        ["PSPNet", "DeepLabv3"]
    ].dropna()
    values = {
        key: (float(first), float(second)) for key, (first, second) in zip(wide.index, wide.to_numpy(), strict=True)
    }
    found = {}
    for dataset in ("voc", "cityscapes"):
        for full, half in (("PGD-AT-100", "PGD-AT"), ("SegPGD-AT-100", "SegPGD-AT")):
            whole, part = values[dataset, full], values[dataset, half]
            share = min(abs(one - other) for one, other in zip(whole, part, strict=True))
            found[f"{dataset}, {full}"] = [abs(whole[0] - whole[1]) < share]
    return found


def _trade_off(table: pd.DataFrame) -> dict[str, list[bool]]:
    rows = table[table["metric"].eq("NmIoU") & table["view"].eq("all")]
    columns = ["dataset", "model", CLEAN, WORST]
    normal = {
        (dataset, model): (clean, worst)
        for dataset, model, clean, worst in _of(rows, ("Normal",))[columns].itertuples(index=False)
    }
    lower, higher = [], []
    for dataset, model, clean, worst in _of(rows, FULL)[columns].itertuples(index=False):
        other = normal[dataset, f"{model.split()[0]} Normal"]
        lower.append(bool(clean < other[0]))
        higher.append(bool(worst > other[1]))
    return {"clean NmIoU is lower": lower, "NmIoU under attack is higher": higher}


def _strongest(attacks: pd.DataFrame) -> pd.DataFrame:
    """Which attack is the strongest on models trained on adversarial images only."""
    robust = _rows(attacks, (*FULL, *SEA))
    accuracy = robust[robust.index.get_level_values("metric") == "aAcc"].drop(columns=WORST)
    names = [] if accuracy.empty else list(accuracy.idxmin(axis=1))
    counts = pd.Series([str(name).removesuffix(" linf 8/255") for name in names], dtype=object).value_counts()
    return pd.DataFrame(
        [
            {
                "columns of tables": str(len(accuracy)),
                "strongest attack": ", ".join(f"{name} ({count})" for name, count in counts.items()),
                "verdict": OPEN if counts.empty else YES if len(counts) > 1 else NO,
            }
        ]
    )


def _diversity(attacks: Figures) -> PaperClaim:
    return PaperClaim(
        "Different models fall to different attacks",
        "no attack dominates; a diverse set is needed",
        "Sec. 5.2",
        in_both(attacks, _strongest),
        "Attack with the lowest pixel accuracy over a whole dataset, models trained on adversarial images only.",
    )


def _not_dominated(attacks: Figures) -> PaperClaim:
    def rows(table: pd.DataFrame) -> pd.DataFrame:
        found = []
        for words, training in (("Normal", NORMAL), ("100 % adversarial batches, SEA-AT", (*FULL, *SEA))):
            chosen = _rows(table, training)
            sea = chosen[[f"{name} linf 8/255" for name in SEA_ATTACKS]].min(axis=1)
            below = chosen["padam-cos linf 8/255"] < sea
            verdict = OPEN if below.empty else YES if below.any() else NO
            found.append({"models": words, "below every SEA attack in": _of_all(below), "verdict": verdict})
        return pd.DataFrame(found)

    return PaperClaim(
        "PAdam-Cos is not dominated by SEA",
        "PAdam-Cos is not dominated by SEA, which dominates CosPGD",
        "Sec. 3.1",
        in_both(attacks, rows),
        "Columns of the tables (every metric and view) in which PAdam-Cos leaves less than each of the four SEA "
        "attacks; to be dominated is to have none, so one is enough. That SEA dominates CosPGD is cited there, without "
        "figures.",
    )


def _of_all(holds: pd.Series) -> str:
    return f"{int(holds.sum())} of {len(holds)} columns"


def _small_objects() -> PaperClaim:
    figures = published.frame(source="halmosi")
    figures = figures[figures["table"].isin(["1", "2"]) & figures["training"].str.contains("-100|SEA-AT")]
    evidence = []
    for name, rows in both(figures).items():
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
    return PaperClaim(
        "Small objects fall first",
        "small objects are more easily attacked, even where large ones are robust",
        "Abstract",
        pd.DataFrame(evidence),
        "Models trained on adversarial images only, under the strongest attack: NmIoU falls more than CmIoU; confirmed "
        "means that the ratio falls for all. It falls for the SEA-AT models alone, whose clean and "
        "attacked NmIoU cannot be on one scale. NmIoU over CmIoU is an indirect sign; "
        "`gauntlet.analysis.size_bias` measures objects.",
    )
