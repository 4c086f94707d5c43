"""`gauntlet demo`: the whole way, from model to report, in a minute or two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.options import DeviceOption
from gauntlet.cli.run import print_many


@app.command(epilog="Example: gauntlet demo --images 32 --output gauntlet-demo")
def demo(
    images: Annotated[int, typer.Option("--images", min=1, help="Images per evaluation.")] = 16,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the store and the report.")] = Path(
        "gauntlet-demo"
    ),
    suite: Annotated[str, typer.Option("--suite", help="The threats to run.")] = "quick",
    device: DeviceOption = "auto",
) -> None:
    """Run every shipped segmentation model through a suite on generated street scenes; print a leaderboard."""
    from gauntlet.datasets import load_dataset
    from gauntlet.evaluation import evaluate
    from gauntlet.evaluation.progress import Terminal
    from gauntlet.models.sources import shipped
    from gauntlet.report import Options, write_report
    from gauntlet.results import open_store
    from gauntlet.threats import suites

    dataset = load_dataset("streets", split="val", limit=images)
    threats = suites.build(suite)
    results = []
    with open_store(output / "results.db") as store:
        with Terminal() as progress:
            for name in shipped.names():
                source = shipped.find(name)
                results += [
                    evaluate(source, dataset, threat, store=store, device=device, progress=progress)
                    for threat in threats
                ]
        report = write_report(store, output / "report.html", options=Options("Gauntlet demo", gallery=2))
    typer.echo(f"{images} images of streets/val")
    print_many(results)
    typer.echo(f"store:  {output / 'results.db'}\nreport: {report.resolve()}")
