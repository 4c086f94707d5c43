"""Small tools over tidy frames of figures, shared by the analyses."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from gauntlet.analysis.order import in_order
from gauntlet.errors import GauntletError
from gauntlet.tasks import TASKS

MAIN_METRIC = {name: task.main_figure for name, task in TASKS.items()}
MODEL_FACTS = (
    *("architecture", "backbone", "backbone_type", "proposal_type", "training", "crop_size", "parameters", "date"),
    *("weight_first", "weight_second", "model_flag", "model_reason"),
)
"""Columns that say something about a model; a frame has them when it comes from the published figures or was joined
with a table of models."""
UNIT_COLUMNS = (
    *("source", "table", "task", "model", "model_digest", "code", "precision"),
    *("dataset", "split", "dataset_digest", "seed", "view"),
)
"""What makes figures comparable: one model on the same images in one view; only those a frame has are used."""
SAME = 1e-9


def unit_columns(frame: pd.DataFrame) -> list[str]:
    """Those of UNIT_COLUMNS that a frame has."""
    return [column for column in UNIT_COLUMNS if column in frame]


def require_columns(frame: pd.DataFrame, columns: Iterable[str], what: str) -> None:
    """An error that names the columns an analysis cannot do without."""
    missing = [column for column in columns if column not in frame]
    if missing:
        raise GauntletError(
            f"{what} needs the columns {', '.join(missing)}; this frame has {', '.join(frame.columns)}."
        )


def of_metric(frame: pd.DataFrame, metric: str | None) -> pd.DataFrame:
    """Figures of whole datasets in one metric; by default mIoU for segmentation and mAP for detection."""
    require_columns(frame, ["task", "metric", "value"], "an analysis of figures")
    rows = frame[frame["class_name"].eq("")] if "class_name" in frame else frame
    wanted = rows["task"].map(MAIN_METRIC) if metric is None else metric
    return comparable(rows[rows["metric"].eq(wanted)])


def comparable(frame: pd.DataFrame) -> pd.DataFrame:
    """The figures that may stand beside each other: one version and one name of every threat, in one order.

    All of it follows from what was evaluated; in which order evaluations were run is not looked at.
    """
    return in_order(one_name_each(frame[~is_older(frame)]))


def is_older(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """(n,) whether the same images have figures of a newer version of a row's metric, or of its threat.

    Two versions of a threat are two threats, and two versions of a metric two figures: a table, a score or a mean has
    the newest alone. Figures without recorded versions (0) are older than those with one.
    """
    older = np.zeros(len(frame), bool)
    images = [name for name in ("source", "task", "dataset", "split", "images", "dataset_digest") if name in frame]
    # Votes of certificates have a metric of their own.
    frame = frame.assign(votes=frame["kind"].eq("certify")) if "kind" in frame else frame
    for column, same in (("metric_version", ["votes"]), ("threat_version", ["kind", "description"])):
        if {column, *same} <= set(frame) and frame[column].nunique() > 1:
            rows = frame[~older]
            newest = rows.groupby([*images, *same], dropna=False)[column].transform("max")
            older[~older] = rows[column].lt(newest).to_numpy(bool)
    return older


def one_name_each(frame: pd.DataFrame) -> pd.DataFrame:
    """Gives every threat of a store one name in `threat`, that of its latest evaluation.

    A threat is its description; how one is called may differ between versions of Gauntlet. Frames that do not say when
    a figure was made (published ones) stay as they are.
    """
    if frame.empty or not {"threat", "description", "created"} <= set(frame):
        return frame
    stored = frame["created"].notna() & frame["description"].ne("")
    latest = frame.loc[stored, ["kind", "description", "threat", "created"]].sort_values("created", kind="stable")
    names = {(kind, text): name for kind, text, name, _ in latest.itertuples(index=False)}
    if len(names) == len(latest[["kind", "description", "threat"]].drop_duplicates()):
        return frame
    keys = zip(frame["kind"], frame["description"], frame["threat"], stored, strict=True)
    return frame.assign(threat=[names[kind, text] if own else name for kind, text, name, own in keys])


def name_images(rows: pd.DataFrame) -> pd.Series:
    """A name of the images of every row: the dataset, with split and digest where it stands for several sets of images.

    Published figures have no digests, and keep the name of the dataset.
    """
    names = rows["dataset"].astype(str)
    if "dataset_digest" not in rows:
        return names
    digests = rows["dataset_digest"].fillna("").astype(str)
    several = digests.groupby(names).transform("nunique").gt(1) & digests.ne("")
    return names.mask(several, names + "/" + rows["split"].astype(str) + " [" + digests.str[:8] + "]")


def one_each(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """One row per key, the last in the order of `in_order`; an error if two values differ outside a store.

    Two evaluations of a store that share a key agree in the figure: they differ in what else was counted.
    """
    if "created" not in rows and len(rows):
        spread = rows.groupby(keys, dropna=False)["value"].agg(["min", "max"])
        differ = spread[(spread["max"] - spread["min"]) > SAME]
        if len(differ):
            key = differ.index[0]
            named = ", ".join(map(str, key if isinstance(key, tuple) else (key,)))
            raise GauntletError(
                f"there are two different figures for one cell ({named}); "
                "filter the frame first, for example by source, table or seed."
            )
    return rows.drop_duplicates(keys, keep="last")


def with_clean(table: pd.DataFrame, rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The table with a column `clean`: the clean figure in the same view, else that of the whole image.

    Args:
        table: has the keys.
        rows: figures, clean ones among them.
        keys: what a clean figure must share with a row of the table; `view` among them where there is one.
    """
    clean = one_each(rows[rows["kind"].eq("clean")], keys)[[*keys, "value"]].rename(columns={"value": "clean"})
    table = table.merge(clean, on=keys, how="left")
    if "view" not in keys:
        return table
    rest = [key for key in keys if key != "view"]
    whole = clean[clean["view"].eq("all")].drop(columns="view").rename(columns={"clean": "whole"})
    table = table.merge(whole, on=rest, how="left")
    return table.assign(clean=table["clean"].fillna(table["whole"])).drop(columns="whole")


def group_codes(rows: pd.DataFrame, keys: list[str]) -> tuple[pd.DataFrame, npt.NDArray[np.intp]]:
    """The different keys in order of appearance, and which of them every row has."""
    codes = np.asarray(rows.groupby(keys, sort=False, dropna=False).ngroup(), dtype=np.intp)
    return rows[keys].drop_duplicates().reset_index(drop=True), codes


def union_of_flags(rows: pd.DataFrame, codes: npt.NDArray[np.intp], groups: int) -> list[str]:
    """The flags that occur in every group of rows; codes (n,) say to which of the groups a row belongs."""
    if "flag" not in rows:
        return [""] * groups
    flagged = rows["flag"].ne("").to_numpy()
    pairs = pd.DataFrame({"group": codes[flagged], "flag": rows["flag"].to_numpy()[flagged]}).drop_duplicates()
    flags: list[set[str]] = [set() for _ in range(groups)]
    for group, text in pairs.itertuples(index=False):
        flags[group].update(text.split())
    return [" ".join(sorted(each)) for each in flags]
