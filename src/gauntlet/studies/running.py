"""From a study and models of one's own to results: runs what the store does not have."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.evaluation.execution.runner import Executor, run_jobs
from gauntlet.evaluation.jobs import PlannedJob, Settings, check_sizes, check_threat, look_up, make_job, options_for
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry, open_dataset
from gauntlet.models import resolve_model
from gauntlet.models.sources.contract import coded_identity
from gauntlet.results.origin import origin_here
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store
from gauntlet.studies.contract import Study
from gauntlet.studies.figures import CLEAN
from gauntlet.studies.results import Results
from gauntlet.tasks import get_task
from gauntlet.threats import build_threat
from gauntlet.threats.build import ThreatLike

Cell = tuple[str, str, str]
"""Model, label of the member, label of the threat."""
CellName = TypeVar("CellName", bound=Hashable)


def run_study(
    study: Study,
    models: Sequence[ModelEntry | str],
    dataset: DatasetEntry | str,
    store: Store,
    *,
    second_model: str = "",
    only: Sequence[str] = (),
    executor: Executor | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> Results:
    """Evaluates what is missing and gives the results.

    Args:
        study: which.
        models: addresses, or addresses with options.
        dataset: a name, or a name with split, root and limit.
        store: where evaluations are looked up and kept.
        second_model: address of the second model of studies that mix two; the study's own by default.
        only: a part of the study, see `part_of`; figures of the rest are unknown.
        executor, progress: as for `run_jobs`.
        settings: seed, batch_size, precision, prepare, device of the evaluations, as in `Settings`.
    """
    jobs = study_jobs(study, models, dataset, second_model=second_model, only=only, **settings)
    evaluations = run_cells(study.name, jobs, store, executor=executor, progress=progress)
    names = list(dict.fromkeys(model for model, _, _ in jobs))
    sources = {(model, member): planned.model for (model, member, _), planned in jobs.items()}
    members, threats = part_of(study, only)
    run = {threat for _, _, threat in jobs}
    return Results(evaluations, store, names, members, [each for each in threats if each in run], sources=sources)


def run_cells(
    name: str,
    jobs: Mapping[CellName, PlannedJob],
    store: Store,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> dict[CellName, Evaluation]:
    """The evaluation of every cell of a study, computed where the store does not have it.

    Args:
        name: of the study.
        jobs: by cell; several cells may share a job.
        store, executor, progress: as for `run_study`.
    """
    check_sizes(jobs.values())
    jobs = dict(zip(jobs, look_up(store, list(jobs.values()))[0], strict=True))
    different = {planned.job.key: planned for planned in jobs.values()}
    outcome = run_jobs(list(different.values()), store, executor=executor, progress=progress)
    if outcome.failures:
        first = outcome.failures[0]
        raise GauntletError(
            f"{len(outcome.failures)} evaluations of the study '{name}' failed, the first: "
            f"{first.planned.job.model} | {first.planned.job.threat}: {first.error}"
        )
    evaluations = {}
    for cell, planned in jobs.items():
        stored = store.load(planned.job.key)
        if stored is None:
            raise GauntletError(f"the store {store.address} lost the evaluation of {planned.job.threat}.")
        evaluations[cell] = stored
    return evaluations


def study_jobs(
    study: Study,
    models: Sequence[ModelEntry | str],
    dataset: DatasetEntry | str,
    *,
    second_model: str = "",
    only: Sequence[str] = (),
    **settings: Any,
) -> dict[Cell, PlannedJob]:
    """Every evaluation of a study, or of a part of it; nothing is computed."""
    check_number(study, models)
    kept_members, kept_threats = part_of(study, only)
    entry = DatasetEntry(name=dataset) if isinstance(dataset, str) else dataset
    data, chosen = open_dataset(entry), Settings(objects=study.objects, **settings)
    if study.background and data.background_index is None:
        raise GauntletError(
            f"the study '{study.name}' leaves out the background, and '{data.name}' has none; use one with a "
            "background class, such as voc."
        )
    threats = {
        label: threat
        for label, threat in study.threats.items()
        if data.num_classes >= study.least_classes.get(label, 0)
    }
    jobs: dict[Cell, PlannedJob] = {}
    for model in models:
        address = ModelEntry(address=model) if isinstance(model, str) else model
        members = study_members(study, address, second_model)
        jobs |= member_jobs(address.address, members, threats, data, entry, chosen, study.exceptions)
    return {cell: job for cell, job in jobs.items() if cell[1] in kept_members and cell[2] in kept_threats}


def part_of(study: Study, only: Sequence[str]) -> tuple[list[str], list[str]]:
    """The members and the threats of a part of a study; clean images always belong to it.

    Args:
        study: the whole.
        only: labels of members or threats, or patterns of them ("weight 0*"); without one of members all of them are
            meant, and so for threats.
    """
    kept: list[list[str]] = []
    for labels in (list(study.members), list(study.threats)):
        chosen = [label for label in labels if any(fnmatchcase(label, each) for each in only)]
        kept.append([label for label in labels if not chosen or label in chosen or label == CLEAN])
    labels = [*study.members, *study.threats]
    for each in only:
        if not any(fnmatchcase(label, each) for label in labels):
            raise unknown_name(f"part of the study {study.name}", each, labels)
    return kept[0], kept[1]


def member_jobs(
    model: str,
    members: Mapping[str, ModelEntry],
    threats: Mapping[str, ThreatLike],
    data: Dataset,
    dataset_entry: DatasetEntry | None,
    settings: Settings,
    exceptions: Mapping[tuple[str, str], ThreatLike | None] | None = None,
) -> dict[Cell, PlannedJob]:
    """Every member of a model under every threat.

    Args:
        model: what the cells are named by.
        members: what is evaluated, by label.
        threats: by label, as `Study.threats`.
        data: the images.
        dataset_entry: how a worker finds them again; None for a dataset that only lives here.
        settings: of the evaluations.
        exceptions: as `Study.exceptions`.
    """
    contents = data.contents()
    identity = data.identify(contents)
    usual = {name: build_threat(with_sources(threat, members)) for name, threat in threats.items()}
    others = {
        cell: None if threat is None else build_threat(with_sources(threat, members))
        for cell, threat in (exceptions or {}).items()
    }
    jobs: dict[Cell, PlannedJob] = {}
    for label, member in members.items():
        source = resolve_model(member.address, **member.options)
        if source.needs_num_classes:
            member = member.model_copy(update={"options": options_for(member.options, data)})
            source = resolve_model(member.address, **member.options)
        get_task(source.task).class_names(data)
        origin = origin_here(member.model_dump(), data.origin)
        for name in threats:
            threat = others.get((label, name), usual[name])
            if threat is None:
                continue
            check_threat(threat, data)
            job = make_job(coded_identity(source), source.task, identity, threat, settings)
            threat.check_classes(source)
            jobs[model, label, name] = PlannedJob(
                *(source, data, threat, settings, job, member, dataset_entry, origin),
                label=job.model,
                contents=contents,
            )
    return jobs


def check_number(study: Study, models: Sequence[ModelEntry | str]) -> None:
    """An error where there are fewer models than a study needs."""
    if len(models) < study.least_models:
        raise GauntletError(
            f"the study '{study.name}' compares models and needs {study.least_models} at least, not {len(models)}."
        )


def study_members(study: Study, model: ModelEntry, second_model: str = "") -> dict[str, ModelEntry]:
    """The members of a study that are made of a model, by label."""
    takes_second = any("{second}" in template for template in study.members.values())
    if second_model and not takes_second:
        raise GauntletError(f"the study '{study.name}' takes no second model; leave --second-model out.")
    second = second_model or study.second_model
    return {
        label: ModelEntry(address=template.format(model=model.address, second=second), options=model.options)
        for label, template in study.members.items()
    }


def with_sources(threat: ThreatLike, members: Mapping[str, ModelEntry]) -> Any:
    """A threat with members in the place of "@label"."""
    if not isinstance(threat, Mapping):
        return threat
    filled: dict[str, Any] = {}
    for key, value in threat.items():
        if isinstance(value, Mapping):
            filled[key] = with_sources(value, members)
        elif key == "source_model" and isinstance(value, str) and value.startswith("@"):
            filled[key] = members[value[1:]].model_dump()
        else:
            filled[key] = value
    return filled
