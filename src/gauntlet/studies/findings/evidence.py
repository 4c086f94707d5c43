"""Claims of papers and the published figures for them: correlations, groups, counts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gauntlet import analysis
from gauntlet.analysis.correlation import LEAST_PAIRS, RESAMPLES
from gauntlet.analysis.correlation import interval as spearman_interval
from gauntlet.results import published
from gauntlet.studies.correlation_rules import NO, OPEN, YES, Judge, judge_difference
from gauntlet.studies.figure_tables import PAPER_TYPE, TYPE, label

SELECTIONS = ("all cells", "flagged cells excluded")
DATASETS = ("ade20k", "cityscapes", "voc")

Evidence = pd.DataFrame
Figures = Mapping[str, pd.DataFrame]
"""Tables by the selection of their cells."""


@dataclass(frozen=True)
class PaperClaim:
    """A claim and the numbers for it.

    Attributes:
        title: the claim in a few words.
        words: what the paper says, in short.
        place: section, table or figure where it says so.
        evidence: rows of numbers, the last column `verdict`.
        remark: what a reader should know beside the numbers.
    """

    title: str
    words: str
    place: str
    evidence: Evidence
    remark: str = ""


def both(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Figures with every cell, and without the cells of known faults and doubts."""
    return dict(zip(SELECTIONS, (rows, published.unflagged(rows)), strict=True))


NO_CLAIM = "no claim"
"""In the place of a verdict where the paper says nothing: a control."""


def in_both(figures: Figures, rows: Callable[[pd.DataFrame], pd.DataFrame]) -> Evidence:
    """Rows of numbers with both selections of cells, each under its name."""
    parts = []
    for name, table in figures.items():
        part = rows(table)
        part.insert(1, "cells", name)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def correlation_row(table: pd.DataFrame, x: str, y: str, judge: Judge) -> dict[str, str]:
    """n, the three coefficients with intervals, and a verdict on Spearman's."""
    pair = table.reindex(columns=[x, y]).astype(float)  # a figure whose cells are all flagged is missing
    rows = analysis.correlate(pair[x], pair[y]).to_dict("records")
    by_name = {str(row["coefficient"]): row for row in rows}
    return {
        "models": str(by_name["spearman"]["n"]),
        "Pearson r": interval(by_name["pearson"]),
        "Spearman rho": interval(by_name["spearman"]),
        "Kendall tau-b": interval(by_name["kendall"]),
        "verdict": judge(by_name["spearman"]),
    }


def correlation_rows(tables: Figures, pairs: Sequence[tuple[str, str, str]], judge: Judge) -> Evidence:
    """Correlations of (dataset, x, y) with both selections of cells."""
    rows = []
    for dataset, x, y in pairs:
        for name, table in tables.items():
            chosen = table[table["dataset"].eq(dataset)]
            pair = f"{dataset}: {label(x)}, {label(y)}"
            rows.append({"pair": pair, "cells": name, **correlation_row(chosen, x, y, judge)})
    return pd.DataFrame(rows)


def partial_rows(tables: Figures, pairs: Sequence[tuple[str, str, str]], fixed: str, judge: Judge) -> Evidence:
    """Spearman's partial correlations of (dataset, x, y) with a third figure held fixed, with both selections."""
    rows = []
    for dataset, x, y in pairs:
        for name, table in tables.items():
            values = table.loc[table["dataset"].eq(dataset), [x, y, fixed]].dropna().to_numpy(float)  # (models, 3)
            found = partial_correlation(values)
            pair = f"{dataset}: {label(x)}, {label(y)} at equal {label(fixed)}"
            rows.append(
                {
                    "pair": pair,
                    "cells": name,
                    "models": str(len(values)),
                    "partial rho": interval(found),
                    "verdict": judge(found),
                }
            )
    return pd.DataFrame(rows)


def partial_correlation(values: npt.NDArray[np.float64], resamples: int = RESAMPLES) -> dict[Hashable, Any]:
    """Correlation of the ranks of two columns with the ranks of the third held fixed, with its interval.

    Args:
        values: (n, 3), without NaN.
        resamples: bootstrap samples of the rows, seed 0.
    """
    draws = np.random.default_rng(0).integers(0, len(values), (resamples, len(values)))
    found = np.array([_partial(values), *(_partial(values[draw]) for draw in draws)])
    low, high = (
        spearman_interval("spearman", found, len(values), fixed=1) if len(values) > LEAST_PAIRS else (np.nan,) * 2
    )
    return {"value": float(found[0]), "low": low, "high": high, "n": len(values), "warning": ""}


def _partial(values: npt.NDArray[np.float64]) -> float:
    xy, xz, yz = np.corrcoef(pd.DataFrame(values).rank().to_numpy(), rowvar=False)[[0, 0, 1], [1, 2, 2]]
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample in which two columns rank alike
        return float((xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2)))


def group_rows(tables: Figures, scores: Sequence[str], *, datasets: Sequence[str]) -> Evidence:
    """Transformer against convolution backbones in several scores: means, difference with interval, p-value.

    As the papers count them: InternImage is a transformer. Where there are such models, a last column has the
    difference with them as convolutions, which is what their table of models says and they are.
    """
    rows = []
    for dataset in datasets:
        for score in scores:
            for name, table in tables.items():
                chosen = table[table["dataset"].eq(dataset)]
                kinds = [PAPER_TYPE] if chosen[PAPER_TYPE].equals(chosen[TYPE]) else [PAPER_TYPE, TYPE]
                found = [
                    analysis.compare_groups(chosen, score, kind, "convolution", "transformer").iloc[0] for kind in kinds
                ]
                groups, differences = found[0], [_difference(each) for each in found]
                rows.append(
                    {
                        "dataset": dataset,
                        "score": label(score),
                        "cells": name,
                        "convolution": f"{percent(groups['mean_first'])} ({groups['n_first']})",
                        "transformer": f"{percent(groups['mean_second'])} ({groups['n_second']})",
                        "difference": differences[0],
                        "p": f"{groups['p_value']:.3f}",
                        **({"InternImage as convolution": differences[1]} if len(differences) > 1 else {}),
                        "verdict": judge_difference(float(groups["low"]), float(groups["high"])),
                    }
                )
    return pd.DataFrame(rows)


def _difference(groups: pd.Series) -> str:
    if np.isnan(groups["low"]):
        return points(groups["difference"])
    return f"{points(groups['difference'])} [{points(groups['low'])}, {points(groups['high'])}]"


def counted(
    figures: Figures, cases: Callable[[pd.DataFrame], Mapping[str, Sequence[bool]]], *, mostly: bool = False
) -> Evidence:
    """In how many of its cases a claim holds; confirmed where in all of them, with `mostly` in more than half."""
    rows = []
    for name, table in figures.items():
        for case, holds in cases(table).items():
            enough = sum(holds) > len(holds) / 2 if mostly else all(holds)
            verdict = OPEN if not len(holds) else YES if enough else NO
            rows.append({"case": case, "cells": name, "holds in": f"{sum(holds)} of {len(holds)}", "verdict": verdict})
    return pd.DataFrame(rows)


def interval(row: Mapping[Hashable, Any]) -> str:
    """A coefficient with its interval: "0.87 [0.68, 0.95]"."""
    if np.isnan(row["value"]):
        return "-"
    if np.isnan(row["low"]):
        return f"{row['value']:.2f}"
    return f"{row['value']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def percent(value: float) -> str:
    """A fraction as a percentage."""
    return f"{100 * value:.1f} %"


def points(value: float) -> str:
    """A difference of fractions in percentage points, with its sign."""
    return f"{100 * value:+.1f}"
