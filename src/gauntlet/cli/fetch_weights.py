"""`gauntlet fetch-weights`: weights that the package may not contain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import JsonOption


@app.command("fetch-weights", epilog="Example: gauntlet fetch-weights ~/gauntlet")
def fetch_weights(
    folder: Annotated[Path, typer.Argument(help="A clone of the repository, or its folder weights/.")],
    as_json: JsonOption = False,
) -> None:
    """Copy weights that are not in the package, because of their data's licence, from a clone into the user's cache."""
    from gauntlet.files import cache_folder
    from gauntlet.models.sources import shipped

    models = shipped.fetch(folder.expanduser())
    target = cache_folder() / "weights"
    if as_json:
        print_json({"folder": str(target), "models": {each.name: each.licence("weights") for each in models}})
        return
    for each in models:
        typer.echo(f"{each.name}: {each.licence('weights')}, trained on {each.data} ({each.licence('data')})")
    typer.echo(f"wrote {target}")
