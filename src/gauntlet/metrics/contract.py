"""What a metric must be: counts per image that merge in any order and become figures at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

NAN = float("nan")
NOT_FRACTIONS = ("entropy", "entropy_images", "boxes_per_image")
"""Figures that are not parts of one: nats, numbers of boxes."""


@dataclass(frozen=True)
class Figure:
    """One number of an evaluation.

    Attributes:
        metric: its name ("mIoU", "IoU", "A_M").
        value: a fraction in [0, 1] unless the metric says otherwise; NaN when undefined.
        view: "all" for the headline, else the part it belongs to ("inside", "outside", an attack of a battery).
        class_name: the class of a per-class figure, else "".
        low, high: bounds of the 95 % bootstrap interval over images, NaN when none was computed.
    """

    metric: str
    value: float
    view: str = "all"
    class_name: str = ""
    low: float = NAN
    high: float = NAN


class Metric(ABC):
    """Turns a prediction into counts of one image, and counts of many images into figures.

    Counts are an opaque value per image with `to_bytes`; merging is concatenation, so any order and any split of
    the images over workers gives the same figures.

    Attributes:
        headline: the figure that leaderboards rank by.
    """

    headline: ClassVar[str]

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """Counts of one image from their stored bytes."""

    @abstractmethod
    def compute(self, counts: Iterable[Any], views: Sequence[str]) -> list[Figure]:
        """Figures of all images; the same counts in any order give the same figures."""

    @abstractmethod
    def per_image(self, counts: Any, views: Sequence[str]) -> list[dict[str, Any]]:
        """One row of figures per view of one image."""
