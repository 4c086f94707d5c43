"""Benchmark triples: a result that exists (stored here, or published) before one is computed."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from gauntlet.datasets import load_dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.jobs import PlannedJob, Settings, plan_job
from gauntlet.evaluation.local import run_one
from gauntlet.evaluation.progress import Progress
from gauntlet.evaluation.retrieval import find_published
from gauntlet.models import GauntletModel, resolve_model
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store
from gauntlet.threats.contract import Threat

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

    def source(self) -> ModelSource:
        """The source of the public checkpoint, not loaded yet; an error where none is known or none is here."""
        return resolve_model(
            model_name=self.model_name, backbone=self.backbone, dataset=self.dataset, crop_size=self.crop_size
        )


def evaluate_triple(
    triple: Triple,
    threat: Threat,
    settings: Settings,
    store: Store | None,
    progress: Progress,
    *,
    retrieve_existing: bool = True,
    root: str | Path | None = None,
    limit: int | None = None,
    workers: int = 1,
) -> tuple[GauntletModel | ModelSource, Evaluation]:
    """The evaluation of a triple under a threat: stored, published, or else computed; and its model.

    Args:
        triple, threat, settings: what is evaluated.
        store: where the evaluation is looked up and kept, or None.
        progress: told what is going on.
        retrieve_existing: take a stored or published result where there is one; the model is then not loaded.
        root: where the dataset lies on disk.
        limit: only the first so many images.
        workers: processes that compute.
    """

    def plan() -> PlannedJob:
        return plan_job(triple.source(), load_dataset(triple.dataset, root=root, limit=limit), threat, settings)

    planned: PlannedJob | None = None
    if retrieve_existing:
        existing: Evaluation | None = None
        if store is not None:
            try:
                planned = plan()
                existing = store.load(planned.job.key)
            except GauntletError as error:  # no checkpoint or no data on this machine: the published figures are next
                _LOGGER.info("%s is not looked up in the store: %s", triple, error)
        if existing is None and limit is None and not settings.in_key:  # published figures are of whole datasets
            existing = find_published(triple.model_name, triple.backbone, triple.dataset, threat, triple.crop_size)
        if existing is not None:
            return triple, existing
    planned = planned or plan()
    model = planned.model.load() if isinstance(planned.model, ModelSource) else planned.model
    here = replace(planned, model=model)
    return model, run_one(here, store or Store(), progress, workers=workers, again=not retrieve_existing)
