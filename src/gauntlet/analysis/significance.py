"""Is one model really better? Paired tests over the same images, unpaired ones between groups of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd

from gauntlet.analysis.frames import require_columns
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import FloatArray, nan_mean
from gauntlet.metrics.detection.coco_figures import MOST_DETECTIONS, THRESHOLDS
from gauntlet.metrics.detection.metric import Pair
from gauntlet.metrics.detection.table import ObjectTable, WeightedPrecision
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.metrics.segmentation.figures import cmiou, mean_iou
from gauntlet.samples import Boxes

if TYPE_CHECKING:
    from typing_extensions import Unpack

RESAMPLES = 1000
PERMUTATIONS = 10_000
LEVEL = 0.95
EXACT_UP_TO = 12
"""Images up to which all sign flips are tried instead of a sample of them."""
_CHUNK = 500


class ResamplingOptions(TypedDict, total=False):
    """The fields of `Resampling`, as keyword arguments."""

    resamples: int
    permutations: int
    level: float
    seed: int


class Resampling(NamedTuple):
    """How much a test draws.

    Attributes:
        resamples: bootstrap samples for the interval.
        permutations: sign flips for the p-value; all of them for at most 12 images.
        level: coverage of the interval.
        seed: of both.
    """

    resamples: int = RESAMPLES
    permutations: int = PERMUTATIONS
    level: float = LEVEL
    seed: int = 0

    @property
    def percentiles(self) -> list[float]:
        """The two ends of the interval."""
        return [50 * (1 - self.level), 50 * (1 + self.level)]


def smallest_p_value(images: int, permutations: int = PERMUTATIONS) -> float:
    """What a paired permutation test of so many images can reach at best.

    Of the 2^n ways to exchange two models, two give the observed size: none exchanged, and all of them. A sample of the
    ways counts the observed one too.

    >>> smallest_p_value(8), smallest_p_value(100, permutations=1999)
    (0.0078125, 0.0005)
    """
    return 2.0 ** (1 - images) if images <= EXACT_UP_TO else 1 / (permutations + 1)


# The difference second - first of R samples, from the weight that each image has for either model: (R, N) -> (R,).
Difference = Callable[[FloatArray, FloatArray], FloatArray]


def compare_images(
    first: pd.DataFrame,
    second: pd.DataFrame,
    metric: str = "mIoU",
    *,
    view: str = "all",
    **draws: Unpack[ResamplingOptions],
) -> pd.DataFrame:
    """Whether a per-image figure differs between two models on the same images.

    Args:
        first, second: per-image frames of two evaluations: image_id, view and a column of the metric.
        metric: "mIoU" or "accuracy".
        view: the view to compare.
        draws: how much is drawn; by default as `Resampling` says.

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

    def difference(weights_first: FloatArray, weights_second: FloatArray) -> FloatArray:
        return np.asarray((weights_second - weights_first) @ (y - x) / len(x))

    row = _test(difference, len(x), Resampling(**draws))
    change = pairs["difference"]
    return pd.DataFrame(
        [
            {"metric": metric, "view": view, "images": len(x), "first": x.mean(), "second": y.mean(), **row}
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
    **draws: Unpack[ResamplingOptions],
) -> pd.DataFrame:
    """Whether the dataset mIoU (CmIoU) differs between two models on the same images.

    The bootstrap draws images, the permutation swaps the two models' counts of an image; both recompute the dataset
    figure, which is no mean over images.

    Args:
        first, second: counts of the same N images, in the same order.
        draws: as for `compare_images`.

    Returns:
        One row: metric, images, first, second, difference (second - first), low, high, p_value.
    """
    if len(first) != len(second) or not np.array_equal(first.ground_truth, second.ground_truth):
        raise GauntletError("the two tables count different images; evaluate both models on the same dataset.")
    _require_two(len(first))

    def figure(of_first: FloatArray, of_second: FloatArray) -> FloatArray:
        counts = first.weighted(of_first) + second.weighted(of_second)  # a row per sample
        return mean_iou(counts.true_positives, counts.union)

    def difference(swapped: FloatArray, kept: FloatArray) -> FloatArray:
        return figure(swapped, kept) - figure(kept, swapped)

    values = {"first": cmiou(first), "second": cmiou(second)}
    row = _test(difference, len(first), Resampling(**draws))
    return pd.DataFrame([{"metric": "mIoU", "images": len(first), **values, **row}])


def compare_objects(
    first: Sequence[Pair],
    second: Sequence[Pair],
    num_classes: int,
    **draws: Unpack[ResamplingOptions],
) -> pd.DataFrame:
    """Whether the mAP differs between two detectors on the same images; as `compare_counts` for mIoU.

    Args:
        first, second: objects and detections of the same N images, in the same order.
        num_classes: K.
        draws: as for `compare_images`.

    Returns:
        One row: metric, images, first, second, difference (second - first), low, high, p_value.
    """
    pairs = [*first, *second]
    if len(first) != len(second) or not all(_same_objects(a, b) for (a, _), (b, _) in zip(first, second, strict=True)):
        raise GauntletError("the two detectors saw different images; evaluate both on the same dataset.")
    _require_two(len(first))
    # Every image twice, with the detections of either model: which of them counts is a matter of weights.
    table = ObjectTable.of([truth for truth, _ in pairs], [detected for _, detected in pairs], num_classes)
    precision = WeightedPrecision(table, THRESHOLDS, MOST_DETECTIONS[-1])

    def figure(of_first: FloatArray, of_second: FloatArray) -> FloatArray:
        average = precision(np.hstack([of_first, of_second]))  # (R, T, K)
        return nan_mean(average.reshape(len(average), -1), axis=1)

    def difference(swapped: FloatArray, kept: FloatArray) -> FloatArray:
        return figure(swapped, kept) - figure(kept, swapped)

    everything, nothing = np.ones((1, len(first))), np.zeros((1, len(first)))
    values = float(figure(everything, nothing)[0]), float(figure(nothing, everything)[0])
    row = _test(difference, len(first), Resampling(**draws))
    return pd.DataFrame([{"metric": "mAP", "images": len(first), "first": values[0], "second": values[1], **row}])


def _require_two(images: int) -> None:
    if images < 2:
        raise GauntletError(f"two models need at least 2 images to be compared, not {images}.")


def _same_objects(first: Boxes, second: Boxes) -> bool:
    return np.array_equal(first.xyxy, second.xyxy) and np.array_equal(first.classes, second.classes)


def compare_groups(
    table: pd.DataFrame,
    score: str,
    group: str,
    first: str,
    second: str,
    **draws: Unpack[ResamplingOptions],
) -> pd.DataFrame:
    """Whether a score differs between two groups of models (transformer against convolution backbones).

    Args:
        table: one row per model, such as `scores` gives.
        score: the column to compare; NaN rows are left out.
        group: the column that tells the groups apart.
        first, second: two of its values.
        draws: bootstrap samples of both groups, random relabellings for the p-value.

    Returns:
        One row: score, group, first, second, n_first, n_second, mean_first, mean_second, difference (second - first),
        low, high, p_value (two-sided); NaN where a group has fewer than two models.
    """
    require_columns(table, [score, group], "a comparison of groups")
    rows = table.dropna(subset=score)
    x = rows.loc[rows[group].eq(first), score].to_numpy(float)
    y = rows.loc[rows[group].eq(second), score].to_numpy(float)
    head = {"score": score, "group": group, "first": first, "second": second, "n_first": len(x), "n_second": len(y)}
    means = {"mean_first": _mean(x), "mean_second": _mean(y), "difference": _mean(y) - _mean(x)}
    if min(len(x), len(y)) < 2:
        return pd.DataFrame([{**head, **means, "low": np.nan, "high": np.nan, "p_value": np.nan}])
    settings = Resampling(**draws)
    generator = np.random.default_rng(settings.seed)
    drawn = [
        values[generator.integers(len(values), size=(settings.resamples, len(values)))].mean(axis=1)
        for values in (x, y)
    ]
    low, high = np.percentile(drawn[1] - drawn[0], settings.percentiles)
    pooled = np.concatenate([x, y])
    shuffled = generator.permuted(np.tile(pooled, (settings.permutations, 1)), axis=1)
    chance = shuffled[:, len(x) :].mean(axis=1) - shuffled[:, : len(x)].mean(axis=1)
    p_value = _p_value(means["difference"], chance, exact=False)
    return pd.DataFrame([{**head, **means, "low": float(low), "high": float(high), "p_value": p_value}])


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _test(difference: Difference, images: int, draws: Resampling) -> dict[str, float]:
    """Observed difference, bootstrap interval over images and sign-flip p-value."""
    generator = np.random.default_rng(draws.seed)
    observed = float(difference(np.zeros((1, images)), np.ones((1, images)))[0])
    if np.isnan(observed):  # a figure that is undefined for these images: nothing to test
        return dict.fromkeys(("difference", "low", "high", "p_value"), observed)
    drawn = []
    for count in _chunks(draws.resamples):
        weights = generator.multinomial(images, np.full(images, 1 / images), size=count).astype(np.float64)
        drawn.append(difference(np.zeros_like(weights), weights))
    low, high = np.nanpercentile(np.concatenate(drawn), draws.percentiles)
    exact = images <= EXACT_UP_TO
    tried = _all_flips(images) if exact else _random_flips(images, draws.permutations, generator)
    chance = [difference(flips, 1 - flips) for flips in tried]
    p_value = _p_value(observed, np.concatenate(chance), exact=exact)
    return {"difference": observed, "low": float(low), "high": float(high), "p_value": p_value}


def _chunks(total: int) -> list[int]:
    """Parts of at most _CHUNK samples: weights of 1000 samples of 100,000 images are not small."""
    return [min(_CHUNK, total - start) for start in range(0, total, _CHUNK)]


def _all_flips(images: int) -> Iterator[FloatArray]:
    codes = np.arange(2**images)
    yield ((codes[:, None] >> np.arange(images)) & 1).astype(np.float64)


def _random_flips(images: int, permutations: int, generator: np.random.Generator) -> Iterator[FloatArray]:
    for count in _chunks(permutations):
        yield generator.integers(0, 2, size=(count, images)).astype(np.float64)


def _p_value(observed: float, chance: npt.NDArray[np.float64], *, exact: bool) -> float:
    """Share of relabellings at least as extreme, two-sided; a sampled one counts the observed labelling too."""
    extreme = int((np.abs(chance) >= abs(observed) - 1e-12).sum())
    return extreme / len(chance) if exact else (extreme + 1) / (len(chance) + 1)
