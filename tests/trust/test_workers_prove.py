"""Workers prove what they have: one with other images, another model or other code is refused, the run goes on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.streets.dataset import Streets
from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution import local
from gauntlet.evaluation.execution.local import LocalExecutor
from gauntlet.evaluation.execution.progress import Silent
from gauntlet.evaluation.execution.runner import run_jobs
from gauntlet.evaluation.execution.workers.pool import Ready, Refused
from gauntlet.evaluation.execution.workers.proof import Station, station_here
from gauntlet.evaluation.execution.workers.ray_pool import RayPool
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


def test_of_several_bad_workers_on_a_host_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "ProcessPool", pool_with(OtherVersion, Worker, OtherVersion, OtherWeights))
    store, progress = Store(), Noting()
    outcome = run_jobs(planned("clean", PGD), store, executor=LocalExecutor(4), progress=progress)
    assert (len(outcome.computed), outcome.failures) == (2, [])
    assert len([note for note in progress.notes if "is refused" in note]) == 1


def test_a_host_where_the_package_does_not_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pool(PoolHere):
        started = 0

        def start(self) -> Worker:  # type: ignore[override]
            worker = super().start()
            self.started += 1
            if self.started == 1:
                self._events.pop()
                self._events.append(Refused(worker, "old", "this version of Gauntlet does not start there"))
            return worker

    monkeypatch.setattr(local, "ProcessPool", Pool)
    store, progress = Store(), Noting()
    outcome = run_jobs(planned("clean"), store, executor=LocalExecutor(2), progress=progress)
    assert (len(outcome.computed), outcome.failures) == (1, [])
    assert "a worker on the host 'old' is refused: this version of Gauntlet does not start there." in progress.notes


def test_a_version_that_one_of_two_does_not_name_is_a_difference() -> None:
    mine = Station("one", {"gauntlet": "1", "numpy": "2"})
    assert mine.differences(Station("two", {"gauntlet": "1"})) == "numpy 2, not None"
    assert Station("two", {"gauntlet": "1"}).differences(mine) == "numpy None, not 2"


class Cluster:
    """As much of Ray as a pool needs to start workers: each on the first node that its labels allow.

    Args:
        versions: of the packages on every node, by its id; None where the package does not start.
    """

    exceptions = SimpleNamespace(RayActorError=RuntimeError, RayError=RuntimeError)

    def __init__(self, versions: dict[str, dict[str, str] | None]) -> None:
        self.versions = versions
        self.gone: set[str] = set()

    def nodes(self) -> list[dict[str, Any]]:
        large = [{"NodeID": node, "Alive": node not in self.gone, "Resources": {"CPU": 1.0}} for node in self.versions]
        return [*large, {"NodeID": "head", "Alive": True, "Resources": {}}]

    def remote(self, **resources: int) -> Callable[[type], Cluster]:
        return lambda kind: self

    def options(self, label_selector: dict[str, str] | None) -> SimpleNamespace:
        excluded = [] if label_selector is None else label_selector["ray.io/node-id"].strip("!in()").split(",")
        node = next(node for node in self.versions if node not in excluded)
        return SimpleNamespace(remote=lambda: SimpleNamespace(start=SimpleNamespace(remote=lambda threads: node)))

    def wait(self, answers: list[object], **limits: object) -> tuple[list[object], list[object]]:
        return answers[:1], answers[1:]

    def get(self, node: str) -> object:
        return node, f"host-{node}", self.versions[node], "ImportError: no"

    def kill(self, actor: object) -> None: ...


def test_no_worker_is_started_again_on_a_host_that_was_refused() -> None:
    versions = station_here().versions
    pool = RayPool(Cluster({"a": None, "b": {**versions, "torch": "1.0"}, "c": dict(versions)}), 1, {"num_cpus": 1})
    pool.start()
    first = pool.wait()
    assert isinstance(first, Refused)
    assert (first.host, first.why) == ("host-a", "this version of Gauntlet does not start there (ImportError: no)")
    for expected in ("host-b", "host-c"):
        pool.dismiss(first.worker)
        pool.start()
        first = pool.wait()
        assert isinstance(first, Ready)
        assert first.station.host == expected


def test_where_the_last_good_host_is_gone_the_run_ends() -> None:
    cluster = Cluster({"bad": None, "good": dict(station_here().versions)})
    pool = RayPool(cluster, 1, {"num_cpus": 1})
    worker = pool.start()
    assert isinstance(pool.wait(), Refused)
    pool.dismiss(worker)
    pool.start()
    cluster.gone.add("good")
    with pytest.raises(GauntletError, match="no host is left that has what the run has"):
        pool.start()


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
