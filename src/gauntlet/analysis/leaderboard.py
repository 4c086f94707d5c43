"""Leaderboards: models in order, with the scores that decide it and the faults that speak against them."""

from __future__ import annotations

import pandas as pd

from gauntlet.analysis.frames import MODEL_FACTS, of_metric, one_each
from gauntlet.analysis.summary import scores
from gauntlet.errors import unknown_name
from gauntlet.results.published.summaries import unit_columns

_NOT_SCORES = {"metric", "flag", *MODEL_FACTS}


def leaderboard(
    frame: pd.DataFrame, metric: str | None = None, *, sort_by: str | None = None, view: str = "all"
) -> pd.DataFrame:
    """The models of every dataset, best first.

    Args:
        frame: tidy figures of the store or the published ones.
        metric: by default mIoU for segmentation and mAP for detection.
        sort_by: one of the score columns; by default GAM, else ReM, else clean, whichever is there.
        view: "all" is the whole image.

    Returns:
        `rank` within the dataset (1 is best, ties share the better rank, models without the score come last and have
        none) and the columns of `scores`.
    """
    table = scores(frame, metric, view=view)
    columns = score_columns(table)
    if sort_by is None:
        sort_by = next((name for mark in ("GAM_", "-ReM^") for name in columns if mark in name), "clean")
    if sort_by not in columns:
        raise unknown_name("score to sort by", sort_by, columns)
    units = ("source", "task", "dataset", "split", "dataset_digest", "view")
    groups = [column for column in units if column in table]
    rank = table.groupby(groups, dropna=False)[sort_by].rank(method="min", ascending=False)
    table.insert(0, "rank", rank.astype("Int64"))
    by = [*groups, "rank", "model"]
    return table.sort_values(by, na_position="last", kind="stable").reset_index(drop=True)


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
