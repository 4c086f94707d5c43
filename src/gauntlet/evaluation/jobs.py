"""A job from its beginning to its figures; local runs and clusters share these steps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gauntlet.datasets.contract import Dataset, DatasetIdentity
from gauntlet.errors import GauntletError
from gauntlet.evaluation.pipeline import Loaded, Unit, cut_units
from gauntlet.evaluation.prediction import PRECISIONS
from gauntlet.evaluation.progress import Progress
from gauntlet.evaluation.provenance import describe_run
from gauntlet.evaluation.task import TASKS, Importance, RunningFigure, Task, build_task
from gauntlet.metrics import WHOLE, Metric, Views
from gauntlet.models import GauntletModel
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation, ImageRow, Job
from gauntlet.results.store import Started, Store
from gauntlet.samples import Batch
from gauntlet.threats.contract import Threat

DEFAULT_BATCH_SIZE = 4


@dataclass(frozen=True)
class Settings:
    """How an evaluation runs.

    Attributes:
        seed: of all randomness.
        batch_size: images computed together.
        device: a torch device, or None for the best there is.
        precision: "fp32" or "bf16" for forward passes.
        importance: weights of pixels for A_P; its name is part of the key.
    """

    seed: int = 0
    batch_size: int = DEFAULT_BATCH_SIZE
    device: str | torch.device | None = None
    precision: str = "fp32"
    importance: Importance | None = None

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise GauntletError(f"batch_size must be at least 1, not {self.batch_size}.")
        if self.precision not in PRECISIONS:
            raise GauntletError(f"precision must be one of {', '.join(PRECISIONS)}, not '{self.precision}'.")

    @property
    def in_key(self) -> dict[str, Any]:
        """What changes figures beyond rounding and therefore belongs to the key."""
        changed: dict[str, Any] = {}
        if self.precision != "fp32":
            changed["precision"] = self.precision
        if self.importance is not None:
            changed["importance"] = _fingerprint(self.importance)
        return changed


def _fingerprint(function: Importance) -> str:
    """Name and code of a function: two lambdas of one place are two functions."""
    code = getattr(function, "__code__", None)
    if code is None:
        raise GauntletError("importance must be a plain function of a sample, so that its results can be told apart.")
    closure = [repr(cell.cell_contents) for cell in function.__closure__ or ()]
    parts = (code.co_code.hex(), repr(code.co_consts), code.co_names, closure)
    return f"{function.__qualname__}:{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


def make_job(identity: ModelIdentity, task: str, dataset: DatasetIdentity, threat: Threat, settings: Settings) -> Job:
    """What is to be evaluated, with its key."""
    description = threat.describe()
    return Job(
        task=task,
        model=identity.name,
        model_digest=identity.digest,
        dataset=dataset.as_dict(),
        threat=threat.name,
        kind=next(iter(description)),
        description=description,
        threat_version=threat.version,
        seed=settings.seed,
        settings=settings.in_key,
    )


@dataclass
class RunningJob:
    """A job that the store knows: what of it is done, and where the rest goes.

    Attributes:
        running: the figure over the images computed in this session so far (mIoU, or the mean F1 of images).
        figure: its value, NaN where the threat has no plain one.
    """

    store: Store
    started: Started
    task: Task
    images: int
    done: set[int]
    views: Views | None
    running: RunningFigure
    figure: float = float("nan")

    def units_left(self) -> list[Unit]:
        """Units with an image that is not committed; cut as they were when the evaluation began."""
        units = cut_units(self.images, self.started.batch_size)
        return [unit for unit in units if not self.done.issuperset(unit.positions)]

    def commit(self, unit: Unit, rows: Sequence[ImageRow], views: Views, seconds: float) -> None:
        """Writes the counts of a unit, all or nothing."""
        self.store.add_images(self.started, rows, views, seconds)
        self.done.update(unit.positions)
        self.views = views
        if views == WHOLE:
            self.figure = self.running.add([self.task.metric.decode(row.counts) for row in rows])


def begin_job(
    store: Store,
    job: Job,
    dataset: Dataset,
    settings: Settings,
    device: torch.device,
    threads: int | None = None,
) -> RunningJob:
    """Registers a job in the store, or finds what is there of it.

    Args:
        store, job, dataset, settings: what is to be computed, and where it goes.
        device: where it is computed.
        threads: torch threads of the workers that compute it; this process's by default.
    """
    options = TASKS[job.task].metric_options(dataset)
    task = build_task(job.task, options, importance=settings.importance, precision=settings.precision)
    provenance = describe_run(
        device=device, batch_size=settings.batch_size, precision=settings.precision, threads=threads
    )
    started = store.begin(
        job, images=len(dataset), batch_size=settings.batch_size, metric=options, provenance=provenance
    )
    return RunningJob(store, started, task, len(dataset), store.positions(started), started.views, task.running())


def finish_job(running: RunningJob) -> Evaluation:
    """Computes the figures of a job whose images are all committed, and marks it complete."""
    if running.views is None:
        raise GauntletError("the dataset has no images; nothing was evaluated.")
    counts = stored_counts(running.store, running.started, running.task.metric)
    running.store.finish(running.started, running.task.metric.compute(counts, running.views))
    finished = running.store.load(running.started.key)
    if finished is None:
        raise GauntletError(f"the evaluation {running.started.key} was removed from the store while it ran.")
    return replace(finished, from_store=False)


def stored_counts(store: Store, started: Started, metric: Metric) -> Iterator[Any]:
    """The counts of every image, in order, a page at a time."""
    for row in store.image_rows(started):
        yield metric.decode(row.counts)


def check_depth(threat: Threat, dataset: Dataset) -> None:
    """An error where a threat needs depth and the dataset has none."""
    if threat.needs_depth and not dataset.has_depth:
        raise GauntletError(
            f"the threat '{threat.name}' needs depth, which the dataset '{dataset.name}' does not have; leave it out, "
            "use a dataset with depth such as streets, or set has_depth = True on it if its samples have depth."
        )


def ready_model(source: GauntletModel | ModelSource, dataset: Dataset, device: torch.device) -> GauntletModel:
    """The model, frozen and on its device; an error where it does not fit the dataset."""
    classes = TASKS[source.task].class_names(dataset)
    model = source.load() if isinstance(source, ModelSource) else source
    if model.task != source.task:
        raise GauntletError(
            f"'{model.identity.name}' is a {model.task} model, but its source said {source.task}; the source must say "
            f'task "{model.task}".'
        )
    if model.num_classes != len(classes):
        what = "classes" if model.task == "segmentation" else "classes of boxes"
        raise GauntletError(
            f"the model '{model.identity.name}' has {model.num_classes} classes, the dataset '{dataset.name}' "
            f"{len(classes)} {what}; they must agree."
        )
    model.freeze()
    return model.to(device)


def compute_groups(
    model: GauntletModel,
    threat: Threat,
    task: Task,
    groups: Sequence[Loaded],
    progress: Progress | None = None,
) -> tuple[list[ImageRow], Views]:
    """Rows of the images of a unit, in the order of the dataset, and what their views are."""
    rows: list[ImageRow] = []
    views = WHOLE
    for group in groups:
        more, views = _compute_group(model, threat, task, group, progress)
        rows += more
    return sorted(rows, key=lambda row: row.position), views


def _compute_group(
    model: GauntletModel, threat: Threat, task: Task, group: Loaded, progress: Progress | None
) -> tuple[list[ImageRow], Views]:
    outcome = None
    try:
        perturbed = group.perturbed or threat.perturb(model, group.batch, group.seeds)
        outcome = perturbed, *task.count(model, group.batch, perturbed)
    except torch.cuda.OutOfMemoryError:
        pass  # tried again below: inside this block the traceback would keep the failed pass in memory
    if outcome is None:
        if len(group.positions) == 1:
            raise GauntletError(
                f"image '{group.batch.samples[0].id}' alone does not fit into the memory of {model.device}; "
                "use smaller images (a protocol) or another device."
            )
        torch.cuda.empty_cache()
        if progress is not None:
            progress.note_once("out of memory: batches are halved where they do not fit.")
        return compute_groups(model, threat, task, _halves(group), progress)
    perturbed, counts, views = outcome
    rows = []
    for index, (position, sample) in enumerate(zip(group.positions, group.batch.samples, strict=True)):
        details = {name: values[index] for name, values in perturbed.details.items()}
        rows.append(ImageRow(position, sample.id, counts[index].to_bytes(), details))
    return rows, views


def _halves(group: Loaded) -> list[Loaded]:
    """The group cut in two; a threat that ran ahead runs again, on each half."""
    middle = len(group.positions) // 2

    def part(which: slice) -> Loaded:
        batch = group.batch
        labels = None if batch.labels is None else batch.labels[which]
        return Loaded(
            group.positions[which],
            Batch(batch.samples[which], batch.images[which], labels, batch.ignore_index),
            group.seeds[which],
            None,
        )

    return [part(slice(None, middle)), part(slice(middle, None))]
