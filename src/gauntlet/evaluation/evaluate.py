"""One model, one dataset, one threat: to figures."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload

import pandas as pd
import torch
from torch import nn

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.evaluation.counting import Importance
from gauntlet.evaluation.jobs import DEFAULT_BATCH_SIZE, PlannedJob, Settings, options_for, plan_job
from gauntlet.evaluation.local import run_one
from gauntlet.evaluation.plan import PlannedThreats, fitting_threats
from gauntlet.evaluation.progress import Logged, Progress
from gauntlet.evaluation.rereading import read_as_asked
from gauntlet.evaluation.triple import Triple, evaluate_triple
from gauntlet.models import GauntletModel, resolve_model
from gauntlet.models.preparation import AUTO
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store, open_store
from gauntlet.results.tidy import evaluations_frame
from gauntlet.threats import build_threat, build_threats, suites
from gauntlet.threats.build import ThreatLike
from gauntlet.threats.contract import Threat

_LOGGER = logging.getLogger(__name__)

ModelLike = GauntletModel | ModelSource | str
"""A model, what loads one, or an address."""


@overload
def evaluate(
    model: GauntletModel | ModelSource | str,
    dataset: Dataset | str = "streets",
    threat: ThreatLike = "clean",
    **options: Any,
) -> Evaluation: ...


@overload
def evaluate(
    model: GauntletModel | ModelSource | str,
    dataset: Dataset | str,
    threat: list[ThreatLike],
    **options: Any,
) -> list[Evaluation]: ...


@overload
def evaluate(
    model: list[Any] | tuple[Any, ...],
    dataset: Dataset | str = "streets",
    threat: ThreatLike | list[ThreatLike] = "clean",
    **options: Any,
) -> pd.DataFrame: ...


@overload
def evaluate(
    *, model_name: str, backbone: str, dataset: str, threat_config: ThreatLike = "clean", **options: Any
) -> tuple[GauntletModel | ModelSource, Evaluation]: ...


# The overloads only tell the return types apart; the options are those of the signature below.
def evaluate(  # type: ignore[misc]
    model: ModelLike | list[Any] | tuple[Any, ...] | None = None,
    dataset: Dataset | str = "streets",
    threat: ThreatLike | list[ThreatLike] = "clean",
    *,
    model_name: str | None = None,
    backbone: str | None = None,
    crop_size: str | None = None,
    root: str | Path | None = None,
    threat_config: ThreatLike | list[ThreatLike] | None = None,
    store: Store | str | Path | None = None,
    retrieve_existing: bool = True,
    limit: int | None = None,
    seed: int = 0,
    batch_size: int = DEFAULT_BATCH_SIZE,
    device: str | torch.device | None = None,
    precision: str = "fp32",
    importance: Importance | None = None,
    objects: bool = False,
    prepare: str = AUTO,
    workers: int = 1,
    progress: Progress | None = None,
) -> Evaluation | list[Evaluation] | pd.DataFrame | tuple[GauntletModel | ModelSource, Evaluation]:
    """Evaluates one model on one dataset under one threat, or under each of several; or several models.

    With a benchmark triple (model_name, backbone, dataset) instead of a model, returns (model, result): where
    `retrieve_existing` finds the result in the published figures, nothing is computed or loaded, and the model is a
    source whose `load()` gives it.

    Args:
        model: a Gauntlet model, or an address as for `load_model`. A list of them gives a tidy frame, one row per
            figure with the columns of `Store.frame()`, for `gauntlet.analysis`; it is checked whole before anything is
            computed.
        dataset: a dataset, or a name as for `load_dataset`.
        threat: a name ("clean", "pgd", "fog"), a description, a Threat, or the path of a YAML file. A list of them, or
            the name of a suite ("quick"), gives a list of evaluations.
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
        importance: weights of pixels for A_P: a function of a sample, or of a sample and the mask of the threat
            (bool (H, W), True where it acts).
        objects: keep every connected object and how much of it is right, for size bias (`analysis.stored_objects`).
        prepare: how the model's passes are made faster under attacks: "auto", "off", or steps such as
            "fold,channels-last" (see `models.preparation`); recorded with the evaluation.
        workers: processes that compute, each with one torch thread; 1 computes in this process. Any number gives the
            same figures, bit by bit.
        progress: told what is going on; without it the log is told what matters.
    """
    if (model is None) == (model_name is None):
        raise GauntletError("give either a model or a triple (model_name, backbone, dataset).")
    wanted = threat if threat_config is None else threat_config
    wanted = list(wanted) if isinstance(wanted, tuple) else wanted
    settings = Settings(seed, batch_size, device, precision, importance, prepare, objects=objects)
    progress = progress or Logged(_LOGGER)
    if model_name is not None:
        if backbone is None or not isinstance(dataset, str):
            raise GauntletError("a triple needs a model_name, a backbone and the name of a dataset.")
        if isinstance(wanted, list):
            raise GauntletError("a triple is evaluated under one threat at a time; leave out the list.")
        built = build_threat(wanted)
        triple = Triple(model_name, backbone, dataset, crop_size)
        with _opened(store) as opened:
            return evaluate_triple(
                triple,
                built,
                settings,
                opened,
                progress,
                retrieve_existing=retrieve_existing,
                root=root,
                limit=limit,
                workers=workers,
            )
    assert model is not None
    models: list[ModelLike] = list(model) if isinstance(model, (list, tuple)) else [model]
    _check_models(models)
    data = load_dataset(dataset) if isinstance(dataset, str) else dataset
    if limit is not None:
        data = data.subset(limit)
    values = wanted if isinstance(wanted, list) else [wanted]
    jobs = [planned for each in models for planned in _jobs(each, data, values, settings, progress)]
    results: dict[str, Evaluation] = {}
    with _opened(store) as opened:
        for key, planned in {planned.job.key: planned for planned in jobs}.items():
            stored = None
            if retrieve_existing and opened is not None:
                opened.renew_origins([(planned.job, planned.origin)])
                stored = _stored(opened, planned)
            results[key] = stored or run_one(
                planned, opened or Store(), progress, workers=workers, again=not retrieve_existing
            )
    if isinstance(model, (list, tuple)):
        return evaluations_frame(results.values())
    evaluations = [results[planned.job.key] for planned in jobs]
    return evaluations if isinstance(wanted, list) or _is_suite(wanted) else evaluations[0]


def _stored(store: Store, planned: PlannedJob) -> Evaluation | None:
    """The stored evaluation of a job, with the figures that the job asks for; None where there is none."""
    stored = store.load(planned.job.key)
    return None if stored is None else read_as_asked(store, planned) or stored


def _check_models(models: Sequence[ModelLike]) -> None:
    """An error where there is no model, or a network that is none of Gauntlet's."""
    if not models:
        raise GauntletError("the list of models is empty; give for example ['streets/enet', 'streets/pspnet'].")
    for model in models:
        if isinstance(model, nn.Module) and not isinstance(model, GauntletModel):
            raise GauntletError(
                f"a {type(model).__name__} is no Gauntlet model yet: gauntlet.wrap_model(module, num_classes=..., "
                "mean=..., std=...) makes it one."
            )


def _jobs(
    model: ModelLike, dataset: Dataset, threats: Sequence[ThreatLike], settings: Settings, progress: Progress
) -> list[PlannedJob]:
    """The jobs of one model, in the order of the threats."""
    address: dict[str, Any] | None = None
    if isinstance(model, str):
        source: GauntletModel | ModelSource = resolve_model(model)
        options = options_for({}, dataset) if source.needs_num_classes else {}
        source = resolve_model(model, **options)
        address = {"address": model, "options": options}
    else:
        source = model
    built = _threats(threats, source.task, dataset, progress)
    return [plan_job(source, dataset, threat, settings, address) for threat in built]


def _is_suite(value: ThreatLike) -> bool:
    """Whether a text names a suite, and no threat."""
    if not isinstance(value, str) or value not in suites.names():
        return False
    try:
        build_threats(value)
    except UnknownNameError:
        return True
    return False


def _threats(values: Sequence[ThreatLike], task: str, dataset: Dataset, progress: Progress) -> list[Threat]:
    """The threats of names, descriptions and suites; what a dataset cannot have of a suite is left out with a note."""
    threats: list[Threat] = []
    for value in values:
        if isinstance(value, str) and _is_suite(value):
            descriptions = suites.build(value, task)
            of_suite = PlannedThreats([each for text in descriptions for each in build_threats(text)], [])
            threats += fitting_threats(of_suite, dataset, progress)
        else:
            threats.append(build_threat(value))
    if not threats:
        raise GauntletError("the list of threats is empty; give for example ['clean', 'pgd'].")
    return threats


@contextmanager
def _opened(store: Store | str | Path | None) -> Iterator[Store | None]:
    """A store, or None where none is given; it is closed at the end where it is opened here."""
    if store is None or isinstance(store, Store):
        yield store
        return
    with open_store(store) as opened:
        yield opened
