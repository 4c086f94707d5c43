"""`gauntlet leaderboard`: models in order, on the terminal."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json, print_table
from gauntlet.cli.shared_options import DEFAULT_STORE, JsonOption, StoreOption
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    from gauntlet.report.tables import Table


@app.command(epilog="Example: gauntlet leaderboard --published --dataset ade20k")
def leaderboard(
    store: StoreOption = DEFAULT_STORE,
    published: Annotated[bool, typer.Option("--published", help="The published figures instead of a store.")] = False,
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="Only this dataset.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="segmentation or detection.")] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="mIoU and mAP by default.")] = None,
    sort_by: Annotated[str | None, typer.Option("--sort-by", help="A score: clean, GAM_3, linf-ReM^8_20, ...")] = None,
    top: Annotated[int | None, typer.Option("--top", min=1, help="Only so many models of a dataset.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Rank the models of a store, or the published ones: clean figure, worst cases, ReM, GAM, real weather."""
    from gauntlet.errors import unknown_name
    from gauntlet.report.pages.entries import leaderboard_tables, published_entries, store_entries, store_orders
    from gauntlet.report.tables import format_cell
    from gauntlet.results import open_store
    from gauntlet.results import published as figures

    if published:
        entries = published_entries(figures.frame(task, dataset))
    else:
        with open_store(store, read_only=True) as opened:
            frame = opened.frame()
        for column, wanted in (("task", task), ("dataset", dataset)):
            if wanted is not None and wanted not in set(frame[column]):
                raise unknown_name(f"{column} in the store {store}", wanted, set(frame[column]))
        entries = store_entries(frame, task, dataset)
    if not entries:
        raise GauntletError(f"the store {store} holds no finished evaluation; 'gauntlet run' makes some.")
    metrics = {name for entry in entries for name in entry.scores}
    if metric is not None and metric not in metrics:
        raise unknown_name("metric of a leaderboard", metric, metrics)
    scores = {name for entry in entries for values in entry.scores.values() for name in values}
    if sort_by is not None and sort_by not in scores:
        raise unknown_name("score to sort by", sort_by, scores)
    boards = [replace(each, rows=each.rows[:top]) for each in leaderboard_tables(entries, metric, sort_by)]
    tested: dict[str, str] = {}
    if not published:
        with open_store(store, read_only=True) as opened:
            tested = store_orders(opened, task, dataset, metric, sort_by)
    if as_json:
        heads = [{"title": each.title, "caption": each.caption, "order": tested.get(each.title, "")} for each in boards]
        print_json([{**head, "models": _records(each)} for head, each in zip(heads, boards, strict=True)])
        return
    for board in boards:
        shown = [index for index, column in enumerate(board.columns) if not _DETAIL.match(column.name)]
        columns = [board.columns[index] for index in shown]
        rows = [[format_cell(row[index], board.columns[index].kind) for index in shown] for row in board.rows]
        print_table(f"{board.title}: {board.caption}", [column.name for column in columns], rows)
        if tested.get(board.title):
            typer.echo(tested[board.title])


# Scores that a terminal has no room for; --json and the site have them.
_DETAIL = re.compile(r"mean of |(noise|blur|weather|digital)_\d")


def _records(board: Table) -> list[dict[str, str | float | None]]:
    """The rows by the names of the columns; fractions, null where there is none."""
    from gauntlet.report.tables import Interval

    records = []
    for row in board.rows:
        cells = [cell.value if isinstance(cell, Interval) else cell for cell in row]
        values = [None if isinstance(cell, float) and math.isnan(cell) else cell for cell in cells]
        records.append(dict(zip((column.name for column in board.columns), values, strict=True)))
    return records
