"""Jobs: what is evaluated and how, the key that names it, and whether its parts fit each other."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, SupportsIndex

import torch

from gauntlet.datasets.contents import Contents, text_digest
from gauntlet.datasets.contract import Dataset, DatasetIdentity
from gauntlet.datasets.protocols import resizes
from gauntlet.errors import GauntletError
from gauntlet.evaluation.class_order import check_classes
from gauntlet.evaluation.counting import COUNTERS, Importance
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.metrics import DetectionMetric, build_metric
from gauntlet.models import GauntletModel, resolve_model
from gauntlet.models.code_identity import code_of
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.defended_names import defences_in
from gauntlet.models.precision import PRECISIONS
from gauntlet.models.preparation import AUTO, choose_steps, parse_steps, prepare, same_function
from gauntlet.models.sources.contract import ModelSource, coded_identity
from gauntlet.numbers import counted, parse_count
from gauntlet.results.origin import NOWHERE, Origin, origin_here
from gauntlet.results.record import Job
from gauntlet.results.store import Store
from gauntlet.tasks import DETECTION, SEGMENTATION, get_task
from gauntlet.threats.contract import Threat

if TYPE_CHECKING:
    from gauntlet.evaluation.plan import DatasetEntry, ModelEntry

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
        prepare: how the model's passes are made faster under attacks: "auto", "off" or steps of `models.preparation`
            such as "fold,channels-last". Recorded with an evaluation like the batch size; not part of its key.
        images_folder: where perturbed images are kept (`kept_images`), None for nowhere; changes no figure.
        objects: whether counts also keep every connected object of the ground truth and how much of it is right, for
            size bias; segmentation only. Changes no figure, but is part of the key: results without objects lack them.
    """

    seed: int = 0
    batch_size: int = DEFAULT_BATCH_SIZE
    device: str | torch.device | None = None
    precision: str = "fp32"
    importance: Importance | None = None
    prepare: str = AUTO
    images_folder: str | None = None
    objects: bool = False

    def __post_init__(self) -> None:
        parse_steps(self.prepare)
        object.__setattr__(self, "batch_size", parse_count(self.batch_size, "batch_size"))
        if not isinstance(self.seed, SupportsIndex):
            raise GauntletError(f"seed must be a whole number, not {self.seed!r}.")
        object.__setattr__(self, "seed", operator.index(self.seed))
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
        if self.objects:
            changed["objects"] = True
        return changed


def _fingerprint(function: Importance) -> str:
    """Name and code of a function: two lambdas of one place are two functions."""
    code = getattr(function, "__code__", None)
    if code is None:
        raise GauntletError(
            "importance must be a plain function of a sample (and a mask), so that its results can be told apart."
        )
    # A model or a dataset by its identity, which has a digest; its own text says less.
    contents = [cell.cell_contents for cell in function.__closure__ or ()]
    closure = [repr(getattr(content, "identity", content)) for content in contents]
    parts = (code.co_code.hex(), repr(code.co_consts), code.co_names, closure)
    return f"{function.__qualname__}:{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class PlannedJob:
    """One evaluation, with everything that is needed to run it here or elsewhere.

    Attributes:
        model, dataset, threat: the objects; the model may not be loaded yet.
        settings: seed, batch size, precision.
        job: identity and key.
        model_entry, dataset_entry: how a worker finds them again; None for objects that only live here.
        origin: where both came from, for the record.
        label: what the model is called among those of the plan.
        contents: digests of the images when the job was planned.
    """

    model: GauntletModel | ModelSource
    dataset: Dataset
    threat: Threat
    settings: Settings
    job: Job
    model_entry: ModelEntry | None = None
    dataset_entry: DatasetEntry | None = None
    origin: Origin = NOWHERE
    label: str = ""
    contents: Contents | None = None


def plan_job(
    model: GauntletModel | ModelSource,
    dataset: Dataset,
    threat: Threat,
    settings: Settings,
    address: Mapping[str, Any] | None = None,
    contents: Contents | None = None,
) -> PlannedJob:
    """The job of one model, dataset and threat that are at hand.

    Args:
        model, dataset, threat, settings: what is evaluated, and how.
        address: `address` and `options` of the model, where it came from one.
        contents: of the dataset, where they have been read.
    """
    check_class_numbers(model.task, dataset)
    contents = contents or dataset.contents()
    job = make_job(coded_identity(model), model.task, dataset.identify(contents), threat, settings)
    threat.check_classes(model)
    origin = origin_here(model.origin if address is None else address, dataset.origin)
    return PlannedJob(model, dataset, threat, settings, job, origin=origin, label=job.model, contents=contents)


def make_job(identity: ModelIdentity, task: str, dataset: DatasetIdentity, threat: Threat, settings: Settings) -> Job:
    """What is to be evaluated, with its key; an error where the threat is not for the task."""
    threat.check_task(task)
    threat.check_model(identity.name)
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
        settings={**settings.in_key, **_metric_in_key(task, dataset)},
        stored_name=identity.key_name,
        code=identity.code,
        used=_used(threat, settings),
    )


def _used(threat: Threat, settings: Settings) -> str:
    """Digest of code and files that threat and settings only name; "" for none."""
    weights = "" if settings.importance is None else code_of(settings.importance)
    found = threat.uses()
    return text_digest(found, weights) if weights else found


def _metric_in_key(task: str, dataset: DatasetIdentity) -> dict[str, Any]:
    """The version of the metric, where counts of older ones lack what its figures need.

    Until version 2 of the detection metric, counts of a protocol that resizes held no sizes of the unresized image.
    """
    return {"metric": DetectionMetric.version} if task == DETECTION and resizes(dataset.protocol) else {}


def check_class_numbers(task: str, dataset: Dataset) -> None:
    """An error where classes of a dataset cannot be counted: their names, its void or its background."""
    build_metric(task, COUNTERS[task].metric_options(dataset))


def look_up(store: Store, jobs: Sequence[PlannedJob]) -> tuple[list[PlannedJob], dict[str, str]]:
    """The jobs, each under the key that the store has it by, and the states of those that it has.

    What versions 0.1.0 and 0.2.0 stored is found by the key without contents and code, unless the store has the job
    itself.
    """
    states = store.states([key for planned in jobs for key in (planned.job.key, planned.job.unrecorded.key)])

    def found(planned: PlannedJob) -> PlannedJob:
        old = planned.job.unrecorded
        known_as_old = planned.job.key not in states and old.key in states
        return replace(planned, job=old) if known_as_old else planned

    return [found(planned) for planned in jobs], states


def tell_unrecorded(jobs: Iterable[PlannedJob], progress: Progress) -> None:
    """Note how many results of older versions are taken as they are."""
    old = sum(planned.contents is not None and planned.job.unrecorded.key == planned.job.key for planned in jobs)
    if old:
        progress.note_once(
            f"{counted(old, 'result')} of version 0.2.0 or older: data and code not recorded; 'gauntlet store adopt' "
            "runs a sample again and records them."
        )


def check_threat(threat: Threat, dataset: Dataset) -> None:
    """An error where a threat needs depth and the dataset has none, or makes no sense on images of its first size."""
    if len(dataset) == 0:
        raise GauntletError(f"the dataset '{dataset.name}' has no images; nothing was evaluated.")
    if type(threat).check_size is not Threat.check_size:  # do not open an image for nothing
        threat.check_size(*dataset[0].image.shape[:2])
    if threat.needs_depth and not dataset.has_depth:
        raise GauntletError(
            f"the threat '{threat.name}' needs depth, which the dataset '{dataset.name}' does not have; leave it out, "
            "use a dataset with depth such as streets, or set has_depth = True on it if its samples have depth."
        )


def check_sizes(jobs: Iterable[PlannedJob]) -> None:
    """An error where a defended model cannot take images of the size of a dataset's first one."""
    defended = (planned for planned in jobs if defences_in(planned.job.model))  # do not open an image for nothing
    for planned in {(id(each.model), id(each.dataset)): each for each in defended}.values():
        planned.model.check_size(*planned.dataset[0].image.shape[:2])


def resolve_for(address: str, options: Mapping[str, Any], dataset: Dataset) -> ModelSource:
    """The source of a model for a dataset, whose number of classes it gets where nobody says its own."""
    source = resolve_model(address, **options)
    return resolve_model(address, **options_for(options, dataset)) if source.needs_num_classes else source


def options_for(options: Mapping[str, Any], dataset: Dataset) -> dict[str, Any]:
    """The options of a model with the number of classes of a dataset."""
    return {**options, "num_classes": len(get_task(SEGMENTATION).class_names(dataset))}


def ready_model(source: GauntletModel | ModelSource, dataset: Dataset, device: torch.device) -> GauntletModel:
    """The model, frozen and on its device; an error where it does not fit the dataset."""
    classes = get_task(source.task).class_names(dataset)
    model = source.load() if isinstance(source, ModelSource) else source
    if model.task != source.task:
        raise GauntletError(
            f"'{model.identity.name}' is a {model.task} model, but its source said {source.task}; the source must say "
            f'task "{model.task}".'
        )
    check_classes(model, dataset.name, classes)
    model.freeze()
    return model.to(device)


def steps_for(model: GauntletModel, dataset: Dataset, threat: Threat, batch_size: int) -> tuple[str, ...]:
    """The fastest preparation of a model under a threat for images of the size of a dataset's first one."""
    height, width = dataset[0].image.shape[:2]
    return choose_steps(model, (height, width), threat.images_per_pass(batch_size))


def prepare_for(model: GauntletModel, dataset: Dataset, steps: Sequence[str]) -> GauntletModel:
    """A model with some preparations; an error where it would no longer be the same function."""
    if not steps:
        return model
    prepared = prepare(model, steps)
    height, width = dataset[0].image.shape[:2]
    if not same_function(model, prepared, (height, width)):
        raise GauntletError(
            f"the preparation '{','.join(steps)}' changes what '{model.identity.name}' computes; use --prepare off."
        )
    return prepared


def with_preparation(threat: Threat, prepare: str, dataset: Dataset) -> Threat:
    """A threat whose own models have the preparations that a user names.

    Args:
        threat: any; most have no models of their own.
        prepare: see `Settings`.
        dataset: whose images are attacked.
    """

    steps = parse_steps(prepare) or ()  # "auto" is measured for the evaluated model only: workers could disagree

    def prepared(model: GauntletModel) -> GauntletModel:
        return prepare_for(model, dataset, steps)

    return threat.with_preparation(prepared)
