"""Confidence intervals over images: a smoothed jackknife with Student's t; docs/coverage.md has its measured coverage.

A figure is a mean over parts (classes), each a ratio of sums over images. An image is left out, and the figure changes;
from these changes come the intervals of a figure, of a paired difference and of a paired ratio. The rules:

- A part that occurs in one image only cannot be left out: its own change is not known. Every part is given the variance
  of one more image, at the size that is usual among the parts of the figure, so that rare parts are not taken for sure.
- The degrees of freedom are Satterthwaite's over the parts. A part has as many images as equal ones would give the same
  concentration of its pixels, 1 / sum(share ** 2). Never more than one less than the images.
- The interval is widened by the bias that the jackknife finds, on the side where the bias lies.
- Below MINIMUM_IMAGES images there is no interval: both ends are NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from gauntlet.metrics.arithmetic import BoolArray, FloatArray, divide

MINIMUM_IMAGES = 8
"""From this many images on the measured coverage is 93 to 97 % for means over classes that occur often."""
LEVEL = 0.95
METHOD = "jackknife-t 1"
"""The name and version of the method, kept with stored figures."""
FRACTION = (0.0, 1.0)
_ANY = (-np.inf, np.inf)
_MOST_LEFT_OUT = 400
"""Images that are left out one by one where each costs a computation of its own; more in as many groups."""
_CHUNK = 100
_BORROWED = 1.0
"""Images whose variance every part borrows from the others."""


def too_few(images: int) -> str:
    """A sentence for captions where so many images are too few for intervals, else "".

    >>> too_few(7)
    'An interval needs at least 8 images.'
    """
    return "" if images >= MINIMUM_IMAGES else f"An interval needs at least {MINIMUM_IMAGES} images."


class Interval(NamedTuple):
    """A figure and its 95 % interval over images; both ends are NaN where there are too few images."""

    value: float
    low: float
    high: float
    images: int

    @property
    def bounds(self) -> tuple[float, float]:
        """The two ends."""
        return self.low, self.high


@dataclass(frozen=True)
class Estimate:
    """A figure of N images and how it hangs on each of them; differences and ratios of two are of the same images.

    Attributes:
        value: the figure; NaN where it is undefined.
        changes: (N, K) how much higher the figure is by part k of image n than without it; NaN where image n is the
            only one with part k.
        shares: (N, K) the share of part k that image n holds; all 0 for a part that no image holds.
        parts: (K,) which parts the figure is a mean over.
        counted: (N,) which images are part of the figure (those with a valid pixel).
        images: how many images the figure rests on: of one class, those with the class.
        limits: the least and the largest value that the figure can have.
    """

    value: float
    changes: FloatArray
    shares: FloatArray
    parts: BoolArray
    counted: BoolArray
    images: int
    limits: tuple[float, float] = _ANY

    def __add__(self, other: Estimate) -> Estimate:
        return self._with(other, self.value + other.value, self.changes + other.changes)

    def __sub__(self, other: Estimate) -> Estimate:
        return self._with(other, self.value - other.value, self.changes - other.changes)

    def __mul__(self, factor: float) -> Estimate:
        return replace(self, value=self.value * factor, changes=self.changes * factor, limits=_ANY)

    def __truediv__(self, other: Estimate) -> Estimate:
        value = float(divide(self.value, other.value))
        changes = divide(self.changes - value * other.changes, other.value)
        return replace(self._with(other, value, changes), limits=(0.0, np.inf))

    def _with(self, other: Estimate, value: float, changes: FloatArray) -> Estimate:
        shares = np.where(self.shares.any(axis=0), self.shares, other.shares)
        counted = self.counted & other.counted
        return Estimate(value, changes, shares, self.parts | other.parts, counted, min(self.images, other.images))

    def interval(self) -> Interval:
        """The 95 % interval; NaN below MINIMUM_IMAGES images and for an undefined figure."""
        if np.isnan(self.value) or self.images < MINIMUM_IMAGES:
            return Interval(self.value, np.nan, np.nan, self.images)
        half, bias = self._reach()
        least, largest = self.limits
        low = max(self.value - half - max(bias, 0.0), least)
        high = min(self.value + half - min(bias, 0.0), largest)
        return Interval(self.value, low, high, self.images)

    def rows(self) -> FloatArray:
        """(1 + G,) the figure, and without each image (`left_out`), such that `of_rows` gives the same interval.

        They can be put into any function of figures of the same images.
        """
        changes = _of_groups(np.nan_to_num(self.changes).sum(axis=1))
        middle = changes.mean()
        scale = 1.0
        if self.images >= MINIMUM_IMAGES and np.ptp(changes) > 0:
            scale = self._reach()[0] / (student(len(changes) - 1.0) * float(np.sqrt(_variance(changes))))
        return np.concatenate([[self.value], self.value - middle - scale * (changes - middle)])

    def _reach(self) -> tuple[float, float]:
        """Half the width of the interval and the bias of the figure."""
        images = int(self.counted.sum())
        changes = np.nan_to_num(self.changes[self.counted])  # what is not known is borrowed below
        concentration = (self.shares**2).sum(axis=0)
        concentration = np.where(concentration > 0, concentration, 1.0)[self.parts]  # predicted only: as in one image
        freedom = np.maximum(1 / concentration - 1, 0)
        own = _variance(changes[:, self.parts])  # (K,)
        usual = divide((freedom * own).sum(), (freedom * concentration).sum())
        smooth = (freedom * own + _BORROWED * np.nan_to_num(usual) * concentration) / (freedom + _BORROWED)
        whole = changes.sum(axis=1)
        variance = _variance(whole) + np.maximum(smooth - own, 0).sum()
        parts_freedom = np.minimum(freedom + _BORROWED / 2, images - 1)
        total = divide(smooth.sum() ** 2, (smooth**2 / parts_freedom).sum())
        degrees = min(float(np.nan_to_num(total, nan=np.inf)), images - 1.0)
        bias = -(images - 1) * float(whole.mean())
        return float(student(degrees) * np.sqrt(variance)), bias


def _variance(changes: FloatArray) -> FloatArray:
    """The jackknife's variance from changes along the first axis."""
    images = len(changes)
    return np.asarray((images - 1) / images * ((changes - changes.mean(axis=0)) ** 2).sum(axis=0))


def student(degrees: float) -> float:
    """Student's t of the upper end of an interval."""
    return float(stdtrit(degrees, (1 + LEVEL) / 2))


def mean_of_ratios(
    numerators: npt.ArrayLike,
    denominators: npt.ArrayLike,
    presence: npt.ArrayLike | None = None,
    *,
    counted: BoolArray | None = None,
    limits: tuple[float, float] = FRACTION,
) -> Estimate:
    """The mean over K parts of their ratios of sums over N images; parts whose denominator is 0 leave the mean.

    Args:
        numerators, denominators: (N, K) of every image.
        presence: (N, K) how much of a part an image holds (pixels of a class); the denominators by default.
        counted: (N,) which images are part of the figure; by default those that hold a part.
        limits: the least and the largest value.
    """
    top, bottom = (np.asarray(each, np.float64) for each in (numerators, denominators))
    held = bottom if presence is None else np.asarray(presence, np.float64)
    ratios = divide(top.sum(axis=0), bottom.sum(axis=0))
    changes = ratios - divide(top.sum(axis=0) - top, bottom.sum(axis=0) - bottom)
    present = np.asarray(held.any(axis=1))
    of_figure = present if counted is None else counted
    return _estimate(ratios, changes, held, of_figure, int(present.sum()), limits)


def mean_of_images(values: npt.ArrayLike, *, limits: tuple[float, float] = FRACTION) -> Estimate:
    """The mean over images of a figure of theirs; images without one (NaN) do not count.

    Args:
        values: (N,) of every image.
        limits: the least and the largest value.
    """
    array = np.asarray(values, np.float64)[:, None]
    known = ~np.isnan(array)
    return mean_of_ratios(np.where(known, array, 0), known, limits=limits)


def mean_of_parts(values: FloatArray, presence: npt.ArrayLike, *, limits: tuple[float, float] = FRACTION) -> Estimate:
    """The mean over K parts of figures that are no ratio of sums, such as average precision.

    Args:
        values: (1 + G, K) of all images and without each, as `count_without` gives them; NaN for a part without one.
        presence: (N, K) how much of a part an image holds (objects of a class).
        limits: the least and the largest value.
    """
    held = np.asarray(presence, np.float64)
    groups = np.ones(len(values) - 1, bool)
    return _estimate(values[0], values[0] - values[1:], _of_groups(held), groups, len(held), limits)


def _estimate(
    values: FloatArray,
    changes: FloatArray,
    held: FloatArray,
    counted: BoolArray,
    images: int,
    limits: tuple[float, float],
) -> Estimate:
    """From figures of parts (K,), their changes and what images hold of them (N, K)."""
    parts = ~np.isnan(values)
    count = max(int(parts.sum()), 1)
    value = float(values[parts].sum() / count) if parts.any() else float("nan")
    shares = np.nan_to_num(divide(held, held.sum(axis=0)))
    return Estimate(value, np.where(parts, changes, 0) / count, shares, parts, counted, images, limits)


def _of_groups(values: FloatArray) -> FloatArray:
    """(G, ...) sums over the images that are left out together: every image alone up to 400, else every 400th."""
    if len(values) <= _MOST_LEFT_OUT:
        return values
    sums = np.zeros((_MOST_LEFT_OUT, *values.shape[1:]))
    np.add.at(sums, np.arange(len(values)) % _MOST_LEFT_OUT, values)
    return sums


def left_out(images: int) -> FloatArray:
    """(1 + G, N) how often each image counts: all of them once, then without each; more than 400 in as many groups."""
    return np.concatenate([np.ones((1, images)), _without(images, 0, images)])


def _without(images: int, start: int, stop: int) -> FloatArray:
    """Rows of `left_out` without its first."""
    out = np.arange(start, min(stop, images, _MOST_LEFT_OUT))
    return np.asarray(np.arange(images) % _MOST_LEFT_OUT != out[:, None], np.float64)


def count_without(figures: Callable[[FloatArray], FloatArray], images: int) -> FloatArray:
    """(1 + G, ...) figures of all images, then without each, as in `left_out`.

    Args:
        figures: (R, ...) figures of R sets of images, from how often each image counts in them, (R, N).
        images: N.
    """
    starts = range(0, min(images, _MOST_LEFT_OUT), _CHUNK)  # in chunks: the weights of 100,000 images are not small
    parts = [figures(_without(images, start, start + _CHUNK)) for start in starts]
    return np.concatenate([figures(np.ones((1, images))), *parts])


def sums_left_out(counts: FloatArray) -> FloatArray:
    """(1 + G, M) sums over images of their counts (N, M): over all of them, then without each, as in `left_out`."""
    total = counts.sum(axis=0)
    with np.errstate(invalid="ignore"):  # an infinite count has no rest
        return np.concatenate([total[None], total - _of_groups(counts)])


def of_rows(values: FloatArray, *, limits: tuple[float, float] = _ANY) -> Interval:
    """The interval of any function of figures, from its value and its values without each image.

    Args:
        values: (1 + G,) as `left_out` orders them; images without which it has no value are not counted.
        limits: the least and the largest value.
    """
    without = values[1:][np.isfinite(values[1:])]
    images = len(without)
    changes, everywhere = (values[0] - without)[:, None], np.ones(images, bool)
    return _estimate(values[:1], changes, np.ones((images, 1)), everywhere, images, limits).interval()


Counts = TypeVar("Counts")
Statistic = Callable[[Counts], Estimate]
"""A figure of the counts of images, such as `gauntlet.metrics.segmentation.figures.miou`."""


def interval(counts: Counts, statistic: Statistic[Counts]) -> Interval:
    """A figure and its 95 % interval over images."""
    return statistic(counts).interval()


def difference(first: Counts, second: Counts, statistic: Statistic[Counts]) -> Interval:
    """The figure of the first minus that of the second on the same images, with its paired interval."""
    return (statistic(first) - statistic(second)).interval()


def ratio(first: Counts, second: Counts, statistic: Statistic[Counts]) -> Interval:
    """The figure of the first over that of the second on the same images, with its paired interval."""
    return (statistic(first) / statistic(second)).interval()
