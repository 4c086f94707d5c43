"""One model, one dataset, one threat: to figures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, overload

import torch

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.jobs import (
    DEFAULT_BATCH_SIZE,
    Settings,
    begin_job,
    check_depth,
    compute_groups,
    finish_job,
    make_job,
    ready_model,
)
from gauntlet.evaluation.pipeline import load_ahead
from gauntlet.evaluation.progress import Progress, Silent
from gauntlet.evaluation.provenance import choose_device
from gauntlet.evaluation.retrieval import Unresolved, find_published, resolve_triple
from gauntlet.evaluation.task import Importance
from gauntlet.models import GauntletModel, resolve_model
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store, open_store
from gauntlet.threats import build_threat
from gauntlet.threats.build import ThreatLike
from gauntlet.threats.contract import Threat


@overload
def evaluate(
    model: GauntletModel | ModelSource | str,
    dataset: Dataset | str = "streets",
    threat: ThreatLike = "clean",
    **options: Any,
) -> Evaluation: ...


@overload
def evaluate(
    *, model_name: str, backbone: str, dataset: str, threat_config: ThreatLike = "clean", **options: Any
) -> tuple[GauntletModel | ModelSource, Evaluation]: ...


# The overloads only tell the two return types apart; the options are those of the signature below.
def evaluate(  # type: ignore[misc]
    model: GauntletModel | ModelSource | str | None = None,
    dataset: Dataset | str = "streets",
    threat: ThreatLike = "clean",
    *,
    model_name: str | None = None,
    backbone: str | None = None,
    crop_size: str | None = None,
    root: str | Path | None = None,
    threat_config: ThreatLike | None = None,
    store: Store | str | Path | None = None,
    retrieve_existing: bool = True,
    limit: int | None = None,
    seed: int = 0,
    batch_size: int = DEFAULT_BATCH_SIZE,
    device: str | torch.device | None = None,
    precision: str = "fp32",
    importance: Importance | None = None,
    progress: Progress | None = None,
) -> Evaluation | tuple[GauntletModel | ModelSource, Evaluation]:
    """Evaluates one model on one dataset under one threat.

    With a benchmark triple (model_name, backbone, dataset) instead of a model, returns (model, result): where
    `retrieve_existing` finds the result in the published figures, nothing is computed or loaded, and the model is a
    source whose `load()` gives it.

    Args:
        model: a Gauntlet model, or an address as for `load_model`.
        dataset: a dataset, or a name as for `load_dataset`.
        threat: a name ("clean", "pgd", "fog"), a description, a Threat, or the path of a YAML file.
        model_name, backbone: of a benchmark triple; `dataset` completes it. crop_size: where it has several.
        root: where the triple's dataset lies on disk.
        threat_config: another name for `threat`, as SemSegBench has it.
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
    if (model is None) == (model_name is None):
        raise GauntletError("give either a model or a triple (model_name, backbone, dataset).")
    built = build_threat(threat if threat_config is None else threat_config)
    settings = Settings(seed, batch_size, device, precision, importance)
    if model_name is not None:
        if backbone is None or not isinstance(dataset, str):
            raise GauntletError("a triple needs a model_name, a backbone and the name of a dataset.")
        if retrieve_existing:
            found = _stored_triple(store, model_name, backbone, dataset, crop_size, built, settings, limit, root)
            if found is None and limit is None and not settings.in_key:  # published figures are of whole datasets
                found = find_published(model_name, backbone, dataset, built, crop_size)
            if found is not None:
                return Unresolved(model_name, backbone, dataset, crop_size), found
        triple = resolve_triple(model_name, backbone, dataset, crop_size).load()
        data = load_dataset(dataset, root=root, limit=limit)
        return triple, _run_in(store, triple, data, built, settings, retrieve_existing, progress)
    assert model is not None
    data = load_dataset(dataset) if isinstance(dataset, str) else dataset
    if limit is not None:
        data = data.subset(limit)
    source = resolve_model(model) if isinstance(model, str) else model
    return _run_in(store, source, data, built, settings, retrieve_existing, progress)


def _run_in(
    store: Store | str | Path | None,
    source: GauntletModel | ModelSource,
    dataset: Dataset,
    threat: Threat,
    settings: Settings,
    retrieve_existing: bool,
    progress: Progress | None,
) -> Evaluation:
    if store is not None and not isinstance(store, Store):
        with open_store(store) as opened:
            return run_job(source, dataset, threat, settings, opened, retrieve_existing, progress)
    return run_job(source, dataset, threat, settings, store or Store(), retrieve_existing, progress)


def _stored_triple(
    store: Store | str | Path | None,
    model_name: str,
    backbone: str,
    dataset: str,
    crop_size: str | None,
    threat: Threat,
    settings: Settings,
    limit: int | None,
    root: str | Path | None,
) -> Evaluation | None:
    """The triple's evaluation in the store, where there is one and its model and data can be identified here."""
    if store is None:
        return None
    try:
        source = resolve_triple(model_name, backbone, dataset, crop_size)
        data = load_dataset(dataset, root=root, limit=limit)
        job = make_job(source.identity, source.task, data.identity, threat, settings)
    except GauntletError:
        return None  # no checkpoint or no data on this machine: the published figures are next
    if isinstance(store, Store):
        return store.load(job.key)
    with open_store(store) as opened:
        return opened.load(job.key)


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
    job = make_job(source.identity, source.task, dataset.identity, threat, settings)
    found = store.load(job.key) if retrieve_existing else None
    if found is not None:
        return found
    check_depth(threat, dataset)
    device = choose_device(settings.device)
    model = ready_model(source, dataset, device)
    if not retrieve_existing:
        store.delete(job.key)  # not before the model is there: a fault must not cost the old result
    running = begin_job(store, job, dataset, settings, device)
    telling.start(f"{job.model} | {job.threat}", running.images, len(running.done))
    began = time.perf_counter()
    for unit, groups in load_ahead(dataset, running.units_left(), threat, model, settings.seed, device):
        rows, views = compute_groups(model, threat, running.task, groups, telling)
        ended = time.perf_counter()
        running.commit(unit, rows, views, ended - began)
        began = ended
        telling.advance(len(rows), running.figure, running.running.name)
    return finish_job(running)
