"""What travels between the driver and its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gauntlet.evaluation.execution.units import Unit
from gauntlet.evaluation.execution.workers.proof import Expected
from gauntlet.evaluation.kept_images import KeptImages
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.metrics import Views
from gauntlet.results.record import ImageRow


@dataclass(frozen=True)
class PickledFile:
    """An object that only lives in the driver's memory, as a file that workers on the same machine map."""

    path: str


@dataclass(frozen=True)
class Order:
    """A unit of work: small, and enough to build everything in another process.

    Attributes:
        model, dataset: where the worker finds them.
        threat: what it is built from (`Threat.written`).
        metric: options of the metric.
        seed, precision: of the evaluation.
        device: where to compute.
        batch_size: images of a full unit.
        prepare: what the evaluation asks for, "auto", "off" or steps; for models that the threat has of its own.
        preparation: steps of `models.preparation`; None when the worker is to measure which are the fastest.
        unit: the images.
        expected: what the worker's model and images must be.
        kept: where perturbed images are written, or None.
    """

    model: ModelEntry | PickledFile
    dataset: DatasetEntry | PickledFile
    threat: dict[str, Any]
    metric: dict[str, Any]
    seed: int
    precision: str
    device: str
    batch_size: int
    prepare: str
    preparation: tuple[str, ...] | None
    unit: Unit
    expected: Expected
    kept: KeptImages | None = None


@dataclass(frozen=True)
class Refusal:
    """A unit that a worker could not compute.

    Attributes:
        error: why, in one line.
        final: whether it is bad input, which fails again however often it is tried.
        unfit: whether the worker has other data, another model or other code than the run.
    """

    error: str
    final: bool
    unfit: bool = False


@dataclass(frozen=True)
class Delivery:
    """What a worker sends back: counts, a few hundred bytes an image.

    Attributes:
        rows: the counts of every image of the unit.
        views: what the views of the counts are.
        seconds: how long the unit took.
        preparation: the steps with which the model was prepared.
        notes: what the user is to be told once.
    """

    rows: list[ImageRow]
    views: Views
    seconds: float
    preparation: tuple[str, ...]
    notes: tuple[str, ...] = ()
