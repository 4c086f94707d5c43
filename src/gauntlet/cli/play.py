"""`gauntlet play`: attack a model on a local page and look on."""

from __future__ import annotations

import importlib.util
import threading
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.shared_options import DeviceOption, ModelOptions, model_flags, takes_model_options
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    from gauntlet.play.playground import Playground

DEFAULT_PORT = 8021


@app.command(
    epilog="Examples: gauntlet play   |   gauntlet play --model streets/enet --model streets/enet-at   |   "
    "gauntlet play --model python:unet:UNet --dataset folder:photos   |   gauntlet play --host 0.0.0.0"
)
@takes_model_options()
def play(
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="A model to choose from; all shipped ones by default.")
    ] = None,
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", help="The dataset whose images can be chosen.")
    ] = "streets",
    split: Annotated[str | None, typer.Option("--split", help="Split of the dataset.")] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    host: Annotated[
        str, typer.Option("--host", help="0.0.0.0 lets a phone in the same network in, with the printed address.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Of the page; 0 for any.")] = DEFAULT_PORT,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    device: DeviceOption = "cpu",
    *,
    model_options: ModelOptions,
) -> None:
    """Open a page to choose a model and an image, move epsilon, steps, severity and region, and watch the attack."""
    if any(importlib.util.find_spec(package) is None for package in ("starlette", "uvicorn")):
        from gauntlet.extras import install_command

        raise GauntletError(
            f"the playground needs Starlette and uvicorn; install them with: {install_command('play')}."
        )
    from gauntlet.play.server import bind

    bound = bind(make_playground(model or [], dataset, split, root, device, model_options), host, port)
    typer.echo(f"The playground is at {bound.addresses[0]}")
    for address in bound.addresses[1:]:
        typer.echo(f"From a phone in the same network: {address}")
    typer.echo("Whoever has the address can use it, until you stop it with Ctrl-C.")
    if browser:
        # A browser in the terminal does not come back before it is closed, and the server must run meanwhile.
        threading.Thread(target=webbrowser.open, args=(bound.addresses[0],), daemon=True).start()
    bound.run()


def make_playground(
    models: list[str], dataset: str, split: str | None, root: str | None, device: str, model_options: ModelOptions
) -> Playground:
    """The playground of a command line.

    Args:
        models: addresses; the shipped models of the dataset where there are none.
        dataset, split, root: whose images can be chosen.
        device: where models compute.
        model_options: of every model.
    """
    from gauntlet.datasets import load_dataset
    from gauntlet.evaluation.jobs import options_for, resolve_for
    from gauntlet.evaluation.provenance import choose_device
    from gauntlet.models.loading import resolve_model
    from gauntlet.models.sources import shipped
    from gauntlet.play.playground import OfferedDataset, OfferedModel, Playground

    data = load_dataset(dataset, split=split, root=root)
    models = models or shipped.names(dataset)
    if not models:
        raise GauntletError(f"say which model to play with on {dataset}: --model ADDRESS; no shipped one knows it.")
    offered = []
    for address in models:
        needs_number = resolve_model(address, **model_options).needs_num_classes
        written = options_for(model_options, data) if needs_number else model_options
        offered.append(OfferedModel(address, resolve_for(address, model_options, data), model_flags(written)))
    words = {"--dataset": dataset, "--split": split, "--root": root}
    flags = [word for flag, value in words.items() if value is not None for word in (flag, value)]
    return Playground(offered, OfferedDataset(data, flags), choose_device(device))
