"""One model, one dataset, one threat: to figures."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.evaluation.jobs import (
    DEFAULT_BATCH_SIZE,
    Settings,
    begin_job,
    compute_groups,
    finish_job,
    make_job,
    ready_model,
)
from gauntlet.evaluation.pipeline import load_ahead
from gauntlet.evaluation.progress import Progress, Silent
from gauntlet.evaluation.provenance import choose_device
from gauntlet.evaluation.task import Importance
from gauntlet.models import GauntletModel, resolve_model
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store, open_store
from gauntlet.threats import build_threat
from gauntlet.threats.build import ThreatLike
from gauntlet.threats.contract import Threat


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
    model = ready_model(source, dataset, device)
    running = begin_job(store, job, dataset, settings, device)
    telling.start(f"{job.model} | {job.threat}", running.images, len(running.done))
    began = time.perf_counter()
    for unit, groups in load_ahead(dataset, running.units_left(), threat, model, settings.seed, device):
        rows, views = compute_groups(model, threat, running.task, groups, telling)
        ended = time.perf_counter()
        running.commit(unit, rows, views, ended - began)
        began = ended
        telling.advance(len(rows), running.figure)
    return finish_job(running)
