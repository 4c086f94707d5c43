"""Many evaluations: skip what is stored, run the rest, keep going when one fails, say what happened."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from datetime import datetime, timezone
from typing import Protocol

from gauntlet.evaluation.doubted_labels import tell_doubts
from gauntlet.evaluation.execution.failures import Failure, describe_error
from gauntlet.evaluation.execution.local import LocalExecutor
from gauntlet.evaluation.execution.probing import check_stored
from gauntlet.evaluation.execution.progress import Logged, Progress
from gauntlet.evaluation.execution.run_log import RunLog, RunOutcome
from gauntlet.evaluation.jobs import PlannedJob, look_up, tell_unrecorded
from gauntlet.evaluation.rereading import read_all_as_asked
from gauntlet.results.record import Evaluation
from gauntlet.results.schema import COMPLETE
from gauntlet.results.store import Store

_LOGGER = logging.getLogger(__name__)


class Listener(Protocol):
    """Told of every finished evaluation; trackers are such."""

    def finished(self, evaluation: Evaluation) -> None:
        """Takes an evaluation that has just been completed."""

    def close(self) -> None:
        """Ends the listening: the run calls it once, after its last evaluation, also when it was interrupted."""


class Executor(Protocol):
    """Computes jobs and commits them to the store."""

    def run(
        self, jobs: Sequence[PlannedJob], store: Store, progress: Progress, *, again: bool = False
    ) -> Generator[Evaluation | Failure, None, None]:
        """Yields every job as it ends, in any order; with `again` what is stored is replaced."""


def run_jobs(
    jobs: Sequence[PlannedJob],
    store: Store,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    listeners: Sequence[Listener] = (),
    again: bool = False,
) -> RunOutcome:
    """Runs every job that the store does not have.

    Args:
        jobs: from `plan_jobs`.
        store: where results are looked up and written.
        executor: who computes; this process by default. `LocalExecutor()` uses every core, as the command line does.
        progress: told what is going on; without it the log is told what failed.
        listeners: told of every evaluation this run finishes.
        again: compute also what is stored.
    """
    progress = progress or Logged(_LOGGER)
    outcome = RunOutcome(datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-") + uuid.uuid4().hex[:4])
    jobs, states = (jobs, {}) if again else look_up(store, jobs)
    tell_unrecorded(jobs, progress)
    missing = [planned for planned in jobs if states.get(planned.job.key) != COMPLETE]
    complete = [planned for planned in jobs if states.get(planned.job.key) == COMPLETE]
    damaged = store.damaged([planned.job.key for planned in complete])
    unusable = [(planned, damaged[planned.job.key]) for planned in complete if planned.job.key in damaged]
    sound = [planned for planned in complete if planned.job.key not in damaged]
    store.renew_origins([(planned.job, planned.origin) for planned in sound])
    read_all_as_asked(store, sound)
    unusable += check_stored(store, sound, progress)
    failed = {planned.job.key for planned, _ in unusable}
    outcome.stored = [planned.job.key for planned in sound if planned.job.key not in failed]
    for planned, error in unusable:
        outcome.failures.append(Failure(planned, error))
        progress.note_once(f"failed: {planned.label} | {planned.job.threat}: {error}")
    _LOGGER.info("%d of %d evaluations are stored already and are not computed", len(outcome.stored), len(jobs))
    if not missing:
        return outcome
    tell_doubts((planned for planned in missing if planned.job.key not in states), progress)
    ends = (executor or LocalExecutor(1)).run(missing, store, progress, again=again)
    # Closed here, not when nobody remembers it: in a notebook a stopped run would keep its claims on evaluations.
    with ExitStack() as at_end, RunLog(outcome, store, len(jobs)) as log, closing(ends):
        for listener in listeners:
            at_end.callback(listener.close)
        for ended in ends:
            if isinstance(ended, Failure):
                outcome.failures.append(ended)
                job = ended.planned.job
                progress.note_once(f"failed: {ended.planned.label} | {job.threat}: {ended.error}")
                log.record("job_failed", key=job.key, model=job.model, threat=job.threat, error=ended.error)
                continue
            if ended.from_store:  # another driver completed it meanwhile, and told its own listeners
                outcome.stored.append(ended.key)
                log.record("job_read", key=ended.key, model=ended.model, threat=ended.threat)
                continue
            outcome.computed.append(ended)
            facts = {"seconds": ended.duration, "images": ended.images, "figures": ended.as_dict()["figures"]}
            log.record("job_finished", key=ended.key, model=ended.model, threat=ended.threat, **facts)
            for listener in listeners:
                _notify(listener, ended, progress)
    return outcome


def _notify(listener: Listener, evaluation: Evaluation, progress: Progress) -> None:
    """Gives an evaluation to a listener; one that fails must not cost the run, since the figures are in the store."""
    try:
        listener.finished(evaluation)
    except Exception as error:
        progress.note_once(f"a tracker failed and may be incomplete: {describe_error(error)}")
