"""Leaderboards: models in order, with the scores that decide it and the faults that speak against them."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from gauntlet.analysis.frames import MODEL_FACTS, of_metric, one_each
from gauntlet.analysis.summary import scores
from gauntlet.errors import unknown_name
from gauntlet.results.published.summaries import unit_columns

_NOT_SCORES = {"metric", "flag", *MODEL_FACTS}
_PREFERRED = ("GAM_3", "GAM_", "worst corruption", "-ReM^", "halmosi 8/255")


def leaderboard(
    frame: pd.DataFrame, metric: str | None = None, *, sort_by: str | None = None, view: str = "all"
) -> pd.DataFrame:
    """The models of every dataset, best first.

    Args:
        frame: tidy figures of the store or the published ones.
        metric: by default mIoU for segmentation and mAP for detection.
        sort_by: one of the score columns; by default the first in the order of `by_preference` that anybody has.
        view: "all" is the whole image.

    Returns:
        `rank` within the dataset (1 is best, ties share the better rank, models without the score come last and have
        none) and the columns of `scores`.
    """
    table = scores(frame, metric, view=view)
    columns = score_columns(table)
    if sort_by is None:
        filled = [name for name in columns if table[name].notna().any()]
        sort_by = by_preference(filled or columns)[0]
    if sort_by not in columns:
        raise unknown_name("score to sort by", sort_by, columns)
    units = ("source", "task", "dataset", "split", "dataset_digest", "view")
    groups = [column for column in units if column in table]
    rank = table.groupby(groups, dropna=False)[sort_by].rank(method="min", ascending=False)
    table.insert(0, "rank", rank.astype("Int64"))
    by = [*groups, "rank", "model"]
    return table.sort_values(by, na_position="last", kind="stable").reset_index(drop=True)


def by_preference(names: Iterable[str]) -> list[str]:
    """Scores in the order in which models are ranked by them, unless somebody asks for something else.

    GAM (of severity 3 first), the worst corruption, ReM, the battery of Halmosi et al., clean, then all others. Give
    only names of scores that somebody has.

    >>> by_preference(["clean", "mean of GAM_3", "linf-ReM^8_1", "linf-ReM^8_20"])
    ['linf-ReM^8_20', 'linf-ReM^8_1', 'clean', 'mean of GAM_3']
    """
    return sorted(names, key=_preference)


def _preference(name: str) -> tuple[int, int]:
    last = len(_PREFERRED)
    if name == "clean":
        return last, 0
    if name.startswith("mean of "):
        return last + 1, 0
    place = next((index for index, mark in enumerate(_PREFERRED) if mark in name), last + 1)
    steps = name.rpartition("_")[2]
    # Of several ReMs the one with the most steps: a single step tells little.
    return place, -int(steps) if "-ReM^" in name and steps.isdigit() else 0


def score_columns(table: pd.DataFrame) -> list[str]:
    """The columns of a table of scores that hold scores."""
    skip = _NOT_SCORES | set(unit_columns(table)) | {"rank", "year"}
    return [column for column in map(str, table.columns) if column not in skip]


def threat_table(frame: pd.DataFrame, metric: str | None = None) -> pd.DataFrame:
    """One row per model, dataset and view, one column per threat, in the order of the frame."""
    rows = of_metric(frame, metric)
    rows = rows[rows["kind"].ne("summary")]
    keys = unit_columns(rows)
    order = list(dict.fromkeys(rows["threat"]))
    rows = one_each(rows, [*keys, "threat"])
    wide = rows.set_index([*keys, "threat"])["value"].unstack("threat")[order]
    return wide.reset_index().rename_axis(columns=None)
