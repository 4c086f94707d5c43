"""`gauntlet run --dry-run`: what would run, what is stored, how many passes and how long the rest takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gauntlet.cli.output import print_json, print_table
from gauntlet.numbers import counted, format_duration

if TYPE_CHECKING:
    from gauntlet.evaluation.jobs import PlannedJob


def print_dry_run(jobs: Sequence[PlannedJob], address: str, workers: int | None, as_json: bool) -> None:
    """One row per evaluation: whether it is stored, its passes per image and minutes of one worker where it is not.

    Args:
        jobs: what would run.
        address: of the store.
        workers: as many processes at most would compute here; as many as there are cores by default.
        as_json: print JSON instead of a table.
    """
    from gauntlet.evaluation.estimate import estimate
    from gauntlet.evaluation.execution.local import LocalExecutor

    jobs, states = _known(jobs, address)
    missing = [planned for planned in jobs if states.get(planned.job.key) != "complete"]
    seconds = dict(zip((planned.job.key for planned in missing), estimate(missing), strict=True))
    rows = [
        {
            "model": planned.label,
            "dataset": planned.job.dataset["name"],
            "threat": planned.job.threat,
            "images": len(planned.dataset),
            "state": states.get(planned.job.key, "new"),
            "passes": planned.threat.passes(planned.job.task).forward,
            "minutes": round(seconds.get(planned.job.key, 0.0) / 60, 1),
            "seconds": round(seconds.get(planned.job.key, 0.0), 1),
            "key": planned.job.key,
        }
        for planned in jobs
    ]
    if as_json:
        print_json(rows)
        return
    columns = ["model", "dataset", "threat", "images", "state", "passes", "minutes"]
    print_table("", columns, [[row[name] for name in columns] for row in rows], numbers_from=3)
    count = len(LocalExecutor(workers).devices(missing)) if missing else 1
    typer.echo(
        f"{len(jobs)} evaluations, {len(jobs) - len(missing)} of them stored; the rest takes about "
        f"{format_duration(sum(seconds.values()) / count)} with {counted(count, 'worker')} "
        "(minutes are those of one; attacks that stop early take less)."
    )


def _known(jobs: Sequence[PlannedJob], address: str) -> tuple[Sequence[PlannedJob], dict[str, str]]:
    """The jobs under the keys that a store has them by, and the states of those it has."""
    from gauntlet.evaluation.jobs import look_up
    from gauntlet.results import open_store

    if "://" not in address and not Path(address).exists():
        return jobs, {}
    with open_store(address, read_only=True) as store:
        return look_up(store, jobs)
