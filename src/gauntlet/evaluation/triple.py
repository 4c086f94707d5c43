"""Benchmark triples: a result that exists (stored here, or published) before one is computed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from gauntlet.datasets import load_dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.cases import Case, Cases
from gauntlet.evaluation.execution.local import run_one
from gauntlet.evaluation.execution.probing import need_same_models
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.evaluation.jobs import PlannedJob, Settings, look_up, plan_job
from gauntlet.evaluation.retrieval import find_described
from gauntlet.models import GauntletModel, resolve_model
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.contract import ModelSource
from gauntlet.models.zoo.spelling import canonical_dataset
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store
from gauntlet.tasks import DETECTION

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Triple(ModelSource):
    """A model of the benchmarks by its three names; its public checkpoint is looked for when it is asked for.

    Attributes:
        model_name, backbone, dataset: the triple.
        crop_size: HEIGHTxWIDTH, where the triple has several.
    """

    model_name: str
    backbone: str
    dataset: str
    crop_size: str | None = None

    @property
    def identity(self) -> ModelIdentity:
        return self.source().identity

    @property
    def task(self) -> str:
        return self.source().task

    def load(self) -> GauntletModel:
        return self.source().load()

    @property
    def data_name(self) -> str:
        """Its dataset as `load_dataset` calls it; VOC's is that of its task."""
        name = canonical_dataset(self.dataset)
        if name == "voc":
            return "voc2007" if self.task == DETECTION else "voc2012"
        return {"voc0712": "voc2007"}.get(name, name)

    def source(self) -> ModelSource:
        """The source of the public checkpoint, not loaded yet; an error where none is known or none is here."""
        return resolve_model(
            model_name=self.model_name, backbone=self.backbone, dataset=self.dataset, crop_size=self.crop_size
        )


def evaluate_triple(
    triple: Triple,
    cases: Cases,
    settings: Settings,
    store: Store | None,
    progress: Progress,
    *,
    retrieve_existing: bool = True,
    root: str | Path | None = None,
    limit: int | None = None,
    workers: int = 1,
) -> tuple[GauntletModel | ModelSource, Evaluation]:
    """The evaluation of a triple under a threat or a family: stored, published, or else computed; and its model.

    Args:
        triple, cases, settings: what is evaluated.
        store: where evaluations are looked up and kept, or None.
        progress: told what is going on.
        retrieve_existing: take stored or published results where there are some; the model is only loaded for others.
        root: where the dataset lies on disk; for ACDC where that does.
        limit: only the first so many images.
        workers: processes that compute.
    """
    if any(case.condition for case in cases.cases) and canonical_dataset(triple.dataset) != "cityscapes":
        raise GauntletError(f"ACDC has the classes of Cityscapes, but the model is one of {triple.dataset}.")
    loaded: GauntletModel | None = None

    def plan(case: Case) -> PlannedJob:
        source = triple.source()
        if case.condition is None:
            data = load_dataset(triple.data_name, root=root, limit=limit)
        else:
            data = case.weather(root, None, limit)
        return plan_job(source, data, case.threat, settings)

    def evaluate(case: Case) -> Evaluation:
        nonlocal loaded
        planned: PlannedJob | None = None
        if retrieve_existing:
            existing: Evaluation | None = None
            if store is not None:
                try:
                    (planned,), _ = look_up(store, [plan(case)])
                    existing = store.load(planned.job.key)
                except GauntletError as error:  # no checkpoint or no data here: the published figures are next
                    _LOGGER.info("%s is not looked up in the store: %s", triple, error)
            if existing is not None and store is not None and planned is not None:
                need_same_models(store, [planned], progress)
            if existing is None and limit is None and not settings.in_key:  # published figures are of whole datasets
                names = (triple.model_name, triple.backbone, triple.dataset)
                existing = find_described(*names, *case.published(), triple.crop_size)
            if existing is not None:
                return existing
        planned = planned or plan(case)
        if loaded is None:
            loaded = planned.model.load() if isinstance(planned.model, ModelSource) else planned.model
        here = replace(planned, model=loaded)
        return run_one(here, store or Store(), progress, workers=workers, again=not retrieve_existing)

    result = cases.result([evaluate(case) for case in cases.cases])
    return loaded or triple, result
