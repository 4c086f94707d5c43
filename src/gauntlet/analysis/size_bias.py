"""Are small objects lost first? Recall by object size, clean and attacked (docs/specs/metrics.md, 9)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from gauntlet.analysis.frames import comparable, require_columns, unit_columns
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import divide
from gauntlet.metrics.segmentation.counts import CountTable, ImageCounts
from gauntlet.metrics.segmentation.object_counts import ObjectCounts, count_objects
from gauntlet.metrics.segmentation.worst_case import worst_by_accuracy
from gauntlet.metrics.views import ViewKind, Views
from gauntlet.results.record import read_counts
from gauntlet.results.store import Store

FRACTION_EDGES = (0.0, 0.001, 0.01, 0.05, 0.2, 1.0)
"""Bins by the share of the image: under 0.1 %, 0.1 to 1 %, 1 to 5 %, 5 to 20 %, 20 % and more."""
FRACTION_NAMES = tuple(f"{100 * low:g} to {100 * high:g} %" for low, high in pairwise(FRACTION_EDGES))
COCO_EDGES = (0.0, 32.0**2, 96.0**2, np.inf)
"""Bins by pixels: small, medium, large."""

SMALL_OBJECTS, LARGE_OBJECTS = (0.0, 0.01), (0.05, np.inf)
"""Shares of the image, from one to below the other."""

Labels = npt.NDArray[np.integer]


def objects(
    labels: Labels,
    clean_prediction: Labels,
    attacked_prediction: Labels,
    *,
    ignore_index: int | None = 255,
    background: Collection[int] = (),
    image_id: str = "",
) -> pd.DataFrame:
    """The objects of one image and how much of each is still right.

    An object is an 8-connected component of one ground-truth class; ignored pixels belong to none.

    Args:
        labels: (H, W) ground truth.
        clean_prediction: (H, W) label map on the clean image.
        attacked_prediction: (H, W) label map under the threat.
        ignore_index: the label that counts for nothing.
        background: classes that are no objects.
        image_id: written into every row.

    Returns:
        One row per object: image_id, class_index, area (pixels), fraction (of the image), clean_recall, recall.
    """
    if not labels.shape == clean_prediction.shape == attacked_prediction.shape or labels.ndim != 2:
        raise GauntletError(
            f"labels and predictions must share one shape (H, W), not {labels.shape}, {clean_prediction.shape} and "
            f"{attacked_prediction.shape}."
        )
    skipped = [*background] if ignore_index is None else [*background, ignore_index]
    found = count_objects(labels, [labels == clean_prediction, labels == attacked_prediction], skipped=skipped)
    return _table(image_id, found, found.right / found.area)


def stored_objects(store: Store, clean: str, attacked: str) -> pd.DataFrame:
    """The objects of two evaluations of one model on the same images that were run with `objects`.

    Args:
        store: where their counts are.
        clean, attacked: keys of the evaluations. Of a battery the attack that left an image the fewest right pixels.

    Returns:
        As `objects`.
    """
    pairs = zip(_read(store, clean), _read(store, attacked), strict=True)
    parts = []
    for (image_id, before), (other_id, after) in pairs:
        if image_id != other_id or not np.array_equal(before.area, after.area):
            raise GauntletError("objects can only be compared between evaluations of the same images.")
        recalls = np.concatenate([before.right, after.right]) / before.area
        parts.append(_table(image_id, before, recalls))
    return pd.concat(parts, ignore_index=True)


def _read(store: Store, key: str) -> list[tuple[str, ObjectCounts]]:
    """Id and objects, in the view that counts, of every image of an evaluation."""
    started = store.started(key)
    if started is None or started.views is None:
        raise GauntletError(f"the store {store.address} has no per-image counts under the key '{key}'.")
    metric = store.metric(key)
    images = []
    for row in store.image_rows(started):
        counts = read_counts(metric, row)
        found = getattr(counts, "objects", None)
        if found is None:
            raise GauntletError(f"the evaluation '{key}' kept no objects; run it with objects=True (--objects).")
        right = found.right[_views_that_count(counts, started.views)].sum(axis=0, keepdims=True)
        images.append((row.image_id, replace(found, right=right)))
    return images


def _views_that_count(counts: ImageCounts, views: Views) -> list[int]:
    """The whole image; both parts of a region; the worst candidate of a battery; the first trial of a random model."""
    if views.kind is ViewKind.REGION:
        return [0, 1]
    if views.kind is ViewKind.CANDIDATES:
        tables = [CountTable.of([each], len(each)) for each in counts.confusion]
        return [int(worst_by_accuracy(tables).choice[0])]
    return [0]


def _table(image_id: str, found: ObjectCounts, recalls: npt.NDArray[np.float64]) -> pd.DataFrame:
    """One row per object; recalls (2, n) clean and attacked."""
    return pd.DataFrame(
        {
            "image_id": image_id,
            "class_index": found.classes,
            "area": found.area,
            "fraction": found.area / found.pixels,
            "clean_recall": recalls[0],
            "recall": recalls[1],
        }
    )


def by_size(objects: pd.DataFrame, *, bins: str = "fraction") -> pd.DataFrame:
    """Recall of objects in bins of size.

    Args:
        objects: objects of any number of images, as `objects` gives them.
        bins: "fraction" (of the image) or "coco" (pixels).

    Returns:
        One row per bin: bin (0 is smallest), low, high, objects, recall, clean_recall, counted (objects that are right
        somewhere on the clean image), ratio (mean of recall / clean_recall over those).
    """
    require_columns(objects, ["area", "fraction", "recall", "clean_recall"], "robustness by size")
    edges, sizes = _edges(objects, bins)
    # Bins are closed on the left; an object that fills the whole image belongs to the last.
    which = np.clip(np.searchsorted(edges, sizes, side="right") - 1, 0, len(edges) - 2)
    ratio = divide(objects["recall"], objects["clean_recall"])
    table = objects.assign(bin=which, ratio=ratio, objects=1, counted=(~np.isnan(ratio)).astype(int))
    grouped = table.groupby("bin").agg(
        objects=("objects", "sum"),
        recall=("recall", "mean"),
        clean_recall=("clean_recall", "mean"),
        counted=("counted", "sum"),
        ratio=("ratio", "mean"),
    )
    result = grouped.reindex(range(len(edges) - 1)).reset_index()
    result[["objects", "counted"]] = result[["objects", "counted"]].fillna(0).astype(int)
    result.insert(1, "low", edges[:-1])
    result.insert(2, "high", edges[1:])
    return result


def kept_recall(
    objects: pd.DataFrame, images: Sequence[str], weights: npt.NDArray[np.float64], low: float, high: float
) -> npt.NDArray[np.float64]:
    """(R,) mean recall of objects in the worst case over their clean mean recall.

    Args:
        objects: as `stored_objects` gives them.
        images: ids of the N images.
        weights: (R, N), how often an image counts in each set of images.
        low, high: only objects of such shares of the image, `high` left out.
    """
    chosen = objects[(objects["fraction"] >= low) & (objects["fraction"] < high)]
    sums = chosen.groupby("image_id")[["clean_recall", "recall"]].sum().reindex(list(images), fill_value=0.0)  # (N, 2)
    clean, worst = (weights @ sums.to_numpy(float)).T
    return divide(worst, clean)


def size_bias(objects: pd.DataFrame, *, bins: str = "fraction") -> pd.DataFrame:
    """One row that says how much recall depends on size.

    Args:
        objects, bins: as for `by_size`.

    Returns:
        bias (mean recall in the largest non-empty bin minus that in the smallest; 0 with one bin), slope (recall
        gained per tenfold size), clean_bias and clean_slope (the same on the clean image), objects.
    """
    table = by_size(objects, bins=bins)
    table = table[table["objects"] > 0]
    size = np.log10(objects["fraction"].to_numpy(float))
    row: dict[str, float] = {}
    for name, column in (("", "recall"), ("clean_", "clean_recall")):
        means = table[column].to_numpy(float)
        row[f"{name}bias"] = float(means[-1] - means[0]) if len(means) else np.nan
        row[f"{name}slope"] = _slope(size, objects[column].to_numpy(float))
    return pd.DataFrame([{**row, "objects": len(objects)}])


def image_to_dataset_ratio(frame: pd.DataFrame) -> pd.DataFrame:
    """NmIoU over CmIoU under every threat, the size indicator of Halmosi et al.: falling means small objects go first.

    Args:
        frame: tidy figures with the metrics NmIoU and mIoU.

    Returns:
        Tidy: the unit, threat, kind, NmIoU, CmIoU, ratio.
    """
    rows = frame[frame["metric"].isin(["NmIoU", "mIoU"])]
    rows = rows[rows["class_name"].eq("")] if "class_name" in rows else rows
    rows = comparable(rows)
    keys = [*unit_columns(rows), "threat", "kind"]
    wide = rows.drop_duplicates([*keys, "metric"]).set_index([*keys, "metric"])["value"].unstack("metric")
    wide = wide.reindex(columns=["NmIoU", "mIoU"]).rename(columns={"mIoU": "CmIoU"}).dropna()
    return wide.assign(ratio=divide(wide["NmIoU"], wide["CmIoU"])).reset_index().rename_axis(columns=None)


def _edges(objects: pd.DataFrame, bins: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    if bins == "fraction":
        return np.array(FRACTION_EDGES), objects["fraction"].to_numpy(float)
    if bins == "coco":
        return np.array(COCO_EDGES), objects["area"].to_numpy(float)
    raise GauntletError(f"bins must be 'fraction' or 'coco', not '{bins}'.")


def _slope(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    """Least-squares slope; NaN without variance in x."""
    if len(x) < 2 or np.ptp(x) == 0:
        return float("nan")
    x = x - x.mean()
    return float(x @ y / (x @ x))
