"""One model, one dataset, one threat: to figures."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset, DatasetIdentity
from gauntlet.errors import GauntletError
from gauntlet.evaluation.pipeline import Loaded, Unit, cut_units, load_ahead
from gauntlet.evaluation.prediction import PRECISIONS
from gauntlet.evaluation.progress import Progress, Silent
from gauntlet.evaluation.provenance import choose_device, describe_run
from gauntlet.evaluation.task import Importance, SegmentationTask
from gauntlet.metrics import SegmentationMetric
from gauntlet.models import GauntletModel, SegmentationModel, resolve_model
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation, ImageRow, Job
from gauntlet.results.store import Store, open_store
from gauntlet.threats import build_threat
from gauntlet.threats.contract import Threat

DEFAULT_BATCH_SIZE = 4
ThreatLike = str | Path | Mapping[str, Any] | Threat


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
            changed["importance"] = getattr(self.importance, "__qualname__", type(self.importance).__qualname__)
        return changed


def evaluate(
    model: GauntletModel | ModelSource | str,
    dataset: Dataset | str = "streets",
    threat: ThreatLike = "clean",
    *,
    store: Store | str | Path | None = None,
    retrieve_existing: bool = True,
    limit: int | None = None,
    seed: int = 0,
    batch_size: int = DEFAULT_BATCH_SIZE,
    device: str | torch.device | None = None,
    precision: str = "fp32",
    importance: Importance | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluates one model on one dataset under one threat.

    Args:
        model: a Gauntlet model, or an address as for `load_model`.
        dataset: a dataset, or a name as for `load_dataset`.
        threat: a name ("clean", "pgd", "fog"), a description, a Threat, or the path of a YAML file.
        store: where the evaluation is kept and looked up; nothing is kept when it is None.
        retrieve_existing: return the stored evaluation when there is one, and go on with one that was interrupted.
        limit: only the first so many images.
        seed: of all randomness; the same seed gives the same figures.
        batch_size: images computed together.
        device: a torch device; the best there is by default.
        precision: "fp32" or "bf16" for forward passes.
        importance: weights of the pixels of a sample, for A_P.
        progress: told what is going on.
    """
    settings = Settings(seed, batch_size, device, precision, importance)
    data = load_dataset(dataset) if isinstance(dataset, str) else dataset
    if limit is not None:
        data = data.subset(limit)
    source = resolve_model(model) if isinstance(model, str) else model
    built = build_threat(threat)
    if store is not None and not isinstance(store, Store):
        with open_store(store) as opened:
            return run_job(source, data, built, settings, opened, retrieve_existing, progress)
    return run_job(source, data, built, settings, store or Store(), retrieve_existing, progress)


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


def run_job(
    source: GauntletModel | ModelSource,
    dataset: Dataset,
    threat: Threat,
    settings: Settings,
    store: Store,
    retrieve_existing: bool = True,
    progress: Progress | None = None,
) -> Evaluation:
    """Runs what of a job is not in the store yet and returns the evaluation; loads the model only when it must."""
    telling = progress or Silent()
    job = make_job(source.identity, "segmentation", dataset.identity, threat, settings)
    if not retrieve_existing:
        store.delete(job.key)
    found = store.load(job.key)
    if found is not None:
        return found

    device = choose_device(settings.device)
    model = _ready_model(source, dataset, device)
    metric_options = SegmentationTask.metric_options(dataset)
    provenance = describe_run(device=device, batch_size=settings.batch_size, precision=settings.precision)
    started = store.begin(
        job, images=len(dataset), batch_size=settings.batch_size, metric=metric_options, provenance=provenance
    )
    task = SegmentationTask(SegmentationMetric(**metric_options), settings.importance, settings.precision)
    done = store.positions(started)
    # The batch an image is computed in was fixed when the evaluation began; going on keeps it.
    units = [unit for unit in cut_units(len(dataset), started.batch_size) if not done.issuperset(unit.positions)]
    telling.start(f"{job.model} | {job.threat}", len(dataset), len(done))
    views = started.views
    began = time.perf_counter()
    for unit, loaded in load_ahead(dataset, units, threat, model, settings.seed, device):
        rows, views = _compute_unit(model, threat, task, loaded)
        ended = time.perf_counter()
        store.add_images(started, rows, views, ended - began)
        began = ended
        telling.advance(len(set(unit.positions) - done))
    if views is None:
        raise GauntletError(f"the dataset '{dataset.name}' has no images in the split '{dataset.split}'.")
    store.finish(started, task.metric.compute(_stored_counts(store, job.key, task.metric), views))
    finished = store.load(job.key)
    if finished is None:
        raise GauntletError(f"the evaluation {job.key} was removed from the store while it ran.")
    return _as_computed(finished)


def compute_unit(
    model: GauntletModel, dataset: Dataset, threat: Threat, task: SegmentationTask, unit: Unit, seed: int
) -> tuple[list[ImageRow], tuple[str, ...]]:
    """Loads and computes one unit here and now; what a worker of a cluster does."""
    _, loaded = next(load_ahead(dataset, [unit], threat, model, seed, model.device))
    return _compute_unit(model, threat, task, loaded)


def _compute_unit(
    model: GauntletModel, threat: Threat, task: SegmentationTask, groups: list[Loaded]
) -> tuple[list[ImageRow], tuple[str, ...]]:
    if not isinstance(model, SegmentationModel):
        raise GauntletError(f"'{model.identity.name}' is not a segmentation model.")
    rows: list[ImageRow] = []
    views: tuple[str, ...] = ()
    for group in groups:
        perturbed = group.perturbed or threat.perturb(model, group.batch, group.seeds)
        counts, views = task.count(model, group.batch, perturbed)
        for index, (position, sample) in enumerate(zip(group.positions, group.batch.samples, strict=True)):
            details = {name: values[index] for name, values in perturbed.details.items()}
            rows.append(ImageRow(position, sample.id, counts[index].to_bytes(), details))
    return sorted(rows, key=lambda row: row.position), views


def _ready_model(source: GauntletModel | ModelSource, dataset: Dataset, device: torch.device) -> GauntletModel:
    model = source.load() if isinstance(source, ModelSource) else source
    if model.num_classes != dataset.num_classes:
        raise GauntletError(
            f"the model '{model.identity.name}' has {model.num_classes} classes, the dataset '{dataset.name}' "
            f"{dataset.num_classes}; they must agree."
        )
    return model.freeze().to(device)


def _stored_counts(store: Store, key: str, metric: SegmentationMetric) -> Iterator[Any]:
    started = store.started(key)
    if started is not None:
        for row in store.image_rows(started):
            yield metric.decode(row.counts)


def _as_computed(evaluation: Evaluation) -> Evaluation:
    from dataclasses import replace

    return replace(evaluation, from_store=False)
