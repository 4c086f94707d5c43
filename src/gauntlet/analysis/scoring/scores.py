"""Every score of a model in one row: clean, ReM, GAM, families of corruptions, batteries, real weather."""

from __future__ import annotations

import pandas as pd

from gauntlet.analysis.frames import (
    MODEL_FACTS,
    group_codes,
    of_metric,
    one_each,
    union_of_flags,
    unit_columns,
    with_clean,
)
from gauntlet.analysis.scoring.rem_gam import corruption_families, gam, rem

WEATHER_DATASET = "acdc"
_NOT_SCORES = {"metric", "flag", "rank", "ranked_by", "year", *MODEL_FACTS}
_OWN_COLUMN = ("weather", "battery", "region_aware")


def summaries(frame: pd.DataFrame, metric: str | None = None) -> pd.DataFrame:
    """ReM and GAM of every model, tidy: columns as `rem` and `gam` give them.

    Args:
        frame: tidy figures.
        metric: by default mIoU for segmentation and mAP for detection.
    """
    rows = of_metric(frame, metric)
    parts = [part for part in (rem(rows), gam(rows)) if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else rem(rows)


def scores(
    frame: pd.DataFrame, metric: str | None = None, *, view: str = "all", weather: str = WEATHER_DATASET
) -> pd.DataFrame:
    """One row per model and dataset with every score in a column of its own.

    Columns: the unit (model, dataset, ...), what is known about the model, `metric`, `clean`, one per summary
    ("linf-ReM^8_20", "GAM_3"), "mean of ..." over the same members, "noise_3" and the other corruption families (mean
    over the family), "acdc all" and so on for real weather, one per battery and region-aware
    attack, `year`, and `flag` (those of all its figures).

    Args:
        frame: tidy figures of the store or the published ones.
        metric: by default mIoU for segmentation and mAP for detection.
        view: "all" is the whole image; published figures also have "foreground".
        weather: a dataset whose clean figures count as real weather for models of other datasets.
    """
    rows = of_metric(frame, metric)
    rows = _weather_as_threat(rows[rows["view"].eq(view)] if "view" in rows else rows, weather)
    keys = [*unit_columns(rows), "metric"]
    table, units = group_codes(rows, keys)
    if "flag" in rows:
        table["flag"] = union_of_flags(rows, units, len(table))
    facts = [column for column in MODEL_FACTS if column in rows]
    table = table.join(rows.drop_duplicates(keys)[facts].reset_index(drop=True))
    table = with_clean(table, rows, keys)
    summarised = summaries(rows, metric)
    for column, prefix in (("value", ""), ("mean", "mean of ")):
        table = _add_columns(table, summarised, keys, "summary", column, prefix)
    table = _add_columns(table, corruption_families(rows), keys, "summary", "mean")
    others = one_each(rows[rows["kind"].isin(_OWN_COLUMN)], [*keys, "threat"])
    table = _add_columns(table, others, keys, "threat", "value")
    if "date" in table:
        table["year"] = decimal_year(table["date"])
    return table.reset_index(drop=True)


def score_columns(table: pd.DataFrame) -> list[str]:
    """The columns of a table of scores that hold scores."""
    skip = _NOT_SCORES | set(unit_columns(table))
    return [column for column in map(str, table.columns) if column not in skip]


def decimal_year(dates: pd.Series) -> pd.Series:
    """Dates as years with a fraction: 2 July 2021 is about 2021.5."""
    years: pd.Series = dates.dt.year + (dates.dt.day_of_year - 1) / 365.25
    return years


def _add_columns(
    table: pd.DataFrame, rows: pd.DataFrame, keys: list[str], names: str, values: str, prefix: str = ""
) -> pd.DataFrame:
    if rows.empty:
        return table
    order = list(dict.fromkeys(rows[names]))
    wide = rows.set_index([*keys, names])[values].unstack(names)[order].add_prefix(prefix)
    return table.merge(wide.reset_index(), on=keys, how="left")


def _conditions(rows: pd.DataFrame) -> pd.Series:
    """What weather figures are of: "fog", "all", "fog train"; the split where a frame does not know."""
    if "condition" not in rows:
        return rows["split"]
    known, split = rows["condition"].fillna(""), rows["split"]
    return split.where(known.eq(""), known + (" " + split).where(split.ne("val"), ""))


def _weather_as_threat(rows: pd.DataFrame, weather: str) -> pd.DataFrame:
    """Adds the clean figures on the weather dataset to the other datasets of the same model."""
    real = rows["dataset"].eq(weather)
    if not real.any():
        return rows
    model = [column for column in ("source", "task", "model", "model_digest", "seed") if column in rows]
    unit = [column for column in unit_columns(rows) if column not in model]
    others = rows[~real].drop_duplicates([*model, *unit])[[*model, *unit]]
    moved = rows[real & rows["kind"].eq("clean")]
    names = moved["dataset"] + " " + _conditions(moved)
    if "dataset_digest" in moved:  # one split in two sizes or protocols is two columns
        several = moved["dataset_digest"].groupby(names).transform("nunique").gt(1)
        names = names.mask(several, names + " [" + moved["dataset_digest"].astype(str).str[:8] + "]")
    moved = moved.assign(kind="weather", threat=names)
    moved = moved.drop(columns=unit).merge(others, on=model)
    return pd.concat([rows, moved], ignore_index=True)
