"""Many evaluations: skip what is stored, run the rest, keep going when one fails, say what happened."""

from __future__ import annotations

import json
import os
import socket
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from gauntlet.errors import GauntletError
from gauntlet.evaluation.evaluate import run_job
from gauntlet.evaluation.plan import PlannedJob
from gauntlet.evaluation.progress import Progress, Silent
from gauntlet.evaluation.provenance import command_line
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.models.sources.contract import ModelSource
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store


@dataclass(frozen=True)
class Failure:
    """An evaluation that did not finish, and why."""

    planned: PlannedJob
    error: str


@dataclass
class Summary:
    """What a run came to.

    Attributes:
        run_id: as in `gauntlet runs`.
        computed: evaluations finished by this run.
        found: keys of evaluations that were stored already.
        failures: evaluations with images that could not be computed.
        log: the run's log file, one JSON object a line; None when the store has no folder to put it in.
    """

    run_id: str
    computed: list[Evaluation] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    log: Path | None = None


class Listener(Protocol):
    """Told of every finished evaluation; trackers are such."""

    def finished(self, evaluation: Evaluation) -> None:
        """An evaluation is complete."""

    def close(self) -> None:
        """Nothing comes any more."""


class Executor(Protocol):
    """Computes jobs and commits them to the store."""

    def run(
        self, jobs: Sequence[PlannedJob], store: Store, progress: Progress, *, again: bool = False
    ) -> Iterator[Evaluation | Failure]:
        """Yields every job as it ends, in any order; with `again` what is stored is replaced."""


class LocalExecutor:
    """One process; a model is loaded once for all its jobs, images are loaded in the background."""

    def run(
        self, jobs: Sequence[PlannedJob], store: Store, progress: Progress, *, again: bool = False
    ) -> Iterator[Evaluation | Failure]:
        loaded: _LoadedOnce | None = None
        for index, planned in enumerate(jobs):
            if loaded is None or loaded.source is not planned.model:
                loaded = _LoadedOnce(planned.model)  # the model before it is released
            try:
                yield run_job(
                    loaded,
                    planned.dataset,
                    planned.threat,
                    planned.settings,
                    store,
                    retrieve_existing=not again,
                    progress=_Numbered(progress, index, len(jobs)),
                )
            except Exception as error:  # one bad model or image must not cost the night
                yield Failure(planned, describe_error(error))


def run_jobs(
    jobs: Sequence[PlannedJob],
    store: Store,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    listeners: Sequence[Listener] = (),
    again: bool = False,
) -> Summary:
    """Runs every job that the store does not have.

    Args:
        jobs: from `plan_jobs`.
        store: where results are looked up and written.
        executor: who computes; this process by default.
        progress: told what is going on.
        listeners: told of every evaluation this run finishes.
        again: compute also what is stored.
    """
    telling = progress or Silent()
    summary = Summary(datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-") + uuid.uuid4().hex[:4])
    states = {} if again else store.states([planned.job.key for planned in jobs])
    missing = [planned for planned in jobs if states.get(planned.job.key) != "complete"]
    summary.found = [planned.job.key for planned in jobs if states.get(planned.job.key) == "complete"]
    if not missing:
        return summary
    with ExitStack() as at_end, _recorded(summary, store, len(jobs)) as record:
        for listener in listeners:
            at_end.callback(listener.close)
        for ended in (executor or LocalExecutor()).run(missing, store, telling, again=again):
            if isinstance(ended, Failure):
                summary.failures.append(ended)
                job = ended.planned.job
                telling.note_once(f"failed: {job.model} | {job.threat}: {ended.error}")
                record("job_failed", key=job.key, model=job.model, threat=job.threat, error=ended.error)
                continue
            summary.computed.append(ended)
            facts = {"seconds": ended.duration, "images": ended.images, "figures": ended.as_dict()["figures"]}
            record("job_finished", key=ended.key, model=ended.model, threat=ended.threat, **facts)
            for listener in listeners:
                _tell(listener, ended, telling)
    return summary


def _tell(listener: Listener, evaluation: Evaluation, progress: Progress) -> None:
    """A tracker that fails must not cost the run: the figures are in the store."""
    try:
        listener.finished(evaluation)
    except Exception as error:
        progress.note_once(f"a tracker failed and may be incomplete: {describe_error(error)}")


@contextmanager
def _recorded(summary: Summary, store: Store, jobs: int) -> Iterator[Callable[..., None]]:
    """Keeps the run's line in the store and its log file up to date, also when it is interrupted."""
    summary.log = _log_path(store, summary.run_id)
    line = {
        "id": summary.run_id,
        "state": "running",
        "started": _now(),
        "host": socket.gethostname(),
        "process": os.getpid(),
        "jobs": jobs,
        "command": command_line(),
        "log": str(summary.log or ""),
    }

    def save(state: str) -> None:
        done, failed = len(summary.computed) + len(summary.found), len(summary.failures)
        store.save_run({**line, "state": state, "updated": _now(), "done": done, "failed": failed})

    def record(event: str, **facts: Any) -> None:
        _append(summary.log, {"time": _now(), "event": event, **facts})
        save("running")

    record("run_started", jobs=jobs, stored=len(summary.found), command=line["command"], host=line["host"])
    try:
        yield record
    except BaseException as error:
        _append(summary.log, {"time": _now(), "event": "run_stopped", "error": repr(error)})
        save("interrupted")
        raise
    _append(summary.log, {"time": _now(), "event": "run_finished", "failed": len(summary.failures)})
    save("failed" if summary.failures else "complete")


def _log_path(store: Store, run_id: str) -> Path | None:
    if store.address == ":memory:":
        return None
    folder = Path("gauntlet-logs") if "://" in store.address else Path(store.address).parent / "gauntlet-logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{run_id}.jsonl"


def _append(path: Path | None, facts: Mapping[str, Any]) -> None:
    if path is not None:
        with path.open("a") as stream:
            stream.write(json.dumps(facts) + "\n")


def describe_error(error: BaseException) -> str:
    """One line: the sentence of an error that a user can act on, else its type and where it came from."""
    if isinstance(error, GauntletError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


class _LoadedOnce(ModelSource):
    """A source that keeps what it loaded."""

    def __init__(self, source: GauntletModel | ModelSource) -> None:
        self.source = source
        self._model: GauntletModel | None = None
        self._identity = source.identity

    @property
    def identity(self) -> ModelIdentity:
        return self._identity

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


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def is_alive(host: str, process: int) -> bool:
    """Whether a run's process still exists; a run on another host is believed."""
    if host != socket.gethostname():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
