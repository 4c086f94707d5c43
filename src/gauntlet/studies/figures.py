"""Figures of a study, wherever they come from: own evaluations (`results`) or what a paper prints (`printed`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.metrics.arithmetic import divide
from gauntlet.metrics.intervals import LEVEL, of_rows, student
from gauntlet.report.tables import Interval

FloatArray = npt.NDArray[np.float64]
DRAWS = 1000
UNKNOWN: FloatArray = np.full(1, np.nan)
"""What a source does not have."""
CLEAN = "clean"
"""The label of clean images in every study."""


class Figures(ABC):
    """Figures of models, each as several members, under threats.

    Figures are arrays (R,): the figure of all images, then without each of them (`metrics.intervals`); the first is the
    only one where a source has no images. What a source does not have is NaN.

    Attributes:
        source: "here" or "published".
        models: labels of the models, in order.
        members: labels of the members, in order.
        chosen: the model that claims and drawings are about; None for all of them.
    """

    source: str
    models: Sequence[str]
    members: Sequence[str]
    chosen: str | None

    @abstractmethod
    def of(self, model: str) -> Figures:
        """The figures of one model."""

    @abstractmethod
    def miou(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(R,) mIoU over the pooled pixels of the images; of a random model, the mean over its trials."""

    def ratio(self, member: str, threat: str, model: str | None = None) -> FloatArray:
        """(R,) IoU ratio of Arnab et al.: mIoU under the threat over clean mIoU of the same member."""
        return np.asarray(divide(self.miou(member, threat, model), self.miou(member, CLEAN, model)), dtype=np.float64)

    def trial_ratios(self, member: str, threat: str, model: str | None = None) -> FloatArray:
        """(T,) IoU ratio in every trial of a random model."""
        return UNKNOWN

    def accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(R,) pixel accuracy; of a random model, the mean over its trials."""
        return UNKNOWN

    def class_accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(R,) mAcc: mean over classes of the share of their pixels that are right."""
        return UNKNOWN

    def image_accuracy(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(R,) mean over images of their pixel accuracy; images without a counted pixel are left out."""
        return UNKNOWN

    def nmiou(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(R,) mean over images of their mIoU; images without a counted pixel are left out."""
        return UNKNOWN

    def certainty(self, name: str, member: str, threat: str, model: str | None = None) -> FloatArray:
        """(R,) mean over pixels of "confidence" (largest class probability) or "entropy" (nats)."""
        return UNKNOWN

    def zero_gradients(self, member: str, threat: str, model: str | None = None) -> FloatArray:
        """(R,) mean over images of the share of exactly zero elements in the first gradient that an attack saw."""
        return UNKNOWN

    def abstention(self, member: str, threat: str, model: str | None = None, view: str = "all") -> FloatArray:
        """(R,) share of the pixels without a certificate."""
        return UNKNOWN

    def parameters(self, member: str, model: str | None = None) -> float:
        """Number of parameters."""
        return float("nan")

    def backbone_type(self, model: str) -> str:
        """ "convolution" or "transformer"; "" where nobody said."""
        return ""

    @property
    def place(self) -> str:
        """Where figures come from and whose they are, for names of tables that must differ."""
        return f"{self.source} {self.chosen or 'all'}"

    def _name(self, model: str | None) -> str:
        return model or self.chosen or self.models[0]


class Draws(np.ndarray[Any, np.dtype[np.float64]]):
    """A figure and what it may be by chance, drawn: its interval is that of the drawn values."""


def interval(values: FloatArray) -> Interval:
    """A figure and its 95 % interval over the images."""
    if not isinstance(values, Draws):
        found = of_rows(values)
        return Interval(found.value, found.low, found.high)
    finite = values[1:][np.isfinite(values[1:])]
    if not len(finite):
        return Interval(float(values[0]))
    low, high = np.percentile(finite, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Interval(float(values[0]), float(low), float(high))


def largest(values: Sequence[FloatArray]) -> FloatArray:
    """(R,) the largest of several figures, set of images by set of images."""
    return np.asarray(np.max(np.stack(values), axis=0))


def smallest(values: Sequence[FloatArray]) -> FloatArray:
    """(R,) the smallest of several figures, set of images by set of images."""
    return np.asarray(np.min(np.stack(values), axis=0))


def mean_of(values: Sequence[FloatArray]) -> FloatArray:
    """(R,) the mean of several figures, set of images by set of images."""
    return np.asarray(np.mean(np.stack(values), axis=0))


def rank_correlation(first: Sequence[FloatArray], second: Sequence[FloatArray], *, redraw: bool = False) -> FloatArray:
    """Spearman's rho of pairs of figures, and what it may be by chance; NaN for fewer than three or without variance.

    Ranks change in steps, so that nothing can be told from single images: figures are drawn together from their
    intervals, 1000 times.

    Args:
        first, second: as many figures each, (R,) or (1,); pairs with a NaN in the first entry are left out.
        redraw: draw the pairs too, where they stand for others (models of a kind).
    """
    pairs = [pair for pair in zip(first, second, strict=True) if np.isfinite(pair[0][0]) and np.isfinite(pair[1][0])]
    if len(pairs) < 3:
        return UNKNOWN
    x, y = (_draw(np.stack(np.broadcast_arrays(*values))) for values in zip(*pairs, strict=True))  # (pairs, 1 + DRAWS)
    if redraw:
        drawn = np.random.default_rng(0).integers(0, len(pairs), x.shape)
        drawn[:, 0] = np.arange(len(pairs))
        x, y = (np.take_along_axis(values, drawn, axis=0) for values in (x, y))
    ranks = [_ranks(values) for values in (x, y)]
    one, other = (values - values.mean(axis=0) for values in ranks)
    scale = np.sqrt((one**2).sum(axis=0) * (other**2).sum(axis=0))
    return np.asarray(divide((one * other).sum(axis=0), scale), dtype=np.float64).view(Draws)


def _draw(values: FloatArray) -> FloatArray:
    """(P, 1 + DRAWS) figures and drawn ones that spread as their intervals say, alike for all figures of the images."""
    images = values.shape[1] - 1
    if images < 2:
        return np.repeat(values[:, :1], 1 + DRAWS, axis=1)
    changes = np.nan_to_num(values[:, 1:] - values[:, :1])
    changes -= changes.mean(axis=1, keepdims=True)
    spread = student(images - 1) / student(np.inf) * np.sqrt((images - 1) / images)
    noise = np.random.default_rng(1).standard_normal((images, DRAWS))
    return np.hstack([values[:, :1], values[:, :1] + spread * changes @ noise])


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks along the first axis, ties with their average."""
    below = (values[None] < values[:, None]).sum(axis=1)
    equal = (values[None] == values[:, None]).sum(axis=1)
    return np.asarray(below + (equal - 1) / 2, dtype=np.float64)
