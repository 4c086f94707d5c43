"""What a metric must be: counts per image that merge in any order and become figures at the end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gauntlet.class_numbers import check_class_names
from gauntlet.errors import GauntletError
from gauntlet.metrics.arithmetic import BoolArray
from gauntlet.metrics.views import Views
from gauntlet.registry import Registry, subclass_of
from gauntlet.tasks import TASKS

NAN = float("nan")
VERSION = "version"
"""The option under which a store keeps the version of a metric; without it, version 1."""
NOT_FRACTIONS = (
    *(
        name + part
        for name in ("entropy", "entropy_images", "NLL", "Brier")
        for part in ("", "_M", "_Mbar", "_M_clean", "_Mbar_clean")
    ),
    *("boxes_per_image", "hallucinated_per_image", "repeated_per_image"),
    *(f"errors_{name}" for name in ("Cls", "Loc", "Both", "Dupe", "Bkg", "Miss")),
)
"""Figures that are not fractions of one: nats, sums over classes, numbers of boxes."""


@dataclass(frozen=True)
class Figure:
    """One number of an evaluation.

    Attributes:
        metric: its name ("mIoU", "IoU", "A_M").
        value: a fraction in [0, 1] unless the metric says otherwise; NaN when undefined.
        view: "all" for the headline, else the part it belongs to ("inside", "outside", an attack of a battery).
        class_name: the class of a per-class figure, else "".
        low, high: bounds of the 95 % interval over images (`metrics.intervals`); NaN where there is none.
    """

    metric: str
    value: float
    view: str = "all"
    class_name: str = ""
    low: float = NAN
    high: float = NAN


class Metric(ABC):
    """Turns a prediction into counts of one image, and counts of many images into figures.

    Counts are a value of the metric's own type, one per image, with a method `to_bytes` for the store. Merging is
    collecting them, so any order and any split of the images over workers gives the same figures.

    Attributes:
        version: of the figures: it rises when the same predictions get other figures. The store keeps it beside the
            options of the metric, so that older figures are told apart.

    Args:
        class_names: names of the K classes.
    """

    version: ClassVar[int] = 1

    def __init__(self, class_names: Sequence[str]) -> None:
        self.class_names = tuple(class_names)
        check_class_names(self.class_names)

    @abstractmethod
    def update(self, prediction: Any, target: Any, region: BoolArray | None = None) -> Any:
        """Counts of one image: one view, or the two views inside and outside when there is a region.

        Args:
            prediction: what the model said about the image.
            target: its ground truth.
            region: (H, W), True inside.
        """

    def stack(self, counts: Sequence[Any]) -> Any:
        """Counts of one image with the views of all the given ones, one after the other.

        Only threats with a region and batteries need it.
        """
        raise GauntletError(f"{type(self).__name__} counts whole images only: no regions, no batteries.")

    def skipped(self, target: Any) -> Any:
        """Counts, in one view, of an image that an attack of a battery skipped; only batteries need it."""
        raise GauntletError(f"{type(self).__name__} cannot count a battery that skips images.")

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """Counts of one image from what their `to_bytes` gave."""

    @abstractmethod
    def compute(self, counts: Iterable[Any], views: Views) -> list[Figure]:
        """Figures of all images; the same counts in any order give the same figures."""

    @abstractmethod
    def per_image(self, counts: Any, views: Views) -> list[dict[str, Any]]:
        """One row of figures per view of one image."""


metrics: Registry[type[Metric]] = Registry("metric", "gauntlet.metrics", check=subclass_of(Metric))
"""The metrics by name; the two built in have the names of the two tasks."""


def build_metric(task: str, options: Mapping[str, Any]) -> Metric:
    """The metric of a task: it makes the counts of an evaluation, and reads them from a store.

    Args:
        task: "segmentation" or "detection".
        options: of the metric, as the store keeps them beside the counts; "metric" names another than the task's own,
            "version" the version that computed the stored figures.
    """
    kind, rest = _metric_of(task, options)
    return kind(**rest)


def metric_version(task: str, options: Mapping[str, Any]) -> int:
    """The version of the metric that `build_metric` makes."""
    return _metric_of(task, options)[0].version


def _metric_of(task: str, options: Mapping[str, Any]) -> tuple[type[Metric], dict[str, Any]]:
    if task not in TASKS:
        raise GauntletError(f"this version has no metric for the task '{task}'; upgrade vision-gauntlet.")
    rest = {name: value for name, value in options.items() if name != VERSION}
    return metrics[rest.pop("metric", TASKS[task].metric)], rest
