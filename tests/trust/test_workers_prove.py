"""Workers prove what they have: one with other images, another model or other code is refused, the run goes on."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.streets.dataset import Streets
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution import local
from gauntlet.evaluation.execution.local import LocalExecutor
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.execution.workers.pool import Ready
from gauntlet.evaluation.execution.workers.proof import Station, station_here
from gauntlet.evaluation.execution.workers.worker import Worker
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.plan import parse_plan, plan_jobs
from gauntlet.models import GauntletModel
from gauntlet.results import Store
from gauntlet.samples import Sample
from pool_here import PoolHere

SMALL = {"name": "streets", "options": {"size": [32, 64], "length": 8}}
NETWORK = {"address": "python:nets:street_network", "options": {"num_classes": 11}}
PGD = {"attack": {"name": "pgd", "epsilon": "8/255", "steps": 2}}


class Inverted(Streets):
    """Other images of equal size under the same ids."""

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return replace(sample, image=255 - sample.image)


class OtherImages(Worker):
    def _dataset(self, source: object) -> Dataset:
        return Inverted(length=8, size=(32, 64))


class OtherClasses(Worker):
    def _dataset(self, source: object) -> Dataset:
        dataset = Streets(length=8, size=(32, 64))
        dataset.class_names = tuple(reversed(dataset.class_names))  # type: ignore[assignment]
        return dataset


class OtherWeights(Worker):
    def _model(self, source: object) -> GauntletModel:
        model = super()._model(source)  # type: ignore[arg-type]
        assert self._digests is not None
        self._digests = "0" * 16, self._digests[1]
        return model


class OtherCode(Worker):
    def _model(self, source: object) -> GauntletModel:
        model = super()._model(source)  # type: ignore[arg-type]
        assert self._digests is not None
        self._digests = self._digests[0], "0" * 16
        return model


class OtherAnswers(Worker):
    """Weights and code as the run has them, and other answers all the same."""

    def _model(self, source: object) -> GauntletModel:
        model = super()._model(source)  # type: ignore[arg-type]
        if not getattr(model, "spoilt", False):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.neg_()
            model.spoilt = True  # type: ignore[assignment]
        return model


class OtherVersion(Worker):
    def ready(self) -> Station:
        here = station_here()
        return replace(here, versions={**here.versions, "gauntlet": "0.2.0 (0123456789ab)"})


class Noting(Silent):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note_once(self, text: str) -> None:
        self.notes.append(text)


def planned(*threats: object) -> list[PlannedJob]:
    return plan_jobs(parse_plan({"models": [NETWORK], "datasets": [SMALL], "threats": list(threats), "batch_size": 2}))


def pool_with(*kinds: type[Worker]) -> type[PoolHere]:
    """A pool whose workers are of these kinds, in turn; models and datasets have addresses, as on other hosts."""

    class Pool(PoolHere):
        def share_model(self, model: GauntletModel, name: str) -> None:
            return None

        def start(self) -> Worker:  # type: ignore[override]
            ordinary = super().start()
            kind = kinds[self.started % len(kinds)]
            self.started += 1
            if kind is Worker:
                return ordinary
            worker = kind(threads=1)
            self._events.pop()
            self._events.append(Ready(worker, worker.ready()))
            return worker

        started = 0

    return Pool


BAD = {
    "other images": (OtherImages, "the image 'streets/val/00000[0-9]' of 'streets' or its ground truth is another one"),
    "other classes": (OtherClasses, "the classes of 'streets' are others there"),
    "other weights": (OtherWeights, "it has other weights of the model"),
    "other code": (OtherCode, "it has other code of the model"),
    "other answers": (OtherAnswers, "answers otherwise there"),
    "another version": (OtherVersion, r"it has gauntlet 0\.2\.0 \(0123456789ab\), not "),
}


def values(store: Store) -> str:
    frame = store.frame().sort_values(["key", "view", "metric", "class_name"])
    return repr(frame[["key", "view", "metric", "class_name", "value"]].to_numpy().tolist())


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_worker_is_refused_and_the_run_goes_on(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, sentence = BAD[bad]
    monkeypatch.setattr(local, "ProcessPool", pool_with(Worker, kind))
    alone, store, progress = Store(), Store(), Noting()
    run_jobs(planned("clean", PGD), alone, executor=LocalExecutor(1))
    outcome = run_jobs(planned("clean", PGD), store, executor=LocalExecutor(2), progress=progress)
    assert outcome.failures == []
    assert values(store) == values(alone)
    refused = [note for note in progress.notes if "is refused" in note]
    assert len(refused) == 1
    assert refused[0].startswith(f"a worker on the host '{station_here().host}' is refused: ")
    assert re.search(sentence, refused[0])


def test_without_a_good_worker_the_run_ends_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "ProcessPool", pool_with(OtherImages))
    with pytest.raises(GauntletError, match=r"no worker is left that has what the run has; .* is refused: the image"):
        run_jobs(planned("clean"), Store(), executor=LocalExecutor(2))


@pytest.mark.parametrize("workers", [1, 2])
def test_hosts_and_their_versions_are_recorded(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "ProcessPool", PoolHere)
    store = Store()
    (evaluation,) = run_jobs(planned("clean"), store, executor=LocalExecutor(workers)).computed
    here = station_here()
    assert evaluation.provenance["hosts"] == {here.host: here.facts}
    assert here.versions["torch"] == torch.__version__


def test_rows_carry_the_digests_of_their_images() -> None:
    store, (job,) = Store(), planned("clean")
    run_jobs([job], store, executor=LocalExecutor(1))
    assert job.contents is not None
    assert [row.digest for row in store.counts_of(job.job.key)] == list(job.contents.images)
