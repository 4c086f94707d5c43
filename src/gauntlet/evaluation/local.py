"""Evaluations in this process: one after the other, images loaded in the background."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gauntlet.evaluation.failures import Failure, describe_error
from gauntlet.evaluation.jobs import PlannedJob, check_depth, ready_model
from gauntlet.evaluation.progress import Progress
from gauntlet.evaluation.provenance import choose_device
from gauntlet.evaluation.session import begin_session
from gauntlet.evaluation.units import UnitComputer
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation
from gauntlet.results.schema import COMPLETE
from gauntlet.results.store import Store


def run_job(planned: PlannedJob, store: Store, progress: Progress, *, again: bool = False) -> Evaluation:
    """Computes what the store does not have of a job that is not complete there, and returns the evaluation.

    Args:
        planned: the job.
        store: where counts and figures go.
        progress: told what is going on.
        again: forget what the store has of the job and compute all of it.
    """
    dataset, settings = planned.dataset, planned.settings
    check_depth(planned.threat, dataset)
    device = choose_device(settings.device)
    model = ready_model(planned.model, dataset, device)
    if again:
        store.delete(planned.job.key)  # not before the model is there: a fault must not cost the old result
    session = begin_session(store, planned, device)
    if session.started.state == COMPLETE and (stored := store.load(planned.job.key)) is not None:
        return stored  # another process finished it since the store was asked
    progress.start(f"{planned.job.model} | {planned.job.threat}", session.images, len(session.done))
    computer = UnitComputer(dataset, model, planned.threat, settings.seed, session.counter, device, progress)
    began = time.perf_counter()
    for unit, groups in computer.load_ahead(session.units_left()):
        rows, views = computer.compute(groups)
        ended = time.perf_counter()
        session.commit(unit, rows, views, ended - began)
        began = ended
        progress.advance(len(rows), session.figure, session.running_figure.name)
    return session.finish()


class LocalExecutor:
    """One process; a model is loaded once for all its jobs, images are loaded in the background."""

    def run(
        self, jobs: Sequence[PlannedJob], store: Store, progress: Progress, *, again: bool = False
    ) -> Iterator[Evaluation | Failure]:
        loaded: _LoadedOnce | None = None
        for index, planned in enumerate(jobs):
            if loaded is None or loaded.source is not planned.model:
                loaded = _LoadedOnce(planned.model)  # the model before it is released
            numbered = _Numbered(progress, index, len(jobs))
            try:
                yield run_job(replace(planned, model=loaded), store, numbered, again=again)
            except Exception as error:  # one bad model or image must not cost the night
                yield Failure(planned, describe_error(error))


class _LoadedOnce(ModelSource):
    """A source that keeps what it loaded."""

    def __init__(self, source: GauntletModel | ModelSource) -> None:
        self.source = source
        self._model: GauntletModel | None = None

    @property
    def identity(self) -> ModelIdentity:
        return self.source.identity

    @property
    def task(self) -> str:
        return self.source.task

    def load(self) -> GauntletModel:
        if self._model is None:
            self._model = self.source.load() if isinstance(self.source, ModelSource) else self.source
        return self._model


class _Numbered:
    """Progress of one job among many: its label says which one it is."""

    def __init__(self, progress: Progress, index: int, jobs: int) -> None:
        self._progress, self._prefix = progress, f"[{index + 1}/{jobs}] " if jobs > 1 else ""
        self.advance, self.note_once = progress.advance, progress.note_once

    def start(self, label: str, total: int, done: int = 0, unit: str = "images") -> None:
        self._progress.start(self._prefix + label, total, done, unit)
