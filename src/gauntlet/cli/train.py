"""`gauntlet train`: train a model from a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import JsonOption, ModelOptions, takes_model_options
from gauntlet.numbers import format_percent
from gauntlet.own_code import PREFIX

if TYPE_CHECKING:
    from gauntlet.training import TrainingResult


@app.command(epilog="Example: gauntlet train configs/enet.yaml --output trained/enet")
@takes_model_options("name", "num_classes", "mean", "std", "stride", "weights")
def train(
    config: Annotated[Path, typer.Argument(help="A recipe in YAML; configs/ has those of the shipped models.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for weights, log and card; trained/NAME by default.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Start anew instead of going on.")] = False,
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Train a model, clean or adversarially; an interrupted training goes on where it was."""
    from gauntlet.training import load_config
    from gauntlet.training import train as run_training

    result = run_training(load_config(config).overruled(model_options), output, resume=not restart)
    if as_json:
        print_json({"folder": str(result.folder), **result.card})
        return
    name, value = result.headline
    typer.echo(f"{name} {format_percent(value)} %, written to {result.folder}")
    typer.echo(f"next: {_next_command(result)}")


def _next_command(result: TrainingResult) -> str:
    """The command that evaluates a trained model on the data that it was validated on."""
    import shlex

    data = result.card["recipe"]["data"]
    if data["name"].startswith(PREFIX):  # only training takes datasets that a callable makes
        images = ["--dataset", "DATASET"]
    else:
        options = data["options"] if data["validation_options"] is None else data["validation_options"]
        images = ["--dataset", data["name"], "--split", data["validation_split"]]
        images += ["--root", str(options["root"])] if "root" in options else []
    return shlex.join(["gauntlet", "run", "--model", str(result.folder), *images, "--suite", "quick"])
