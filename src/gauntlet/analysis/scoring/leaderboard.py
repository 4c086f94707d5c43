"""Leaderboards: models in order, with the scores that decide it and the faults that speak against them."""

from __future__ import annotations

import pandas as pd

from gauntlet.analysis.frames import of_metric, one_each, unit_columns
from gauntlet.analysis.scoring.ranking import rank
from gauntlet.analysis.scoring.scores import score_columns, scores
from gauntlet.analysis.scoring.shared_threats import with_worst_corruption
from gauntlet.errors import unknown_name

_BOARD_COLUMNS = ("source", "task", "dataset", "split", "dataset_digest", "view")


def leaderboard(
    frame: pd.DataFrame, metric: str | None = None, *, sort_by: str | None = None, view: str = "all"
) -> pd.DataFrame:
    """The models of every dataset, best first, ranked as `gauntlet.analysis.scoring.ranking.rank` says.

    Args:
        frame: tidy figures of the store or the published ones.
        metric: by default mIoU for segmentation and mAP for detection.
        sort_by: one of the score columns; by default, on every dataset, that of `deciding_score` for its models.
        view: "all" is the whole image.

    Returns:
        `rank` within the dataset (1 is best, ties share the better rank, models without the score come last and have
        none), `ranked_by` (the score), the columns of `scores` and, for figures of a store, "worst corruption".
    """
    table = scores(frame, metric, view=view)
    groups = [column for column in _BOARD_COLUMNS if column in table]
    rows = of_metric(frame, metric)
    table = with_worst_corruption(table, rows[rows["view"].eq(view)] if "view" in rows else rows, groups)
    columns = score_columns(table)
    if sort_by is not None and sort_by not in columns:
        raise unknown_name("score to sort by", sort_by, columns)
    boards = []
    for _, board in table.groupby(groups, dropna=False):
        values = zip(board["model"], board.index, board[columns].to_numpy(float).tolist(), strict=True)
        by_model = {(str(model), row): dict(zip(columns, own, strict=True)) for model, row, own in values}
        decisive, ranks = rank(by_model, sort_by)
        ordered = board.loc[[row for _, row in ranks]]
        ordered.insert(0, "rank", pd.Series(list(ranks.values()), ordered.index, dtype="Int64"))
        ordered.insert(1, "ranked_by", decisive)
        boards.append(ordered)
    return pd.concat(boards, ignore_index=True)


def threat_table(frame: pd.DataFrame, metric: str | None = None) -> pd.DataFrame:
    """One row per model, dataset and view, one column per threat, in the order of the frame."""
    rows = of_metric(frame, metric)
    rows = rows[rows["kind"].ne("summary")]
    keys = unit_columns(rows)
    order = list(dict.fromkeys(rows["threat"]))
    rows = one_each(rows, [*keys, "threat"])
    wide = rows.set_index([*keys, "threat"])["value"].unstack("threat")[order]
    return wide.reset_index().rename_axis(columns=None)
