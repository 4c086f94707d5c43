"""`gauntlet store`: is a store as it was written, and what it does not record."""

from __future__ import annotations

from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import DEFAULT_STORE, JsonOption, StoreOption
from gauntlet.errors import GauntletError
from gauntlet.numbers import counted

store_app = typer.Typer(help="Stores of results.", no_args_is_help=True)
app.add_typer(store_app, name="store")


@store_app.callback()
def store() -> None:
    """Stores of results."""


@store_app.command(epilog="Example: gauntlet store check --store results.db --recompute")
def check(
    store: StoreOption = DEFAULT_STORE,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Compute all figures from the counts and compare them.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare every evaluation and its counts with their checksums; exit 1 where something is damaged."""
    from gauntlet.results import open_store
    from gauntlet.results.checking import check_store

    with open_store(store, read_only=True) as opened:
        found = list(check_store(opened, recompute=recompute))
        unrecorded = opened.unrecorded()
    problems = [each for each in found if each is not None]
    if as_json:
        print_json(
            {
                "evaluations": len(found),
                "damaged": [{"key": each.key, "problem": each.what} for each in problems],
                "unrecorded": unrecorded,
            }
        )
    else:
        for each in problems:
            typer.echo(f"{each.key}: {each.what}")
        typer.echo(f"{counted(len(found), 'evaluation')}, {len(problems)} damaged")
        if unrecorded:
            typer.echo(
                f"{counted(unrecorded, 'evaluation')} of version 0.2.0 or older, without checksums: data and code not "
                "recorded; 'gauntlet store adopt' runs a sample again and records them"
            )
    if problems:
        raise GauntletError(f"the store {store} is damaged; 'gauntlet run --again' computes what is listed above anew.")


@store_app.command(epilog="Example: gauntlet store adopt --store results.db --images 8")
def adopt(
    store: StoreOption = DEFAULT_STORE,
    images: Annotated[
        int, typer.Option("--images", min=1, help="Images of each model and dataset that are computed again.")
    ] = 4,
    trust: Annotated[
        bool, typer.Option("--trust", help="Run code that the store names: Python models of one's own.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Record data and code of results of version 0.2.0 or older, where a sample that is run again is the same."""
    from dataclasses import asdict

    from gauntlet.evaluation.adoption import adopt as adopt_results
    from gauntlet.evaluation.execution.progress import Terminal
    from gauntlet.evaluation.reloading import Loaders
    from gauntlet.results import open_store

    with open_store(store) as opened, Terminal() as progress:
        found = list(adopt_results(opened, progress, images=images, loaders=Loaders(trust=trust)))
    if as_json:
        print_json([asdict(each) for each in found])
        return
    for each in found:
        exact = "bit for bit" if each.bitwise else "up to 0.1 points"
        sample = f", {counted(each.images, 'image')} the same again, {exact}" if each.adopted else ""
        typer.echo(f"{each.model} on {each.dataset}: {len(each.adopted)} adopted, {len(each.left)} left{sample}")
        for reason in dict.fromkeys(each.left.values()):
            typer.echo(f"  left: {reason}")
    adopted, left = sum(len(each.adopted) for each in found), sum(len(each.left) for each in found)
    typer.echo(f"{counted(adopted, 'evaluation')} adopted, {left} left as they were")
