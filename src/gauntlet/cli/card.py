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
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Write what is known about a model's robustness as a model card: Markdown with a model-index, and JSON."""
    from gauntlet.report.pages.model_card import write_card
    from gauntlet.results import open_store

    with open_store(store, read_only=True) as opened:
        text, data = write_card(opened, stored_name(opened, model, model_options), output)
    if as_json:
        print_json({"markdown": str(text.resolve()), "json": str(data.resolve())})
    else:
        typer.echo(f"written to {text.resolve()} and {data.resolve()}")
