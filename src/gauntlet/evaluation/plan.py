"""Plans: models x datasets x threats from a YAML file or the command line, checked before anything runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contents import Contents
from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.known_data import published_sentence
from gauntlet.errors import GauntletError, unknown_name
from gauntlet.evaluation.execution.progress import Logged, Progress
from gauntlet.evaluation.jobs import (
    DEFAULT_BATCH_SIZE,
    PlannedJob,
    Settings,
    check_class_numbers,
    check_sizes,
    check_threat,
    make_job,
    options_for,
)
from gauntlet.models import resolve_model
from gauntlet.models.preparation import AUTO
from gauntlet.models.sources.contract import ModelSource, coded_identity
from gauntlet.results.model_names import distinct_names
from gauntlet.results.origin import origin_here
from gauntlet.tasks import SEGMENTATION, TASKS
from gauntlet.threats import build_threats, suites
from gauntlet.threats.contract import Threat
from gauntlet.yaml_files import read_mapping

_LOGGER = logging.getLogger(__name__)
_MANY = 1000  # files from which reading them takes long enough for a progress bar


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelEntry(_Section):
    """A model: its address, and the options of its source (num_classes, mean, std, ...)."""

    address: str = Field(description="A shipped name such as streets/enet, or prefix:rest such as script:net.pt.")
    options: dict[str, Any] = Field(default={}, description="What the model's source takes.")


class DatasetEntry(_Section):
    """A dataset and the part of it that is evaluated."""

    name: str = Field(description="A dataset; 'gauntlet list datasets' shows them.")
    split: str | None = Field(default=None, description="Its usual evaluation split by default.")
    root: str | None = Field(default=None, description="Where it lies on disk.")
    limit: int | None = Field(default=None, ge=1, strict=True, description="Only the first so many images.")
    spread: bool = Field(default=False, description="Take them at equal distances instead, as for frames of a video.")
    protocol: str | dict[str, Any] | None = Field(default=None, description="How images are resized and cropped.")
    options: dict[str, Any] = Field(default={}, description="What else the dataset takes, such as condition for acdc.")
    trust_data: bool = Field(default=False, description="Do not read the files to identify them; results say so.")


class Plan(_Section):
    """Every combination of models, datasets, threats and seeds."""

    models: list[ModelEntry] = Field(min_length=1)
    datasets: list[DatasetEntry] = Field(default=[DatasetEntry(name="streets")], min_length=1)
    suites: list[str] = Field(default=[], description="Built-in lists of threats.")
    threats: list[str | dict[str, Any]] = Field(
        default=[], description="Names, files or descriptions; lists and ranges in a description are sweeps."
    )
    seeds: list[int] = Field(default=[0], min_length=1)
    batch_size: int = Field(default=DEFAULT_BATCH_SIZE, ge=1, strict=True)
    precision: str = "fp32"
    prepare: str = Field(
        default=AUTO,
        description="Faster passes of the model under attacks: auto, off, or steps such as fold,channels-last.",
    )
    objects: bool = Field(default=False, description="Keep every connected object, for size bias; segmentation only.")

    @field_validator("models", "datasets", mode="before")
    @classmethod
    def _texts_are_names(cls, value: Any, info: Any) -> Any:
        """A bare text is short for a mapping with only the name."""
        key = "address" if info.field_name == "models" else "name"
        return [{key: each} if isinstance(each, str) else each for each in value] if isinstance(value, list) else value


def read_plan(path: str | Path) -> Plan:
    """The plan of a YAML file."""
    path = Path(path)
    content = read_mapping(path, "the plan", "a mapping with 'models' and 'threats' or 'suites'")
    return parse_plan(content, str(path))


def parse_plan(content: Mapping[str, Any], where: str = "the plan") -> Plan:
    """A plan from a mapping; the first fault in one sentence, with a suggestion for a misspelt key."""
    try:
        return Plan.model_validate(dict(content))
    except ValidationError as error:
        raise GauntletError(f"{where}: {_sentence(error)}") from None


def _sentence(error: ValidationError) -> str:
    faults = error.errors(include_url=False)
    # A misspelt key is a missing one too; what was written says more than what was not.
    fault = next((each for each in faults if each["type"] == "extra_forbidden"), faults[0])
    place = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        sections: dict[str, type[BaseModel]] = {"models": ModelEntry, "datasets": DatasetEntry}
        section = sections.get(str(fault["loc"][0]), Plan)
        return str(unknown_name("key", str(fault["loc"][-1]), section.model_fields))
    if fault["type"] == "missing":
        return f"the key '{place}' is missing."
    return f"'{place}' is {fault['input']!r}, but: {fault['msg']}."


def plan_schema() -> dict[str, Any]:
    """The JSON schema of a plan, for editors."""
    return Plan.model_json_schema()


def plan_jobs(
    plan: Plan,
    device: str | None = None,
    progress: Progress | None = None,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    images_folder: str | None = None,
) -> list[PlannedJob]:
    """Every evaluation of a plan, those of one model together; nothing is loaded, duplicates are dropped.

    Args:
        plan: what to evaluate.
        device: a torch device, or None for the best there is.
        progress: told what is left out: threats of a suite that need depth, on a dataset that has none; without it
            the log is told.
        only, skip: threats to keep and to leave out: names ("pgd"), kinds ("corruption") or patterns ("fog*").
        images_folder: where perturbed images are kept; nowhere by default.
    """
    progress = progress or Logged(_LOGGER)
    # By task, since a suite is another one on detectors; a wrong name is told before any model is looked for.
    every = {task: found for task in TASKS if (found := _threats_of_task(plan, task)) is not None}
    check_words(every.values(), (*only, *skip))
    threats: dict[str, PlannedThreats] = {}
    datasets = [(entry, open_dataset(entry)) for entry in plan.datasets]
    jobs: dict[str, PlannedJob] = {}
    contents = {id(dataset): read_contents(dataset, progress) for _, dataset in datasets}
    identities = {id(dataset): dataset.identify(contents[id(dataset)]) for _, dataset in datasets}
    for model_entry in plan.models:
        known = resolve_model(model_entry.address, **model_entry.options)
        by_classes: dict[int, tuple[ModelEntry, ModelSource]] = {}
        for dataset_entry, dataset in datasets:
            entry, source = _completed(model_entry, known, dataset, by_classes)
            model_identity = coded_identity(source)
            if source.task not in threats:
                threats[source.task] = (every.get(source.task) or plan_threats(plan, source.task)).chosen(only, skip)
            check_class_numbers(source.task, dataset)  # an error now, not in the middle of the night
            origin = origin_here(entry.model_dump(), dataset.origin)
            for threat in fitting_threats(threats[source.task], dataset, progress):
                for seed in plan.seeds:
                    settings = Settings(
                        *(seed, plan.batch_size, device, plan.precision),
                        prepare=plan.prepare,
                        images_folder=images_folder,
                        objects=plan.objects,
                    )
                    job = make_job(model_identity, source.task, identities[id(dataset)], threat, settings)
                    threat.check_classes(source)
                    planned = PlannedJob(
                        *(source, dataset, threat, settings, job, entry, dataset_entry, origin),
                        contents=contents[id(dataset)],
                    )
                    jobs.setdefault(job.key, planned)
    check_sizes(jobs.values())
    names = distinct_names((each.job.model, each.job.model_digest) for each in jobs.values())
    return [replace(each, label=names[each.job.model, each.job.model_digest]) for each in jobs.values()]


def _completed(
    entry: ModelEntry, source: ModelSource, dataset: Dataset, by_classes: dict[int, tuple[ModelEntry, ModelSource]]
) -> tuple[ModelEntry, ModelSource]:
    """A model's entry and source for a dataset: with its number of classes, where nobody said how many there are."""
    if not source.needs_num_classes:
        return entry, source
    options = options_for(entry.options, dataset)
    if options["num_classes"] not in by_classes:
        complete = entry.model_copy(update={"options": options})
        by_classes[options["num_classes"]] = complete, resolve_model(entry.address, **options)
    return by_classes[options["num_classes"]]


@dataclass(frozen=True)
class PlannedThreats:
    """The threats of a plan for models of one task.

    Attributes:
        of_suites: those of its suites, in order; what does not fit a dataset is left out.
        named: those of its own list, in order; what does not fit a dataset is an error.
    """

    of_suites: list[Threat]
    named: list[Threat]

    def chosen(self, only: Sequence[str], skip: Sequence[str]) -> PlannedThreats:
        """Those that fit a word of `only`, without those that fit one of `skip`; an error where none is left."""

        def kept(threat: Threat) -> bool:
            wanted = not only or any(_fits(threat, word) for word in only)
            return wanted and not any(_fits(threat, word) for word in skip)

        left = PlannedThreats(
            [each for each in self.of_suites if kept(each)], [each for each in self.named if kept(each)]
        )
        if not left.of_suites and not left.named:
            raise GauntletError("--only and --skip leave no threat of this plan.")
        return left


def _threats_of_task(plan: Plan, task: str) -> PlannedThreats | None:
    """The threats of a plan for a task; None where a suite is not for it, and the plan may have no such model."""
    try:
        return plan_threats(plan, task)
    except GauntletError:
        if task == SEGMENTATION:  # a wrong name is told by the task that every suite is for
            raise
        return None


def check_words(planned: Iterable[PlannedThreats], words: Sequence[str]) -> None:
    """An error where a word of --only or --skip fits no threat of a plan, whatever the task."""
    every = [threat for each in planned for threat in (*each.of_suites, *each.named)]
    for word in words:
        if not any(_fits(threat, word) for threat in every):
            raise unknown_name("threat of this plan", word, {name for each in every for name in _names(each)})


def _names(threat: Threat) -> list[str]:
    """What a threat is called: in results, by its kind ("attack"), and by the name in its description ("pgd")."""
    kind, content = next(iter(threat.describe().items()))
    inner = content.get("name") if isinstance(content, Mapping) else None
    return [threat.name, kind, *([str(inner)] if inner is not None else [])]


def _fits(threat: Threat, word: str) -> bool:
    return any(fnmatchcase(name.lower(), word.lower()) for name in _names(threat))


def plan_threats(plan: Plan, task: str) -> PlannedThreats:
    """The threats of a plan's suites, as they are for models of a task, and of its own list."""
    of_suites = [
        threat for name in plan.suites for value in suites.build(name, task) for threat in build_threats(value)
    ]
    named = [threat for value in plan.threats for threat in build_threats(value)]
    if not of_suites and not named:
        raise GauntletError("the plan names no threat; add 'suites: [quick]' or 'threats: [clean, pgd]'.")
    return PlannedThreats(of_suites, named)


def fitting_threats(threats: PlannedThreats, dataset: Dataset, progress: Progress) -> list[Threat]:
    """The threats that a dataset can be evaluated under."""
    for threat in threats.named:
        check_threat(threat, dataset)
    kept = [threat for threat in threats.of_suites if dataset.has_depth or not threat.needs_depth]
    if len(kept) < len(threats.of_suites):
        names = ", ".join(threat.name for threat in threats.of_suites if threat.needs_depth)
        progress.note_once(f"left out, since the dataset '{dataset.name}' has no depth: {names}.")
    return [*kept, *threats.named]


def open_dataset(entry: DatasetEntry) -> Dataset:
    """The dataset of an entry."""
    return load_dataset(
        entry.name,
        split=entry.split,
        root=entry.root,
        limit=entry.limit,
        spread=entry.spread,
        protocol=entry.protocol,
        trust_data=entry.trust_data,
        **entry.options,
    )


def read_contents(dataset: Dataset, progress: Progress) -> Contents:
    """Digests of a dataset's images, with progress where many files are read."""
    started = False

    def told(done: int, total: int) -> None:
        nonlocal started
        if not started and total > _MANY:
            progress.start(f"reading the files of {dataset.name} once, to know them again", total, done)
            started = True
        if started:
            progress.advance(1)

    contents = dataset.contents(told)
    if contents.trusted:
        progress.note_once(f"the files of '{dataset.name}' are trusted, not read: a change of them would go unnoticed.")
    if (sentence := published_sentence(dataset.name, dataset.split, contents)) is not None:
        progress.note_once(sentence)
    return contents
