"""Tests of a difference: paired (two models, same images) or unpaired (two groups of models)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np
import pandas as pd

from gauntlet.analysis.better import (
    PERMUTATIONS,
    Figures,
    Relabelled,
    of_counts,
    of_means,
    of_objects,
    relabel,
)
from gauntlet.analysis.frames import require_columns
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import FloatArray
from gauntlet.metrics.detection.metric import Pair
from gauntlet.metrics.segmentation.counts import CountTable

if TYPE_CHECKING:
    from typing_extensions import Unpack

LEVEL = 0.95


class DrawOptions(TypedDict, total=False):
    """The fields of `Drawing`, as keyword arguments."""

    permutations: int
    level: float
    seed: int


class Drawing(NamedTuple):
    """How a test draws.

    Attributes:
        permutations: relabellings, from which p-value and interval follow; all of them where there are not more (of
            images: up to 12).
        level: coverage of the interval.
        seed: of the sample of relabellings.
    """

    permutations: int = PERMUTATIONS
    level: float = LEVEL
    seed: int = 0


def compare_images(
    first: pd.DataFrame,
    second: pd.DataFrame,
    metric: str = "mIoU",
    *,
    view: str = "all",
    **draws: Unpack[DrawOptions],
) -> pd.DataFrame:
    """Compare the mean of a per-image figure of two models on the same images.

    The test swaps the models on some images. The interval is that of the differences it does not reject, so that it
    excludes 0 exactly where the p-value is below 1 - level; NaN with too few images to reject any (below 6).

    Args:
        first, second: per-image frames of two evaluations: image_id, view and a column of the metric.
        metric: "mIoU" or "accuracy".
        view: the view to compare.
        draws: how the test draws; by default as `Drawing` says.

    Returns:
        One row: metric, view, images (in both, with a value), first, second (means), difference (second - first), low,
        high, p_value (two-sided), better, worse, equal (images on which the second model is).
    """
    pairs = image_differences(first, second, metric, view=view)
    if len(pairs) < 2:
        raise GauntletError(f"two models need at least 2 images in common to be compared, not {len(pairs)}.")
    # In one order whatever the values, so that exchanging the models draws the same images.
    pairs = pairs.sort_values("image_id", kind="stable")
    x, y = pairs["first"].to_numpy(float), pairs["second"].to_numpy(float)

    row = _row(of_means(x, y), len(x), Drawing(**draws))
    change = pairs["difference"]
    return pd.DataFrame(
        [
            {"metric": metric, "view": view, "images": len(x), **row}
            | {"better": int((change > 0).sum()), "worse": int((change < 0).sum()), "equal": int((change == 0).sum())}
        ]
    )


def image_differences(
    first: pd.DataFrame, second: pd.DataFrame, metric: str = "mIoU", *, view: str = "all"
) -> pd.DataFrame:
    """Images that two evaluations share, the largest loss of the second model first.

    Returns:
        image_id, first, second, difference (second - first).
    """
    columns = ["image_id", "view", metric]
    for frame in (first, second):
        require_columns(frame, columns, "a comparison of images")
    sides = [frame[frame["view"].eq(view)][["image_id", metric]].dropna() for frame in (first, second)]
    pairs = sides[0].merge(sides[1], on="image_id", suffixes=("_first", "_second"), validate="1:1")
    pairs = pairs.rename(columns={f"{metric}_first": "first", f"{metric}_second": "second"})
    pairs = pairs.assign(difference=pairs["second"] - pairs["first"])
    return pairs.sort_values("difference", kind="stable").reset_index(drop=True)


def compare_counts(
    first: CountTable,
    second: CountTable,
    **draws: Unpack[DrawOptions],
) -> pd.DataFrame:
    """Compare the dataset mIoU (CmIoU) of two models on the same images.

    The test swaps the two models' counts of an image and recomputes the dataset figure, which is no mean over images.

    Args:
        first, second: counts of the same N images, in the same order.
        draws: as for `compare_images`.

    Returns:
        One row: metric, images, first, second, difference (second - first), low, high, p_value.
    """
    figures = of_counts([first], [second])
    _require_two(len(first))
    row = _row(figures, len(first), Drawing(**draws))
    return pd.DataFrame([{"metric": "mIoU", "images": len(first), **row}])


def compare_objects(
    first: Sequence[Pair],
    second: Sequence[Pair],
    num_classes: int,
    **draws: Unpack[DrawOptions],
) -> pd.DataFrame:
    """Compare the mAP of two detectors on the same images; as `compare_counts` for mIoU.

    Args:
        first, second: objects and detections of the same N images, in the same order.
        num_classes: K.
        draws: as for `compare_images`.

    Returns:
        One row: metric, images, first, second, difference (second - first), low, high, p_value.
    """
    figures = of_objects([first], [second], num_classes)
    _require_two(len(first))
    row = _row(figures, len(first), Drawing(**draws))
    return pd.DataFrame([{"metric": "mAP", "images": len(first), **row}])


def _require_two(images: int) -> None:
    if images < 2:
        raise GauntletError(f"two models need at least 2 images to be compared, not {images}.")


def _row(figures: Figures, images: int, draws: Drawing) -> dict[str, float]:
    """Return figures, difference, interval and p-value of one test."""
    test = relabel(figures, images, draws.permutations, draws.seed)
    return {"first": test.first, "second": test.second, **_result(test, draws.level)}


def _result(test: Relabelled, level: float) -> dict[str, float]:
    low, high = test.interval(1 - level)
    return {"difference": test.observed, "low": low, "high": high, "p_value": test.p_value()}


def compare_groups(
    table: pd.DataFrame,
    score: str,
    group: str,
    first: str,
    second: str,
    **draws: Unpack[DrawOptions],
) -> pd.DataFrame:
    """Compare a score between two groups of models (transformer against convolution backbones).

    The test relabels the models, in all ways where there are not more than `permutations`. The interval is that of the
    differences it does not reject.

    Args:
        table: one row per model, such as `scores` gives.
        score: the column to compare; NaN rows are left out.
        group: the column that tells the groups apart.
        first, second: two of its values.
        draws: as for `compare_images`.

    Returns:
        One row: score, group, first, second, n_first, n_second, mean_first, mean_second, difference (second - first),
        low, high, p_value (two-sided); NaN where a group has fewer than two models, low and high also where there are
        too few for any p-value below 1 - level (3 and 3).
    """
    require_columns(table, [score, group], "a comparison of groups")
    rows = table.dropna(subset=score)
    x = rows.loc[rows[group].eq(first), score].to_numpy(float)
    y = rows.loc[rows[group].eq(second), score].to_numpy(float)
    head = {"score": score, "group": group, "first": first, "second": second, "n_first": len(x), "n_second": len(y)}
    means = {"mean_first": _mean(x), "mean_second": _mean(y), "difference": _mean(y) - _mean(x)}
    if min(len(x), len(y)) < 2:
        return pd.DataFrame([{**head, **means, "low": np.nan, "high": np.nan, "p_value": np.nan}])
    settings = Drawing(**draws)
    test = _relabel_groups(x, y, settings)
    return pd.DataFrame([{**head, **means, **_result(test, settings.level)}])


def _relabel_groups(first: FloatArray, second: FloatArray, draws: Drawing) -> Relabelled:
    """The difference of two means under all, or many random, ways to form two groups of these sizes."""
    pooled, size = np.concatenate([first, second]), len(second)
    exact = math.comb(len(pooled), size) <= draws.permutations
    if exact:
        chosen = np.array(list(itertools.combinations(range(len(pooled)), size)))
    else:
        generator = np.random.default_rng(draws.seed)
        chosen = generator.permuted(np.tile(np.arange(len(pooled)), (draws.permutations, 1)), axis=1)[:, :size]
    sums = pooled[chosen].sum(axis=1)
    change = sums / size - (pooled.sum() - sums) / len(first)
    # What a true difference of 1 adds to the difference of the new groups: those of the second group that stayed in it.
    stayed = (chosen >= len(first)).sum(axis=1)
    kept = stayed / size - (size - stayed) / len(first)
    return Relabelled(float(first.mean()), float(second.mean()), change, kept, exact)


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")
