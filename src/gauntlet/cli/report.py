"""`gauntlet report`: everything in a store on one page."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import DEFAULT_STORE, JsonOption, ModelOptions, StoreOption, takes_model_options
from gauntlet.errors import GauntletError

if TYPE_CHECKING:
    from gauntlet.evaluation.reloading import Loaders
    from gauntlet.results import Store


class Format(str, Enum):
    """What a report can be written as."""

    html = "html"
    md = "md"
    csv = "csv"
    json = "json"
    png = "png"
    pdf = "pdf"
    svg = "svg"
    latex = "latex"
    coco = "coco"


@app.command(epilog="Example: gauntlet report --gallery 3 --open")
@takes_model_options()
def report(
    store: StoreOption = DEFAULT_STORE,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write (folder for png, pdf, svg, coco); report.html by default."),
    ] = None,
    format: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            help="html: one page that needs nothing else; md; csv: every figure; json; png, pdf, svg: a file per "
            "figure; latex: tables with booktabs; coco: detections under every threat as COCO JSON.",
        ),
    ] = Format.html,
    title: Annotated[str, typer.Option("--title", help="Title of the report.")] = "Gauntlet report",
    gallery: Annotated[
        int,
        typer.Option("--gallery", min=0, help="Worst images to show per model and kind of threat (runs them again)."),
    ] = 0,
    check: Annotated[
        int, typer.Option("--check", min=0, help="Images on which to check every model for hidden gradients.")
    ] = 0,
    figures: Annotated[
        str | None, typer.Option("--figures", help="Pattern of the figures to write as png, pdf or svg: 'curve-*'.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Where --gallery and --check find a model of the store that is your own."),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", help="A model of the store that corruption errors (CE) are given against."),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Write a report over every evaluation in a store: verdict, leaderboard, tables, plots, galleries, recipes."""
    import webbrowser

    from gauntlet.report import Options, write_report
    from gauntlet.report.hidden_gradients import NO_CHECK, check_models
    from gauntlet.results import open_store

    with open_store(store, read_only=True) as opened:
        loaders = _loaders(opened, model, model_options)
        findings = check_models(opened, check, loaders) if check else []
        for finding in findings:
            if finding.text.startswith(NO_CHECK):
                _say(f"{finding.subject}: {finding.text}")
        options = Options(title, gallery=gallery, findings=findings, loaders=loaders, skipped=_say, reference=reference)
        written = write_report(opened, output, format=format.value, options=options, figures=figures)
    if as_json:
        size = written.stat().st_size if written.is_file() else sum(each.stat().st_size for each in written.iterdir())
        print_json({"written": str(written.resolve()), "format": format.value, "bytes": size})
    else:
        typer.echo(f"written to {written.resolve()}")
    if open_it:
        webbrowser.open(written.resolve().as_uri())


def _say(what: str) -> None:
    typer.echo(f"left out: {what}", err=True)


def _loaders(store: Store, address: str | None, options: ModelOptions) -> Loaders:
    """How a report finds models: where the store says that they came from, one of them at an address that is given."""
    from gauntlet.cli.stored_models import resolve_stored
    from gauntlet.evaluation.reloading import Loaders

    trust = bool(options.get("trust"))
    if address is None:
        if meant := [name for name in options if name != "trust"]:
            raise GauntletError(f"say which model {', '.join(meant)} is meant for: --model ADDRESS.")
        return Loaders(trust=trust)
    source, known = resolve_stored(store, address, options)
    return Loaders(
        by_digest={known.digest: source.load()}, trust=trust
    )  # loaded here: paths are meant from this folder
