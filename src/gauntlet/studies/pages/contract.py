"""What a page is: evaluations of named models on the first images of a dataset, and the text written from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.evaluation.execution.runner import Executor
from gauntlet.evaluation.jobs import PlannedJob, Settings
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry, open_dataset
from gauntlet.files import write_atomically
from gauntlet.models import resolve_model
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store
from gauntlet.studies.contract import AnyStudy, Kind
from gauntlet.studies.results import Results
from gauntlet.studies.running import member_jobs, run_cells
from gauntlet.tasks import SEGMENTATION
from gauntlet.threats import build_threat, suites
from gauntlet.threats.build import ThreatLike

NETWORK = "network"
"""The one member of every model in `Runs.results`."""
STREETS = DatasetEntry(name="streets", split="val")
Choose = Callable[[Dataset, int], Dataset]
"""So many images of a dataset."""
PageCell = tuple[str, str, str]
"""Part, model, label of the threat."""


def first_images(dataset: Dataset, count: int) -> Dataset:
    """The first images of a dataset."""
    return dataset.subset(count)


def suite_threats(name: str, task: str = SEGMENTATION) -> dict[str, ThreatLike]:
    """The threats of a suite by their names."""
    return {build_threat(threat).name: threat for threat in suites.build(name, task)}


@dataclass(frozen=True)
class Part:
    """Evaluations of a page: models under threats, on the same images.

    Attributes:
        threats: by label.
        images: how many; None for all of them.
        models: addresses; those of the page by default.
        objects: whether every connected object is kept, for size bias.
    """

    threats: Mapping[str, ThreatLike]
    images: int | None
    models: Sequence[str] | None = None
    objects: bool = False


@dataclass(frozen=True)
class Runs:
    """The evaluations of one part.

    Attributes:
        evaluations: by model and label of the threat.
        dataset: the images.
        sources: what loads the models, by address, in order.
        threats: their labels, in order.
        store: where the counts of their images are.
    """

    evaluations: Mapping[tuple[str, str], Evaluation]
    dataset: Dataset
    sources: Mapping[str, ModelSource]
    threats: Sequence[str]
    store: Store

    @property
    def models(self) -> list[str]:
        """Their addresses, in order."""
        return list(self.sources)

    def __call__(self, model: str, threat: str) -> Evaluation:
        return self.evaluations[model, threat]

    def row(self, threat: str, models: Sequence[str] | None = None) -> list[Evaluation]:
        """One threat, every model."""
        return [self(model, threat) for model in (self.models if models is None else models)]

    def by_model(self, threat: str) -> dict[str, Evaluation]:
        """One threat, by model."""
        return dict(zip(self.models, self.row(threat), strict=True))

    @cached_property
    def results(self) -> Results:
        """The same with its resampled images, for intervals; the one member of every model is NETWORK."""
        cells = {(model, NETWORK, threat): each for (model, threat), each in self.evaluations.items()}
        return Results(cells, self.store, self.models, [NETWORK], self.threats)


PageRuns = Mapping[str, Runs]
"""Runs by the label of their part."""


@dataclass(frozen=True, kw_only=True)
class PageStudy(AnyStudy):
    """A page of the documentation.

    Attributes:
        file: name of the page ("shipped-models.md").
        models: the models, given the options of the command line (weights and the like).
        dataset: what they are shown.
        parts: what is evaluated, by label; empty for a page made of published figures.
        write: the page as Markdown, from its runs and the command that makes it.
        draw: writes the pictures of the page into a folder, or None.
        choose: which images a part that does not take all of them takes.
    """

    file: str
    write: Callable[[PageRuns, str], str]
    models: Callable[[Mapping[str, Any]], Sequence[ModelEntry]] = lambda options: ()
    dataset: DatasetEntry = STREETS
    parts: Callable[[], Mapping[str, Part]] = dict
    draw: Callable[[PageRuns, Path], None] | None = None
    choose: Choose = first_images
    kind: Kind = "page"


@dataclass(frozen=True)
class PagePlan:
    """The jobs of a page; nothing is computed yet.

    Attributes:
        study: which page.
        data: the images of every part.
        sources: what loads the models, by address.
        jobs: by part, model and threat.
    """

    study: PageStudy
    data: Mapping[str, Dataset]
    sources: Mapping[str, ModelSource]
    jobs: Mapping[PageCell, PlannedJob]

    def run(
        self, store: Store, *, executor: Executor | None = None, progress: Progress | None = None
    ) -> dict[str, Runs]:
        """Evaluates what the store does not have."""
        cells = run_cells(self.study.name, self.jobs, store, executor=executor, progress=progress) if self.jobs else {}
        runs = {}
        for label, data in self.data.items():
            own = {(model, threat): each for (part, model, threat), each in cells.items() if part == label}
            sources = {model: self.sources[model] for model, _ in own}
            runs[label] = Runs(own, data, sources, list(dict.fromkeys(threat for _, threat in own)), store)
        return runs


def plan_page(
    study: PageStudy,
    *,
    limit: int | None = None,
    root: str | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> PagePlan:
    """What a page takes.

    Args:
        study: which page.
        limit: no part takes more images.
        root: where its dataset lies on disk.
        options: of its models, such as weights.
        settings: as in `Settings`.
    """
    models = {entry.address: entry for entry in study.models(options or {})}
    if options and not any(entry.options for entry in models.values()):
        raise GauntletError(f"the study '{study.name}' takes no {', '.join(options)}: its models are its own.")
    chosen, parts = Settings(**settings), study.parts()
    data: dict[str, Dataset] = {}
    jobs: dict[PageCell, PlannedJob] = {}
    everything = open_dataset(study.dataset.model_copy(update={"root": root})) if parts else None
    for label, part in parts.items():
        assert everything is not None
        counts = [count for count in (part.images, limit) if count is not None]
        data[label] = study.choose(everything, min(counts)) if counts else everything
        for address in part.models or models:
            own = replace(chosen, objects=chosen.objects or part.objects)
            planned = member_jobs(address, {"": models[address]}, part.threats, data[label], None, own)
            jobs |= {(label, address, threat): each for (_, _, threat), each in planned.items()}
    sources = {address: resolve_model(address, **entry.options) for address, entry in models.items()}
    return PagePlan(study, data, sources, jobs)


def write_markdown(study: PageStudy, runs: PageRuns, folder: Path, command: str) -> list[Path]:
    """Writes a page and its pictures; the paths of the page and of the folder of pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / study.file
    write_atomically(page, study.write(runs, command).encode())
    if study.draw is None:
        return [page]
    pictures = folder / "images"
    pictures.mkdir(exist_ok=True)
    study.draw(runs, pictures)
    return [page, pictures]
