"""`gauntlet site`: the leaderboard as a static site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import JsonOption


@app.command(epilog="Example: gauntlet site public --published --store gauntlet-results.db")
def site(
    folder: Annotated[Path, typer.Argument(help="Folder to write: new, empty, or an earlier site.")],
    store: Annotated[
        str | None,
        typer.Option("--store", help="SQLite file or PostgreSQL URL with evaluations.", envvar="GAUNTLET_STORE"),
    ] = None,
    published: Annotated[bool, typer.Option("--published", help="With the published figures.")] = False,
    title: Annotated[str, typer.Option("--title", help="Title of the site.")] = "Gauntlet leaderboard",
    as_json: JsonOption = False,
) -> None:
    """Write a leaderboard site: table, model pages, comparison, correlations, defences; ready for GitHub Pages."""
    from gauntlet.report.document import Part
    from gauntlet.report.pages.entries import Entry, published_entries, store_entries
    from gauntlet.report.pages.leaderboard_site import defended_parts, write_site
    from gauntlet.results import open_store
    from gauntlet.results import published as figures

    entries: list[Entry] = []
    defended: list[Part] = []
    if store is not None:
        with open_store(store, read_only=True) as opened:
            frame = opened.frame()
        entries, defended = store_entries(frame), defended_parts(frame)
    if published:
        entries += published_entries(figures.frame())
    written = write_site(entries, folder, title=title, defended=defended)
    if as_json:
        print_json({"written": str(written.resolve()), "models": len(entries)})
    else:
        typer.echo(f"{len(entries)} models written to {(written / 'index.html').resolve()}")
