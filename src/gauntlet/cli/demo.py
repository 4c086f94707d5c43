"""`gauntlet demo`: the whole way, from model to report, in a minute or two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.evaluations import model_names, print_many
from gauntlet.cli.shared_options import DeviceOption
from gauntlet.errors import GauntletError

MODELS = ["streets/enet", "streets/enet-at"]
"""One network, trained normally and on attacked images: the difference is what Gauntlet is for."""


@app.command(epilog="Example: gauntlet demo --model streets/segformer --images 32")
def demo(
    models: Annotated[
        list[str], typer.Option("--model", "-m", help="A shipped model (`gauntlet list models`); can be repeated.")
    ] = MODELS,
    images: Annotated[int, typer.Option("--images", min=1, help="Images per evaluation.")] = 8,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the store and the report.")] = Path(
        "gauntlet-demo"
    ),
    suite: Annotated[str, typer.Option("--suite", help="The threats to run.")] = "quick",
    device: DeviceOption = "auto",
) -> None:
    """Run shipped models through a suite on generated street scenes; print a leaderboard and write a report."""
    from gauntlet.evaluation.execution.local import LocalExecutor
    from gauntlet.evaluation.execution.progress import Terminal
    from gauntlet.evaluation.execution.runner import run_jobs
    from gauntlet.evaluation.jobs import look_up
    from gauntlet.evaluation.plan import parse_plan, plan_jobs
    from gauntlet.report import Options, write_report
    from gauntlet.results import open_store

    scenes = {"name": "streets", "split": "val", "limit": images}
    plan = parse_plan({"models": list(models), "datasets": [scenes], "suites": [suite]})
    with open_store(output / "results.db") as store:
        with Terminal() as progress:
            jobs, _ = look_up(store, plan_jobs(plan, device, progress))
            outcome = run_jobs(jobs, store, executor=LocalExecutor(), progress=progress)
        if outcome.failures:
            raise GauntletError(outcome.failures[0].error)
        results = [stored for planned in jobs if (stored := store.load(planned.job.key)) is not None]
        names = model_names(store)
        report = write_report(store, output / "report.html", options=Options("Gauntlet demo", gallery=2))
        typer.echo(f"{images} images of streets/val")
        print_many(results, names, store)
    typer.echo(f"store:  {output / 'results.db'}\nreport: {report.resolve()}")
