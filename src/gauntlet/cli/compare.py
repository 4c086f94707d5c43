"""`gauntlet compare`: two models, and whether they really differ."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json, print_table
from gauntlet.cli.shared_options import DEFAULT_STORE, JsonOption, ModelOptions, StoreOption, takes_model_options
from gauntlet.cli.stored_models import stored_name

if TYPE_CHECKING:
    from gauntlet.report.pages.comparison import Comparison, Difference
    from gauntlet.report.tables import Table

MOST_FLIPS = 10


@app.command(epilog="Example: gauntlet compare streets/enet streets/enet-at --html compare.html")
@takes_model_options()
def compare(
    first: Annotated[str, typer.Argument(help="A model in the store: its name, or its address with its options.")],
    second: Annotated[str, typer.Argument(help="Another one; differences are second minus first.")],
    store: StoreOption = DEFAULT_STORE,
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="Only on this dataset.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page with everything.")] = None,
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Compare two models: verdict, difference, interval and p-value under every threat, and for what ranks them."""
    from gauntlet.report.pages.comparison import compare_models
    from gauntlet.report.pages.comparison_page import difference_table, image_tables, to_document, verdict, versions
    from gauntlet.report.render.html import write
    from gauntlet.report.tables import Table
    from gauntlet.report.write import write_text
    from gauntlet.results import open_store

    with open_store(store, read_only=True) as opened:
        names = {model: stored_name(opened, model, model_options) for model in (first, second)}
        comparisons = compare_models(opened, names[first], names[second], dataset)
    written = write_text(html, write(to_document(comparisons))) if html is not None else None
    if as_json:
        print_json([_record(each) for each in comparisons])
        return
    for each in comparisons:
        flips = [block for block in image_tables(each) if isinstance(block, Table)]
        for table in (difference_table(each), *(block for block in flips if "change sides" in block.title)):
            _print(each, table)
        typer.echo("\n".join(filter(None, (verdict(each), each.order.sentence(), *versions(each)))))
    if written is not None:
        typer.echo(f"written to {written.resolve()}")


def _print(comparison: Comparison, table: Table) -> None:
    from gauntlet.report.tables import format_cell

    shown = table.rows if table.id.startswith("differences") else table.rows[:MOST_FLIPS]
    rows = [[format_cell(cell, column.kind) for cell, column in zip(row, table.columns, strict=True)] for row in shown]
    names = [column.name for column in table.columns]
    numbers = next((index for index, column in enumerate(table.columns) if column.is_number), len(names))
    more = f" (the first {len(rows)}; --html shows more)" if len(rows) < len(table.rows) else ""
    print_table(f"{comparison.scope.title}: {table.title}{more}", names, rows, numbers_from=numbers)


def _record(comparison: Comparison) -> dict[str, Any]:
    from gauntlet.report.pages.comparison_page import verdict

    scope = comparison.scope
    return {
        "first": comparison.first,
        "second": comparison.second,
        "dataset": scope.dataset,
        "split": scope.split,
        "images": scope.images,
        "dataset_digest": scope.digest,
        "metric": scope.metric,
        "verdict": verdict(comparison),
        "order": comparison.order.sentence(),
        "versions": {name: list(found) for name, found in comparison.versions.items()},
        "differences": [_nullable(_difference(each)) for each in comparison.differences],
    }


def _difference(difference: Difference) -> dict[str, Any]:
    from dataclasses import asdict

    told = difference.told
    return {
        "threat": difference.threat,
        "kind": difference.kind,
        "first": difference.first,
        "second": difference.second,
        "change": asdict(difference.change),
        "p_value": told.p_value if told else None,
        "adjusted": told.adjusted if told else None,
        "verdict": difference.verdict,
        "better": difference.better,
        "worse": difference.worse,
    }


def _nullable(value: Any) -> Any:
    """NaN becomes null."""
    if isinstance(value, dict):
        return {name: _nullable(each) for name, each in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
