"""Worst cases that are fair to every model: over the threats that all of them were run under."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gauntlet.analysis.frames import one_each, unit_columns

WORST_CORRUPTION = "worst corruption"


def shared_threats(figures: pd.DataFrame) -> list[str]:
    """The threats that every model with a figure under any of them was run under.

    Args:
        figures: a row per model, a column per threat, NaN where there is no figure.
    """
    present = ~np.isnan(figures.to_numpy(float))
    if not present.any():
        return []
    complete = present[present.any(axis=1)].all(axis=0)
    return [str(name) for name, each in zip(figures.columns, complete, strict=True) if each]


def with_worst_corruption(table: pd.DataFrame, rows: pd.DataFrame, boards: list[str]) -> pd.DataFrame:
    """A table of scores with the column WORST_CORRUPTION: the smallest figure over the shared corruptions.

    Published figures have none: which corruptions a paper ran is no choice of its models.

    Args:
        table: one row per model, dataset and view.
        rows: the figures that its scores are made of.
        boards: columns that tell leaderboards apart; corruptions are shared within one.
    """
    if "key" not in rows:
        return table
    own = rows[rows["kind"].eq("corruption") & rows["key"].notna() & rows["key"].ne("")]
    keys = [*unit_columns(own), "metric"]
    parts = []
    for _, board in one_each(own, [*keys, "threat"]).groupby(boards, dropna=False):
        figures = board.set_index([*keys, "threat"])["value"].unstack("threat")
        parts.append(figures[shared_threats(figures)].min(axis=1).rename(WORST_CORRUPTION))
    return table.merge(pd.concat(parts).reset_index(), on=keys, how="left") if parts else table
