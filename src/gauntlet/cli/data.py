"""`gauntlet data`: is a dataset laid out as it should be?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.options import JsonOption
from gauntlet.cli.output import print_json
from gauntlet.errors import GauntletError

data_app = typer.Typer(help="Datasets on disk.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.callback()
def data() -> None:
    """Datasets on disk."""


@data_app.command(epilog="Example: gauntlet data check camvid ~/data/camvid --split test")
def check(
    name: Annotated[str, typer.Argument(help="A dataset; 'gauntlet list datasets' shows them.")],
    root: Annotated[Path, typer.Argument(help="Where it lies on disk.")],
    split: Annotated[str | None, typer.Option("--split", help="Only this split; its usual one by default.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Look into the first so many images only.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Verify a dataset's layout, read its images and labels, and count."""
    from gauntlet.datasets.check import check_dataset

    report = check_dataset(name, root, split=split, limit=limit)
    if as_json:
        print_json(report.as_dict())
    else:
        for line in report.lines():
            typer.echo(line)
    if not report.ok:
        raise GauntletError(f"the dataset '{name}' at {root} has problems; they are listed above.")
