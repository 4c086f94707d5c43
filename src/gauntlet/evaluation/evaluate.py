"""One model, one dataset, one threat: to figures."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

import pandas as pd
import torch
from torch import nn

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contents import Contents
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.sample_cache import SampleCache
from gauntlet.errors import GauntletError, UnknownNameError
from gauntlet.evaluation.cases import Case, Cases, find_cases
from gauntlet.evaluation.counting import Importance
from gauntlet.evaluation.detecbench_tasks import STORE_NAME, folder_dataset, folder_model, task_cases, told_to
from gauntlet.evaluation.doubted_labels import tell_doubts
from gauntlet.evaluation.execution.loaded_once import LoadedOnce
from gauntlet.evaluation.execution.local import run_one
from gauntlet.evaluation.execution.probing import need_same_models
from gauntlet.evaluation.execution.progress import Logged, Progress
from gauntlet.evaluation.jobs import (
    DEFAULT_BATCH_SIZE,
    PlannedJob,
    Settings,
    check_sizes,
    look_up,
    options_for,
    plan_job,
    tell_unrecorded,
)
from gauntlet.evaluation.plan import PlannedThreats, fitting_threats, read_contents
from gauntlet.evaluation.rereading import stored_as_asked
from gauntlet.evaluation.triple import Triple, evaluate_triple
from gauntlet.models import GauntletModel, resolve_model
from gauntlet.models.preparation import AUTO
from gauntlet.models.sources.contract import ModelSource
from gauntlet.numbers import parse_count
from gauntlet.results.families import flatten
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store, open_store
from gauntlet.results.tidy import evaluations_frame
from gauntlet.threats import build_threats, suites
from gauntlet.threats.build import ThreatLike
from gauntlet.threats.kinds.corruption import CorruptionThreat

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


@overload
def evaluate(*, task: ThreatLike | list[CorruptionThreat], model_folder: str | Path, **options: Any) -> Evaluation: ...


# The overloads only tell the return types apart; the options are those of the signature below.
def evaluate(  # type: ignore[misc]
    model: ModelLike | list[Any] | tuple[Any, ...] | None = None,
    dataset: Dataset | str | None = None,
    threat: ThreatLike | list[ThreatLike] = "clean",
    *,
    model_name: str | None = None,
    backbone: str | None = None,
    crop_size: str | None = None,
    root: str | Path | None = None,
    threat_config: ThreatLike | list[ThreatLike] | None = None,
    task: ThreatLike | list[Any] | None = None,
    model_folder: str | Path | None = None,
    trust: bool = False,
    log_dir: str | Path | None = None,
    logger: str | logging.Logger | None = None,
    wandb: bool = False,
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

    A file of the benchmarks that names a family ('2DCommonCorruptions', 'ACDC') gives one evaluation with `members`,
    their means as figures and their smallest figures as `minimum`.

    Args:
        model: a Gauntlet model, or an address as for `load_model`. A list of them gives a tidy frame, one row per
            figure with the columns of `Store.frame()`, for `gauntlet.analysis`; it is checked whole before anything is
            computed.
        dataset: a dataset, or a name as for `load_dataset`; "streets" by default, for a model folder the dataset that
            its configuration names.
        threat: a name ("clean", "pgd", "fog"), a description, a Threat, or the path of a YAML file. A list of them, or
            the name of a suite ("quick"), gives a list of evaluations.
        model_name, backbone: of a benchmark triple; `dataset` completes it. crop_size: where it has several.
        root: where the dataset of a triple or of a model folder lies on disk; for an ACDC file where ACDC does.
        threat_config: another name for `threat`, as SemSegBench has it.
        task: another one, as DetecBench has it: also "None", "PGD", "2DCommonCorruptions", or all threats of a family.
        model_folder: a folder with the configuration (.py) and the weights (.pth) of a detector instead of a model.
        trust: run the code of the configuration and unpickle the weights of a model folder.
        log_dir: folder of the store ("results.db" in it, where `store` is not given) and of what `logger` writes.
        logger: "wandb", "tensorboard" or "mlflow", or a logger of Python's: told every finished evaluation.
        wandb: the same as logger="wandb", also beside another logger, as DetecBench has it.
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
    if sum(given is not None for given in (model, model_name, model_folder)) != 1:
        raise GauntletError("give either a model or a triple (model_name, backbone, dataset), or a model_folder.")
    wanted: Any = next(each for each in (task, threat_config, threat) if each is not None)
    wanted = list(wanted) if isinstance(wanted, tuple) else wanted
    parse_count(workers, "workers")
    if limit is not None:
        parse_count(limit, "limit")
    settings = Settings(seed, batch_size, device, precision, importance, prepare, objects=objects)
    loggers = (logger, "wandb" if wandb else None)
    progress = progress or Logged(_LOGGER)
    if store is None and log_dir is not None:
        Path(log_dir).mkdir(parents=True, exist_ok=True)
        store = Path(log_dir) / STORE_NAME
    if model_name is not None:
        if backbone is None or not isinstance(dataset, str):
            raise GauntletError("a triple needs a model_name, a backbone and the name of a dataset.")
        if isinstance(wanted, list) and task is None:
            raise GauntletError("a triple is evaluated under one threat at a time; leave out the list.")
        cases = find_cases(wanted) if task is None else task_cases(wanted)
        triple = Triple(model_name, backbone, dataset, crop_size)
        with _opened(store) as opened, told_to(loggers, log_dir) as tell:
            found, result = evaluate_triple(
                triple,
                cases,
                settings,
                opened,
                progress,
                retrieve_existing=retrieve_existing,
                root=root,
                limit=limit,
                workers=workers,
            )
            for each in flatten([result]):
                tell(each)
            return found, result
    address: dict[str, Any] | None = None
    models: list[ModelLike]
    if model_folder is not None:
        source, address = folder_model(model_folder, trust)
        models = [source]
    else:
        models = list(model) if isinstance(model, (list, tuple)) else [model]  # type: ignore[list-item]
    _check_models(models)
    asked = _asked(wanted, as_task=task is not None)
    data = _Data(dataset, model_folder, root, limit, keep=workers == 1)
    groups = [
        group
        for each in models
        for group in _groups(each, data, asked, settings, progress, address, keep=len(models) == 1)
    ]
    results: dict[str, Evaluation] = {}
    every = [planned for _, jobs in groups for planned in jobs]
    check_sizes(every)
    with _opened(store) as opened, told_to(loggers, log_dir) as tell:
        looked_at: set[int] = set()
        if retrieve_existing and opened is not None:
            need_same_models(opened, every, progress)
        for key, planned in {planned.job.key: planned for planned in every}.items():
            stored, begun = None, False
            if retrieve_existing and opened is not None:
                (planned,), states = look_up(opened, [planned])
                tell_unrecorded([planned], progress)
                opened.renew_origins([(planned.job, planned.origin)])
                stored = stored_as_asked(opened, planned)
                begun = planned.job.key in states
            if not begun and id(planned.dataset) not in looked_at:
                looked_at.add(id(planned.dataset))
                tell_doubts([planned], progress)
            results[key] = stored or run_one(
                planned, opened or Store(), progress, workers=workers, again=not retrieve_existing
            )
            tell(results[key])
    if isinstance(model, (list, tuple)):
        return evaluations_frame(results.values())
    evaluations = [cases.result([results[planned.job.key] for planned in jobs]) for cases, jobs in groups]
    several = (isinstance(wanted, list) and task is None) or _is_suite(wanted)
    return evaluations if several else evaluations[0]


@dataclass
class _Data:
    """The dataset of a call, read when it is first asked for: an ACDC file does without it.

    Attributes:
        given, model_folder, root, limit: as the call names them.
        keep: samples that were read are kept in memory for what comes after.
    """

    given: Dataset | str | None
    model_folder: str | Path | None
    root: str | Path | None
    limit: int | None
    keep: bool
    _read: Dataset | None = None
    _contents: dict[int, Contents] = field(default_factory=dict)

    def own(self) -> Dataset:
        """The dataset that the call names, or that the configuration in its model folder names."""
        if self._read is None:
            if self.given is None and self.model_folder is not None:
                data = folder_dataset(self.model_folder, self.root)
            elif isinstance(self.given, Dataset):
                data = self.given
            else:
                data = load_dataset(self.given or "streets", root=self.root)
            data = data if self.limit is None else data.subset(self.limit)
            self._read = SampleCache(data) if self.keep else data
        return self._read

    def contents(self, dataset: Dataset, progress: Progress) -> Contents:
        """Digests of a dataset of this call, read once."""
        if id(dataset) not in self._contents:
            self._contents[id(dataset)] = read_contents(dataset, progress)
        return self._contents[id(dataset)]

    def of(self, case: Case) -> Dataset:
        """The images that a case is evaluated on."""
        if case.condition is None:
            return self.own()
        origin = (self.given.origin or {}) if isinstance(self.given, Dataset) else {}
        return case.weather(self.root, origin.get("protocol"), self.limit or origin.get("limit"))


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


Asked = Cases | str
"""What one value of `threat` stands for: cases, or the name of a suite, whose threats depend on the model's task."""


def _asked(wanted: Any, *, as_task: bool) -> list[Asked]:
    """What a threat, a list of them, a suite or a task stands for."""
    if as_task:
        return [task_cases(wanted)]
    values = wanted if isinstance(wanted, list) else [wanted]
    if not values:
        raise GauntletError("the list of threats is empty; give for example ['clean', 'pgd'].")
    return [value if _is_suite(value) else find_cases(value) for value in values]


def _groups(
    model: ModelLike,
    data: _Data,
    asked: Sequence[Asked],
    settings: Settings,
    progress: Progress,
    address: dict[str, Any] | None,
    *,
    keep: bool,
) -> list[tuple[Cases, list[PlannedJob]]]:
    """The cases of one model and their jobs, in the order of what was asked for.

    Args:
        model, data, asked, settings, progress: of the call.
        address: of the model, where the call knows it.
        keep: the model in memory between its jobs; not where there are several models.
    """
    if isinstance(model, str):
        source: GauntletModel | ModelSource = resolve_model(model)
        options = options_for({}, data.own()) if source.needs_num_classes else {}
        source = resolve_model(model, **options)
        address = {"address": model, "options": options}
    else:
        source = model
    if keep:
        source = LoadedOnce(source)
    every = [cases for each in asked for cases in _cases(each, source.task, data, progress)]

    def planned(case: Case) -> PlannedJob:
        images = data.of(case)
        return plan_job(source, images, case.threat, settings, address, data.contents(images, progress))

    return [(cases, [planned(case) for case in cases.cases]) for cases in every]


def _cases(asked: Asked, task: str, data: _Data, progress: Progress) -> list[Cases]:
    """The cases of a value; what a dataset cannot have of a suite is left out with a note."""
    if isinstance(asked, Cases):
        return [asked]
    of_suite = PlannedThreats([each for text in suites.build(asked, task) for each in build_threats(text)], [])
    return [Cases([Case(each.name, each)]) for each in fitting_threats(of_suite, data.own(), progress)]


def _is_suite(value: Any) -> bool:
    """Whether a text names a suite, and no threat."""
    if not isinstance(value, str) or value not in suites.names():
        return False
    try:
        build_threats(value)
    except UnknownNameError:
        return True
    return False


@contextmanager
def _opened(store: Store | str | Path | None) -> Iterator[Store | None]:
    """A store, or None where none is given; it is closed at the end where it is opened here."""
    if store is None or isinstance(store, Store):
        yield store
        return
    with open_store(store) as opened:
        yield opened
