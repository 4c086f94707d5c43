"""Claims of Arnab et al. (docs/specs/studies.md, 7, claims 45 to 53), from their tables 1 and 7 to 14."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gauntlet import analysis
from gauntlet.results import published
from gauntlet.studies.correlation_rules import NO, OPEN, YES, judge_positive
from gauntlet.studies.findings.evidence import PaperClaim, both, correlation_row, counted, in_both, percent

ATTACKS = ("fgsm", "fgsm ll", "iterative fgsm", "iterative fgsm ll")
VOC, CITYSCAPES = (tuple(map(str, range(start, start + 4))) for start in (7, 11))
"""Numbers of the tables, one for each attack."""
PSPNET, MULTISCALE = "PSPNet (ResNet)", "Deeplab v2 ASPP MS (ResNet)"
HEADS = (("FCN8s (ResNet)", "FCN8s (VGG)"), ("Deeplab v2 ASPP (ResNet)", "Deeplab v2 ASPP (VGG)"))
CONTEXT, FRONTEND = "Dilated Context (VGG)", "Dilated Frontend (VGG)"


def claims() -> list[PaperClaim]:
    """Every claim, in the order of the page."""
    tables = {name: ratios(rows) for name, rows in both(published.frame(source="arnab")).items()}
    return [
        PaperClaim(
            "ResNet above VGG under the same head",
            "residual backbones are more robust than VGG with the same head",
            "Sec. 5.1, Tables 7 to 10",
            counted(
                tables,
                lambda table: {f"{first} and {second}": _above(table, VOC, first, second) for first, second in HEADS},
                mostly=True,
            ),
            "IoU ratio, every attack and epsilon; confirmed where in more than half.",
        ),
        PaperClaim(
            "The most accurate network is not the most robust, VOC",
            "PSPNet is the most accurate; DeepLab v2 multiscale is more robust at every epsilon",
            "Sec. 5.1, Fig. 2 (FGSM, Iterative FGSM ll)",
            counted(
                tables,
                lambda table: {
                    name: _above(table, (number,), MULTISCALE, PSPNET)
                    for name, number in zip(ATTACKS, VOC, strict=True)
                },
            ),
            "The paper draws the first and the last attack; the other two are in its appendix.",
        ),
        PaperClaim(
            "How often PSPNet is best, VOC",
            "PSPNet has the best absolute IoU in 2 of 32 cases, never at epsilon up to 4",
            "Sec. 5.1, Tables 7 to 10",
            in_both(tables, _best_how_often),
            "Iterative FGSM at epsilon 0.25: 69.0 against 67.6.",
        ),
        PaperClaim(
            "PSPNet on Cityscapes",
            "PSPNet is typically the most robust",
            "Sec. 5.1 and 9, Tables 11 to 14",
            in_both(tables, _typically_best),
            "Confirmed means in more than half of the cells of an attack, by IoU ratio.",
        ),
        PaperClaim(
            "The context module lowers robustness",
            "the Context module is less robust than the Frontend at all epsilon",
            "Sec. 5.2, Tables 11 to 14",
            counted(
                tables,
                lambda table: {
                    name: _above(table, (number,), FRONTEND, CONTEXT)
                    for name, number in zip(ATTACKS, CITYSCAPES, strict=True)
                },
            ),
        ),
        PaperClaim(
            "Size does not decide",
            "E-Net and ICNet are about as robust as DilatedNet, which is better only against single steps at epsilon "
            "of 4 and more",
            "Sec. 5.2, Fig. 3",
            counted(tables, _small_networks, mostly=True),
            "Whether both small networks keep at least the IoU ratio of Dilated Context: iterative attacks, and single "
            "steps below epsilon 4; confirmed where in more than half.",
        ),
        PaperClaim(
            "Single steps are stronger on Cityscapes",
            "FGSM at epsilon 32 leaves far less than on VOC",
            "Sec. 5.3",
            in_both(tables, _single_step),
            "Printed are ratios 2.5, 2.8 and 8.0 against 27.9, 12.2 and 15.0; the tables give 2.6, 2.9 and 6.3 on "
            "Cityscapes, and 12.8 for Dilated Context on VOC.",
        ),
        PaperClaim(
            "Epsilon 0.25 hurts",
            "even at epsilon 0.25 every model loses at least 3 %",
            "Sec. 5.4",
            counted(tables, _at_a_quarter),
            "Relative loss of IoU. DeepLab v2 multiscale loses 2.2 % under Iterative FGSM ll.",
        ),
        PaperClaim(
            "Iterative attacks are stronger than single steps",
            "iterative attacks are the stronger ones",
            "Sec. 5.1",
            counted(tables, _iterative, mostly=True),
            "Whether the iterative form of the attack leaves less, cell by cell; confirmed where in more than half.",
        ),
        PaperClaim(
            "Clean and robust IoU are correlated, VOC",
            "a positive correlation under FGSM at epsilon 8",
            "Sec. 5.5, Fig. 4",
            _correlated(tables),
            "Nine networks.",
        ),
        _scales(),
        PaperClaim(
            "Several scales are more robust, and their attacks transfer best",
            "the multiscale network is the most robust; perturbations made on it transfer best",
            "Sec. 6, Table 1",
            counted(both(published.frame(source="arnab")), _multiscale),
            "DeepLab v2. Against its own attack the multiscale network keeps more than each scale against its own; "
            "attacks made on it leave less on the single scales, in the mean, than those made on other scales. The "
            "iterative cells are flagged.",
        ),
    ]


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Tables 7 to 14 with the clean IoU and the IoU ratio of every cell; epsilon in grey levels."""
    rows = rows[rows["table"].isin([*VOC, *CITYSCAPES])]
    clean = rows[rows["kind"].eq("clean")].set_index(["table", "model"])["value"]
    attacked = rows[rows["kind"].eq("attack")]
    keys = pd.MultiIndex.from_frame(attacked[["table", "model"]])
    values = clean.reindex(keys).to_numpy()
    levels = attacked["threat"].str.extract(r"([\d.]+)/255")[0].astype(float)
    return attacked.assign(clean=values, ratio=attacked["value"] / values, epsilon=levels)


def _wide(table: pd.DataFrame, numbers: tuple[str, ...], column: str = "ratio") -> pd.DataFrame:
    """A row per attack and epsilon, a column per network."""
    chosen = table[table["table"].isin(numbers)]
    return chosen.pivot(index=["table", "epsilon"], columns="model", values=column)


def _above(table: pd.DataFrame, numbers: tuple[str, ...], first: str, second: str) -> list[bool]:
    pair = _wide(table, numbers)[[first, second]].dropna()
    return [bool(one > other) for one, other in pair.to_numpy()]


def _best_how_often(table: pd.DataFrame) -> pd.DataFrame:
    best = _wide(table, VOC, "value").idxmax(axis=1).eq(PSPNET)
    small = best[best.index.get_level_values("epsilon") <= 4]
    return pd.DataFrame(
        [
            {"case": "best in", "found": f"{int(best.sum())} of {len(best)}", "printed": "2 of 32",
             "verdict": YES if best.sum() == 2 else NO},
            {"case": "epsilon up to 4", "found": f"{int(small.sum())} of {len(small)}", "printed": "never",
             "verdict": YES if not small.any() else NO},
        ]
    )  # fmt: skip


def _typically_best(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name, number in zip(ATTACKS, CITYSCAPES, strict=True):
        best = _wide(table, (number,)).idxmax(axis=1).eq(PSPNET)
        rows.append(
            {
                "attack": name,
                "best in": f"{int(best.sum())} of {len(best)}",
                "verdict": OPEN if best.empty else YES if best.mean() > 0.5 else NO,
            }
        )
    return pd.DataFrame(rows)


def _at_a_quarter(table: pd.DataFrame) -> dict[str, list[bool]]:
    found = {}
    for dataset, numbers in (("VOC", VOC), ("Cityscapes", CITYSCAPES)):
        for name, number in zip(ATTACKS, numbers, strict=True):
            cells = table[table["table"].eq(number) & table["epsilon"].eq(0.25)]
            found[f"{name} on {dataset}"] = [bool(ratio <= 0.97) for ratio in cells["ratio"]]
    return found


def _small_networks(table: pd.DataFrame) -> dict[str, list[bool]]:
    found = {}
    for name, number in zip(ATTACKS, CITYSCAPES, strict=True):
        wide = _wide(table, (number,))
        wide = wide if name.startswith("iterative") else wide[wide.index.get_level_values("epsilon") < 4]
        for network in ("ENet", "ICNet"):
            pair = wide[[network, CONTEXT]].dropna() if network in wide else wide.iloc[:0]
            found[f"{network}, {name}"] = [bool(row[network] >= row[CONTEXT]) for _, row in pair.iterrows()]
    return found


def _single_step(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    strongest = table[table["epsilon"].eq(32.0)].set_index(["table", "model"])["ratio"]
    for there, here in ((PSPNET, PSPNET), (CONTEXT, CONTEXT), ("FCN8s (VGG)", "FCN8 (VGG)")):
        city, voc = (float(strongest.get(each, np.nan)) for each in ((CITYSCAPES[0], here), (VOC[0], there)))
        verdict = OPEN if np.isnan([city, voc]).any() else YES if city < voc / 2 else NO
        rows.append({"network": there, "Cityscapes": percent(city), "VOC": percent(voc), "verdict": verdict})
    return pd.DataFrame(rows)


def _iterative(table: pd.DataFrame) -> dict[str, list[bool]]:
    found = {}
    for dataset, numbers in (("VOC", VOC), ("Cityscapes", CITYSCAPES)):
        for single, iterative, name in ((0, 2, "FGSM"), (1, 3, "FGSM ll")):
            first, second = (_wide(table, (numbers[each],)).droplevel("table") for each in (single, iterative))
            both_have = first.columns.intersection(second.columns)
            less = (second[both_have] < first[both_have]).to_numpy().ravel()
            found[f"{dataset}, {name}"] = [bool(each) for each in less]
    return found


def _multiscale(rows: pd.DataFrame) -> dict[str, list[bool]]:
    rows = rows[rows["table"].eq("1")]
    found: dict[str, list[bool]] = {}
    for threat in ("fgsm linf 8/255", "iterative fgsm ll linf 8/255"):
        chosen = rows["threat"].eq(threat).any()
        matrix = analysis.transfer_matrix(rows, threat).iloc[:4, :4].to_numpy() if chosen else np.empty((0, 0))
        single = matrix[:3, :3]
        off = single[~np.eye(len(single), dtype=bool)]
        found[f"{threat}: most robust"] = [bool(matrix[3, 3] > np.diag(single).max())] if chosen else []
        found[f"{threat}: transfers best"] = [bool(matrix[:3, 3].mean() < off.mean())] if chosen else []
    return found


def _correlated(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    rows = []
    for name, table in tables.items():
        chosen = table[table["table"].eq(VOC[0]) & table["epsilon"].eq(8.0)]
        rows.append({"cells": name, **correlation_row(chosen, "clean", "ratio", judge_positive)})
    return pd.DataFrame(rows)


def _scales() -> PaperClaim:
    figures = published.frame(source="arnab")
    evidence = []
    for name, rows in both(figures[figures["table"].eq("1")]).items():
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
    return PaperClaim(
        "Perturbations do not transfer between scales",
        "perturbations made at one scale do not transfer to another",
        "Sec. 6, Table 1",
        pd.DataFrame(evidence).sort_values("attack", kind="stable"),
        "IoU ratio of scales 50, 75 and 100 % of the same network, Table 1. The iterative cells are flagged: their "
        "white-box ratios disagree with the paper's own Tables 9 and 10.",
    )
