"""Evaluations on a Ray cluster: actors compute units, the driver alone writes the store."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import torch

from gauntlet.errors import GauntletError
from gauntlet.evaluation.execution.failures import Failure
from gauntlet.evaluation.execution.probing import probe_of
from gauntlet.evaluation.execution.progress import Progress
from gauntlet.evaluation.execution.session import begin_session, images_done
from gauntlet.evaluation.execution.workers.driver import Begun, Driver
from gauntlet.evaluation.execution.workers.ray_pool import RayPool, start_ray
from gauntlet.evaluation.jobs import PlannedJob
from gauntlet.evaluation.plan import DatasetEntry, ModelEntry
from gauntlet.models.probe import Probe
from gauntlet.numbers import parse_count
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store


@dataclass
class RayExecutor:
    """Runs units on Ray actors.

    Attributes:
        address: of the cluster; None starts one on this machine, "auto" joins the one that is running.
        cpus_per_worker: cores, and torch threads, of a worker on machines without a GPU.
        workers: how many; as many as the cluster has room for by default.
    """

    address: str | None = None
    cpus_per_worker: int = 1
    workers: int | None = None

    def __post_init__(self) -> None:
        parse_count(self.cpus_per_worker, "cpus_per_worker")
        if self.workers is not None:
            parse_count(self.workers, "workers")

    def run(
        self, jobs: Sequence[PlannedJob], store: Store, progress: Progress, *, again: bool = False
    ) -> Generator[Evaluation | Failure, None, None]:
        """Yields every job as it ends; a job with a unit that failed for good ends as a Failure."""
        for planned in jobs:
            _addresses(planned)
        ray = start_ray(self.address)
        gpus = gpus_for(jobs, int(ray.cluster_resources().get("GPU", 0)))
        count = self.workers or gpus or max(1, int(ray.cluster_resources().get("CPU", 1)) // self.cpus_per_worker)
        resources = {"num_gpus": 1} if gpus else {"num_cpus": self.cpus_per_worker}
        device = torch.device("cuda" if gpus else "cpu")  # of the workers; the driver may have none

        def begin(planned: PlannedJob) -> Begun:
            if again:
                store.delete(planned.job.key)
            probe = _probe(planned, progress)
            session = begin_session(store, planned, device, threads=self.cpus_per_worker, reuse=not again, probe=probe)
            return Begun(session, *_addresses(planned))

        pool = RayPool(ray, self.cpus_per_worker, resources)
        try:
            done = 0 if again else images_done(store, jobs)
            yield from Driver(jobs, begin, store, progress, done, pool, count, str(device)).run()
        finally:
            pool.close()
            if self.address is None:
                ray.shutdown()


def gpus_for(jobs: Sequence[PlannedJob], there: int) -> int:
    """How many GPUs of a cluster are used: all of them, or none where the CPU is asked for."""
    asked = str(jobs[0].settings.device or "")
    if asked.startswith("cuda") and not there:
        raise GauntletError("the cluster has no GPU; leave --device out or say cpu.")
    return 0 if asked == "cpu" else there


def _probe(planned: PlannedJob, progress: Progress) -> Probe | None:
    """The probe of a model, asked on the driver's CPU; None where only workers can load it."""
    try:
        return probe_of(planned.model, torch.device("cpu"), progress)
    except Exception as error:  # a driver need not be able to compute: packages or memory may be missing
        progress.note_once(f"'{planned.job.model}' is not loaded on the driver, so workers are not probed: {error}")
        return None


def _addresses(planned: PlannedJob) -> tuple[ModelEntry, DatasetEntry]:
    if planned.model_entry is None or planned.dataset_entry is None:
        raise GauntletError("a cluster needs models and datasets that have an address, not objects in memory.")
    return planned.model_entry, planned.dataset_entry
