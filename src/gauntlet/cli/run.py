"""`gauntlet run`: evaluate."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from gauntlet.cli.app import app
from gauntlet.cli.options import DEFAULT_STORE, DeviceOption, JsonOption, SeedOption, StoreOption
from gauntlet.cli.output import percent, print_json, print_table
from gauntlet.errors import GauntletError


@app.command(
    epilog="Example: gauntlet run --model streets/enet --dataset streets --threat "
    "'{attack: {name: pgd, epsilon: 8/255, steps: 20}}' --limit 32"
)
def run(
    model: Annotated[
        str, typer.Option("--model", "-m", help="A model; 'gauntlet list models' shows the shipped ones.")
    ],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="A dataset, or folder:PATH.")] = "streets",
    threat: Annotated[
        str, typer.Option("--threat", "-t", help="A name (clean, pgd, fog), a YAML or JSON description, or a file.")
    ] = "clean",
    split: Annotated[
        str | None, typer.Option("--split", help="Split of the dataset; its usual one by default.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many images.")] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Images computed together.")] = 4,
    precision: Annotated[str, typer.Option("--precision", help="fp32 or bf16.")] = "fp32",
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
    store: StoreOption = DEFAULT_STORE,
    again: Annotated[bool, typer.Option("--again", help="Compute again what is stored already.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate a model on a dataset under a threat; a result that is stored already is shown at once."""
    from gauntlet.datasets import load_dataset
    from gauntlet.evaluation import evaluate
    from gauntlet.evaluation.progress import Terminal

    data = load_dataset(dataset, **_given(split=split, root=root))
    with Terminal() as progress:
        result = evaluate(
            model,
            data,
            parse_threat(threat),
            store=store,
            retrieve_existing=not again,
            limit=limit,
            seed=seed,
            batch_size=batch_size,
            device=device,
            precision=precision,
            progress=progress,
        )
    if as_json:
        print_json({**result.as_dict(), "store": store})
        return
    rows = [(name, percent(value), _interval(result.intervals.get(name))) for name, value in result.figures.items()]
    title = f"{result.model} on {result.dataset}/{result.split} ({result.images} images), {result.threat}"
    print_table(title, ["figure", "%", "95 % interval"], rows)
    typer.echo(("found in " if result.from_store else "written to ") + store)


def parse_threat(text: str) -> str | dict[str, Any]:
    """A name or path as it is; a YAML or JSON mapping as a description."""
    if not text.lstrip().startswith("{"):
        return text
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = None
    if not isinstance(value, dict):
        example = json.dumps({"attack": {"name": "pgd", "epsilon": "8/255"}})
        raise GauntletError(f"the threat {text} is not a YAML or JSON mapping; write for example {example}.")
    return value


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f"{percent(bounds[0])} to {percent(bounds[1])}"
