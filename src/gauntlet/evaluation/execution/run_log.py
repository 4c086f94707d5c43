"""The record of a run while it goes on: its line in the store and its log file, one JSON object a line."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from gauntlet.evaluation.execution.failures import Failure
from gauntlet.evaluation.provenance import command_line
from gauntlet.results.database import MEMORY
from gauntlet.results.record import Evaluation
from gauntlet.results.store import Store


@dataclass
class RunOutcome:
    """What a run came to.

    Attributes:
        run_id: as in `gauntlet runs`.
        computed: evaluations finished by this run.
        stored: keys of evaluations that were in the store already.
        failures: evaluations with images that could not be computed.
        log: the run's log file, one JSON object a line; None when the store has no folder to put it in.
    """

    run_id: str
    computed: list[Evaluation] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    log: Path | None = None


class RunLog:
    """Keeps a run's line in the store and its log file up to date, also when the run is interrupted.

    Args:
        outcome: what the run came to so far; it is given the path of the log file.
        store: where the line goes.
        jobs: how many evaluations were asked for.
    """

    def __init__(self, outcome: RunOutcome, store: Store, jobs: int) -> None:
        outcome.log = log_path(store, outcome.run_id)
        self._outcome, self._store = outcome, store
        self._line = {
            "id": outcome.run_id,
            "started": _now(),
            "host": socket.gethostname(),
            "process": os.getpid(),
            "jobs": jobs,
            "command": command_line(),
            "log": str(outcome.log or ""),
        }

    def __enter__(self) -> RunLog:
        line = self._line
        stored = len(self._outcome.stored)
        self.record("run_started", jobs=line["jobs"], stored=stored, command=line["command"], host=line["host"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._append("run_stopped", {"error": repr(error)})
            self._save("interrupted")
            return
        self._append("run_finished", {"failed": len(self._outcome.failures)})
        self._save("failed" if self._outcome.failures else "complete")

    def record(self, event: str, **facts: Any) -> None:
        """Writes an event to the log file and the state of the run to the store."""
        self._append(event, facts)
        self._save("running")

    def _save(self, state: str) -> None:
        outcome = self._outcome
        done, failed = len(outcome.computed) + len(outcome.stored), len(outcome.failures)
        self._store.save_run({**self._line, "state": state, "updated": _now(), "done": done, "failed": failed})

    def _append(self, event: str, facts: Mapping[str, Any]) -> None:
        if self._outcome.log is not None:
            with self._outcome.log.open("a") as stream:
                stream.write(json.dumps({"time": _now(), "event": event, **facts}) + "\n")


def log_path(store: Store, run_id: str) -> Path | None:
    """Where the log of a run goes: beside a file, into the working directory for a database, nowhere for memory."""
    if store.address == MEMORY:
        return None
    folder = Path("gauntlet-logs") if "://" in store.address else Path(store.address).parent / "gauntlet-logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{run_id}.jsonl"


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
