"""The one test behind "A is better than B": verdict, interval and p-value from the same relabellings.

Under the null hypothesis the two models are exchangeable on every image. The test swaps them on some images, for all
threats at once, and computes the figure that ranks again: for a worst case the worst threat is chosen anew after every
swap. The interval is the set of differences that this test, with the same swaps, does not reject; so it excludes 0
exactly where the p-value is below the level (docs/analysis.md, "Two models").
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import FloatArray, divide, nan_mean
from gauntlet.metrics.detection.coco_figures import MOST_DETECTIONS, THRESHOLDS
from gauntlet.metrics.detection.metric import Pair
from gauntlet.metrics.detection.table import ObjectTable, WeightedPrecision
from gauntlet.metrics.intervals import MINIMUM_IMAGES
from gauntlet.metrics.segmentation.counts import CountTable
from gauntlet.metrics.segmentation.figures import mean_iou
from gauntlet.samples import Boxes

ALPHA = 0.05
"""A difference is called one where its adjusted p-value is below this."""
FLOOR = 0.02
"""Two figures below this are both at the floor: their order means nothing, and is not tested."""
PERMUTATIONS = 10_000
EXACT_UP_TO = 12
"""Images up to which all swaps are tried instead of a sample of them."""
BETTER, WORSE, OPEN = "better", "worse", "cannot be told apart"
_CHUNK = 500
_ROUNDING = 1e-12
_HALVINGS = 60


class Drawn(NamedTuple):
    """Figures of two models after R relabellings.

    Attributes:
        first, second: (R,) the figure of either.
        moment: (R,) mean over images of the squared contribution to the difference, which studentises it; None where
            the figure is nearly linear in the images, so that it is the same for all relabellings.
        along: (R,) mean over images of the contribution times the sign of the swap; None with `moment`.
    """

    first: FloatArray
    second: FloatArray
    moment: FloatArray | None = None
    along: FloatArray | None = None

    @property
    def difference(self) -> FloatArray:
        """(R,) second - first; what is left of rounding is 0."""
        change = self.second - self.first
        return np.where(np.abs(change) < _ROUNDING, 0.0, change)


Figures = Callable[[FloatArray], Drawn]
"""The figures of two models, from (R, N): 1 where an image is kept, 0 where the models are swapped on it."""


@dataclass(frozen=True)
class Relabelled:
    """An observed difference and those of relabelled data.

    Attributes:
        first, second: the figures of the two models.
        observed: second - first.
        chance: (R,) the same after every relabelling.
        kept: (R,) share of the images that were kept minus the share that was swapped: a true difference of d moves
            `chance` by d times this.
        exact: all relabellings were tried; else a sample, and the observed labelling counts as one of them.
        moment, along: of `Drawn`, the observed labelling first, (R + 1,); None without studentisation.
    """

    first: float
    second: float
    chance: FloatArray
    kept: FloatArray
    exact: bool
    moment: FloatArray | None = None
    along: FloatArray | None = None

    @property
    def observed(self) -> float:
        change = self.second - self.first
        return 0.0 if abs(change) < _ROUNDING else change

    def p_value(self, difference: float = 0.0) -> float:
        """Two-sided p-value of the hypothesis that the true difference is this one; NaN for an undefined figure."""
        if math.isnan(self.observed):
            return math.nan
        seen, chance = self.observed - difference, self.chance - difference * self.kept
        if self.moment is not None and self.along is not None:
            moments = self.moment - 2 * difference * self.along + difference**2
            extreme = chance**2 * moments[0] >= seen**2 * moments[1:] * (1 - 1e-9) - _ROUNDING**2
        else:
            extreme = np.abs(chance) >= abs(seen) - _ROUNDING
        return self._share(int(extreme.sum()))

    def interval(self, alpha: float = ALPHA) -> tuple[float, float]:
        """The differences with a p-value of at least alpha; NaN where too few images can reject none."""
        if math.isnan(self.observed) or self._share(int((np.abs(self.kept) > 1 - _ROUNDING).sum())) >= alpha:
            return math.nan, math.nan
        return self._end(-1, alpha), self._end(1, alpha)

    def _share(self, extreme: int) -> float:
        return extreme / len(self.chance) if self.exact else (extreme + 1) / (len(self.chance) + 1)

    def _end(self, side: int, alpha: float) -> float:
        """The farthest difference on one side that is not rejected.

        0 is asked first where it lies on this side, so that the end is beyond it exactly where 0 is not rejected.
        """
        step = max(float(np.abs(self.chance).max()), abs(self.observed))
        if step == 0:
            return self.observed
        inside = self.observed
        ahead = (self.observed + side * step * 2.0**power for power in itertools.count(-4))
        for outside in itertools.chain([0.0] if side * self.observed < 0 else [], ahead):
            if side * (outside - inside) <= 0:
                continue  # 0 was not rejected and lies farther out
            if self.p_value(outside) < alpha:
                break
            inside = outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if self.p_value(middle) < alpha else (middle, outside)
        return inside


@dataclass(frozen=True)
class Told:
    """The outcome of a comparison of two models.

    Attributes:
        first, second: the figures.
        low, high: the differences that are not rejected at the level of this comparison; NaN where there are none.
        p_value: two-sided, of this comparison alone.
        adjusted: the same, corrected for the number of comparisons.
        images: that both were evaluated on.
        comparisons: corrected for.
    """

    first: float
    second: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    adjusted: float = math.nan
    images: int = 0
    comparisons: int = 1

    @property
    def difference(self) -> float:
        """Second - first."""
        return self.second - self.first

    @property
    def at_floor(self) -> bool:
        """Both figures are too low to have an order."""
        return max(self.first, self.second) < FLOOR

    @property
    def verdict(self) -> str:
        """The second model against the first: BETTER, WORSE or OPEN."""
        if not self.adjusted < ALPHA:
            return OPEN
        return BETTER if self.difference > 0 else WORSE


def settle(tests: Sequence[Relabelled | None], images: int, comparisons: int | None = None) -> list[Told | None]:
    """Verdicts on several comparisons, corrected for their number.

    Args:
        tests: one per comparison; None for a pair that has nothing to compare.
        images: N of all.
        comparisons: how many were possible, where `tests` are a choice of them (the first model against the others, of
            all pairs): each p-value is multiplied by it. By default their own number, by Holm's rule.
    """
    p_values = [math.nan if each is None else each.p_value() for each in tests]
    if comparisons is None:
        comparisons = sum(not math.isnan(value) for value in p_values)
        factors, adjusted = holm_factors(p_values), holm(p_values)
    else:
        factors, adjusted = [comparisons] * len(tests), [_times(comparisons, value) for value in p_values]
    told: list[Told | None] = []
    for test, p_value, factor, each in zip(tests, p_values, factors, adjusted, strict=True):
        if test is None:
            told.append(None)
        elif images < MINIMUM_IMAGES or max(test.first, test.second) < FLOOR:
            told.append(Told(test.first, test.second, images=images, comparisons=comparisons))
        else:
            low, high = test.interval(ALPHA / factor)
            told.append(Told(test.first, test.second, low, high, p_value, each, images, comparisons))
    return told


def _times(comparisons: int, p_value: float) -> float:
    return p_value if math.isnan(p_value) else min(1.0, comparisons * p_value)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number, step by step from the smallest (Holm, 1979); NaN stays NaN.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    known = [index for index, value in enumerate(p_values) if not math.isnan(value)]
    adjusted = [math.nan] * len(p_values)
    largest = 0.0
    for place, index in enumerate(sorted(known, key=lambda each: p_values[each])):
        largest = max(largest, min(1.0, (len(known) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def holm_factors(p_values: Sequence[float], alpha: float = ALPHA) -> list[int]:
    """What alpha is divided by for every test of Holm's rule, so that p < alpha / factor is its decision.

    From the first test that is not rejected on, all have the factor of that one.

    >>> holm_factors([0.001, 0.03, 0.04])
    [3, 2, 2]
    """
    known = [index for index, value in enumerate(p_values) if not math.isnan(value)]
    factors, factor, stopped = [1] * len(p_values), len(known), False
    for place, index in enumerate(sorted(known, key=lambda each: p_values[each])):
        if not stopped:
            factor = len(known) - place
            stopped = p_values[index] * factor >= alpha
        factors[index] = factor
    return factors


def smallest_p_value(images: int, permutations: int = PERMUTATIONS) -> float:
    """The smallest p-value that a paired permutation test of so many images can have.

    Of the 2^n ways to exchange two models, two give the observed size: none exchanged, and all of them. A sample of the
    ways counts the observed one too.

    >>> smallest_p_value(8), smallest_p_value(100, permutations=1999)
    (0.0078125, 0.0005)
    """
    return 2.0 ** (1 - images) if images <= EXACT_UP_TO else 1 / (permutations + 1)


def relabel(figures: Figures, images: int, permutations: int = PERMUTATIONS, seed: int = 0) -> Relabelled:
    """Swaps the two models on some images, again and again: in all ways up to 12 images, else in random ones."""
    seen = figures(np.ones((1, images)))
    swaps = list(_swaps(images, permutations, seed))
    parts = [figures(each) for each in swaps]
    kept = np.concatenate([2 * each.mean(axis=1) - 1 for each in swaps])
    moment, along = (
        None
        if any(each is None for each in of_parts)
        else np.concatenate([each for each in of_parts if each is not None])
        for of_parts in ([each.moment for each in (seen, *parts)], [each.along for each in (seen, *parts)])
    )
    chance = np.concatenate([each.difference for each in parts])
    first, second = float(seen.first[0]), float(seen.second[0])
    return Relabelled(first, second, chance, kept, images <= EXACT_UP_TO, moment, along)


def _swaps(images: int, permutations: int, seed: int) -> Iterator[FloatArray]:
    if images <= EXACT_UP_TO:
        codes = np.arange(2**images)
        kept = ((codes[:, None] >> np.arange(images)) & 1).astype(np.float64)
        yield from (kept[start : start + _CHUNK] for start in range(0, len(kept), _CHUNK))
        return
    generator = np.random.default_rng(seed)
    for start in range(0, permutations, _CHUNK):
        yield generator.integers(0, 2, size=(min(_CHUNK, permutations - start), images)).astype(np.float64)


def of_means(first: FloatArray, second: FloatArray) -> Figures:
    """Means of two lists of N values."""

    def mean(of_first: FloatArray) -> FloatArray:
        return np.asarray((of_first @ first + (1 - of_first) @ second) / len(first))

    return lambda kept: Drawn(mean(kept), mean(1 - kept))


def of_counts(first: Sequence[CountTable], second: Sequence[CountTable]) -> Figures:
    """The mIoU of two models under the worst of T threats, from the counts of the same N images under each.

    Args:
        first, second: tables of the two models, one per threat, in one order.
    """
    for one, other in zip(first, second, strict=True):
        if len(one) != len(other) or not np.array_equal(one.ground_truth, other.ground_truth):
            raise GauntletError("the two tables count different images; evaluate both models on the same dataset.")
    return _WorstCounts(first, second)


def of_objects(first: Sequence[Sequence[Pair]], second: Sequence[Sequence[Pair]], num_classes: int) -> Figures:
    """The mAP of two models under the worst of T threats, from objects and detections of the same N images.

    Args:
        first, second: objects and detections of the two models, a list of images per threat, in one order.
        num_classes: K.
    """
    precisions = []
    for one, other in zip(first, second, strict=True):
        if len(one) != len(other) or not all(_same(a, b) for (a, _), (b, _) in zip(one, other, strict=True)):
            raise GauntletError("the two detectors saw different images; evaluate both on the same dataset.")
        pairs = [*one, *other]
        # Every image twice, with the detections of either model: which of them counts is a matter of weights.
        table = ObjectTable.of([truth for truth, _ in pairs], [detected for _, detected in pairs], num_classes)
        precisions.append(WeightedPrecision(table, THRESHOLDS, MOST_DETECTIONS[-1]))

    def worst(of_first: FloatArray, of_second: FloatArray) -> FloatArray:
        averages = [precision(np.hstack([of_first, of_second])) for precision in precisions]  # (R, T, K) each
        figures = np.stack([nan_mean(each.reshape(len(each), -1), axis=1) for each in averages], axis=1)
        return np.where(np.isnan(figures).all(axis=1), np.nan, np.where(np.isnan(figures), np.inf, figures).min(axis=1))

    return lambda kept: Drawn(worst(kept, 1 - kept), worst(1 - kept, kept))


def _same(first: Boxes, second: Boxes) -> bool:
    return np.array_equal(first.xyxy, second.xyxy) and np.array_equal(first.classes, second.classes)


class _WorstCounts:
    """Difference of the worst cases of two models, computed from counts of N images under T threats."""

    def __init__(self, first: Sequence[CountTable], second: Sequence[CountTable]) -> None:
        sides = [[(each.true_positives, each.union) for each in side] for side in (first, second)]
        self._first, self._second = (np.array(side, np.float64) for side in sides)  # (T, 2, N, K)
        self._images = self._first.shape[2]

    def __call__(self, kept: FloatArray) -> Drawn:
        totals = self._first.sum(axis=2) + self._second.sum(axis=2)  # (T, 2, K)
        change = self._first - self._second
        # Counts are whole numbers, exact in float64.
        of_first = self._second.sum(axis=2) + np.einsum("rn,tpnk->rtpk", kept, change, optimize=True)
        of_second = totals - of_first
        (worst_first, first), (worst_second, second) = _worst(of_first), _worst(of_second)
        if len(self._first) == 1:
            return Drawn(first, second)
        contributions = (second - first)[:, None] + self._contributions(of_second, worst_second, 1 - kept)
        contributions -= self._contributions(of_first, worst_first, kept)
        signs = 2 * kept - 1
        return Drawn(first, second, (contributions**2).mean(axis=1), (contributions * signs).mean(axis=1))

    def _contributions(self, sums: FloatArray, chosen: FloatArray, of_first: FloatArray) -> FloatArray:
        """(R, N) N times what each image adds to the mIoU under the chosen threat, to first order; mean 0."""
        contributions = np.zeros_like(of_first)
        for threat in np.unique(chosen).astype(int):
            rows = np.flatnonzero(chosen == threat)
            right, union = sums[rows, threat, 0], sums[rows, threat, 1]
            slope = np.nan_to_num(divide(self._images, union * (union > 0).sum(axis=1, keepdims=True)))
            slopes = slope, slope * np.nan_to_num(divide(right, union))
            sides = [
                slopes[0] @ side[threat, 0].T - slopes[1] @ side[threat, 1].T for side in (self._first, self._second)
            ]
            contributions[rows] = np.where(of_first[rows] > 0, *sides)
        return contributions


def _worst(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(R,) the threat with the smallest mIoU, and that mIoU, from sums (R, T, 2, K); NaN where none is defined."""
    figures = mean_iou(sums[:, :, 0], sums[:, :, 1])  # (R, T)
    known = np.where(np.isnan(figures), np.inf, figures)
    smallest = known.min(axis=1)
    return known.argmin(axis=1).astype(np.float64), np.where(np.isinf(smallest), np.nan, smallest)
