"""From a study and models of one's own to results: runs what the store does not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.evaluation.jobs import PlannedJob, Settings, check_depth, make_job, options_for
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry, open_dataset
from gauntlet.evaluation.progress import Progress
from gauntlet.evaluation.runner import Executor, run_jobs
from gauntlet.models import resolve_model
from gauntlet.results.origin import origin_here
from gauntlet.results.store import Store
from gauntlet.studies.contract import Study
from gauntlet.studies.results import Results
from gauntlet.tasks import get_task
from gauntlet.threats import build_threat

Cell = tuple[str, str, str]
"""Model, label of the member, label of the threat."""


def run_study(
    study: Study,
    models: Sequence[ModelEntry | str],
    dataset: DatasetEntry | str,
    store: Store,
    *,
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
        executor, progress: as for `run_jobs`.
        settings: seed, batch_size, precision, prepare, device of the evaluations, as in `Settings`.
    """
    jobs = study_jobs(study, models, dataset, **settings)
    different = {planned.job.key: planned for planned in jobs.values()}
    outcome = run_jobs(list(different.values()), store, executor=executor, progress=progress)
    if outcome.failures:
        first = outcome.failures[0]
        raise GauntletError(
            f"{len(outcome.failures)} evaluations of the study '{study.name}' failed, the first: "
            f"{first.planned.job.model} | {first.planned.job.threat}: {first.error}"
        )
    evaluations = {}
    for cell, planned in jobs.items():
        stored = store.load(planned.job.key)
        if stored is None:
            raise GauntletError(f"the store {store.address} lost the evaluation of {planned.job.threat}.")
        evaluations[cell] = stored
    names = list(dict.fromkeys(model for model, _, _ in jobs))
    return Results(evaluations, store, names, list(study.members), list(study.threats))


def study_jobs(
    study: Study, models: Sequence[ModelEntry | str], dataset: DatasetEntry | str, *, seed: int = 0, **settings: Any
) -> dict[Cell, PlannedJob]:
    """Every evaluation of a study; nothing is computed."""
    if len(models) < study.least_models:
        raise GauntletError(
            f"the study '{study.name}' compares models and needs {study.least_models} at least, not {len(models)}."
        )
    entry_of_data = DatasetEntry(name=dataset) if isinstance(dataset, str) else dataset
    data, chosen = open_dataset(entry_of_data), Settings(seed=seed, objects=study.objects, **settings)
    identity = data.identity
    jobs: dict[Cell, PlannedJob] = {}
    for model in models:
        entry = ModelEntry(address=model) if isinstance(model, str) else model
        members = {
            label: ModelEntry(address=template.format(model=entry.address), options=entry.options)
            for label, template in study.members.items()
        }
        threats = {name: build_threat(_with_sources(threat, members)) for name, threat in study.threats.items()}
        for label, member in members.items():
            source = resolve_model(member.address, **member.options)
            if source.needs_num_classes:
                member = member.model_copy(update={"options": options_for(member.options, data)})
                source = resolve_model(member.address, **member.options)
            get_task(source.task).class_names(data)
            origin = origin_here(member.model_dump(), data.origin)
            for name, threat in threats.items():
                check_depth(threat, data)
                job = make_job(source.identity, source.task, identity, threat, chosen)
                jobs[entry.address, label, name] = PlannedJob(
                    source, data, threat, chosen, job, member, entry_of_data, origin, label=job.model
                )
    return jobs


def _with_sources(threat: Mapping[str, Any] | str, members: Mapping[str, ModelEntry]) -> Any:
    """A threat with members in the place of "@label"."""
    if isinstance(threat, str):
        return threat
    filled: dict[str, Any] = {}
    for key, value in threat.items():
        if isinstance(value, Mapping):
            filled[key] = _with_sources(value, members)
        elif key == "source_model" and isinstance(value, str) and value.startswith("@"):
            filled[key] = members[value[1:]].model_dump()
        else:
            filled[key] = value
    return filled
