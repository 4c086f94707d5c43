"""`gauntlet card`: a robustness card of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import DEFAULT_STORE, JsonOption, ModelOptions, StoreOption, takes_model_options
from gauntlet.cli.stored_models import stored_name


@app.command(epilog="Example: gauntlet card streets/enet --output README.md")
@takes_model_options()
def card(
    model: Annotated[str, typer.Argument(help="A model in the store: its name, or its address with its options.")],
    store: StoreOption = DEFAULT_STORE,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Markdown file; the JSON file is written beside it.")
    ] = Path("robustness-card.md"),
    benchmark: Annotated[
        Path | None,
        typer.Option(
            "--benchmark",
            help="YAML with id and tasks (TASK: THREAT) of a benchmark on the Hub; writes .eval_results/ beside.",
        ),
    ] = None,
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Write what is known about a model's robustness as a model card: Markdown with a model-index, and JSON."""
    from gauntlet.report.pages.eval_results import entries, read_benchmark, write_eval_results
    from gauntlet.report.pages.model_card import card_data, write_card
    from gauntlet.results import open_store

    asked = None if benchmark is None else read_benchmark(benchmark)
    with open_store(store, read_only=True) as opened:
        name = stored_name(opened, model, model_options)
        rows = None if asked is None else entries(card_data(opened, name), asked)
        text, data = write_card(opened, name, output)
    written = {"markdown": text, "json": data}
    if rows is not None:
        written["eval_results"] = write_eval_results(rows, output.parent)
    if as_json:
        print_json({kind: str(path.resolve()) for kind, path in written.items()})
    else:
        typer.echo("written to " + " and ".join(str(path.resolve()) for path in written.values()))
