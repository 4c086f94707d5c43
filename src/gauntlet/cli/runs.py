"""`gauntlet runs`: what ran."""

from __future__ import annotations

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json, print_table
from gauntlet.cli.shared_options import DEFAULT_STORE, JsonOption, StoreOption


@app.command(epilog="Example: gauntlet runs --store results.db")
def runs(store: StoreOption = DEFAULT_STORE, as_json: JsonOption = False) -> None:
    """List the runs that wrote into a store, with their state."""
    from gauntlet.results import open_store
    from gauntlet.results.claims import is_alive

    with open_store(store, read_only=True) as opened:
        frame = opened.runs()
    rows = frame.to_dict("records")
    for row in rows:
        if row["state"] == "running" and not is_alive(row["host"], row["process"]):
            row["state"] = "killed"
    if as_json:
        print_json(rows)
        return
    columns = ["id", "state", "started", "jobs", "done", "failed", "command"]
    print_table("", columns, [[row[name] for name in columns] for row in rows], numbers_from=9)
