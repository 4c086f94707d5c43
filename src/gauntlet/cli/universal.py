"""`gauntlet universal`: one perturbation for all images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.fitting import Application, FitPlace, OutputOption, takes_application, takes_fit_place
from gauntlet.cli.shared_options import JsonOption, ModelOptions, SeedOption, takes_model_options

universal_app = typer.Typer(help="One perturbation for all images.", no_args_is_help=True)
app.add_typer(universal_app, name="universal")


@universal_app.callback()
def universal() -> None:
    """One perturbation for all images: fitted on one split, evaluated on another."""


@universal_app.command(epilog="Example: gauntlet universal fit --model streets/enet --split train --limit 32 -o u")
@takes_model_options()
@takes_fit_place
def fit(
    epsilon: Annotated[str, typer.Option("--epsilon", help="Norm at most, on the [0, 1] scale.")] = "10/255",
    norm: Annotated[str, typer.Option("--norm", help="linf or l2.")] = "linf",
    alpha: Annotated[str | None, typer.Option("--alpha", help="Length of a step; 1/255 for linf.")] = None,
    passes: Annotated[int, typer.Option("--passes", min=1, help="Passes over the images.")] = 60,
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Images per update; one update per pass by default.")
    ] = None,
    tile: Annotated[str | None, typer.Option("--tile", help="HEIGHTxWIDTH of a tile that is repeated: 64x64.")] = None,
    aim: Annotated[
        str, typer.Option("--aim", help="untargeted; static (segmentation); vanishing, fabrication (detection).")
    ] = "untargeted",
    scene: Annotated[int, typer.Option("--scene", min=0, help="Image whose prediction a static target is.")] = 0,
    hide: Annotated[str | None, typer.Option("--hide", help="Class to hide, by name or index.")] = None,
    seed: SeedOption = 0,
    output: OutputOption = Path("universal.safetensors"),
    as_json: JsonOption = False,
    *,
    place_to_fit: FitPlace,
    model_options: ModelOptions,
) -> None:
    """Fit a universal perturbation; the images are held in memory."""
    from gauntlet.cli.fitting import told, written
    from gauntlet.cli.shared_options import whole_numbers
    from gauntlet.pictures import from_tensor
    from gauntlet.threats.fitted import UniversalRule, fit_universal

    sides = whole_numbers("--tile", tile, "x", "64x64", count=2)
    rule = UniversalRule(
        epsilon=epsilon,
        norm=norm,
        alpha=alpha,
        passes=passes,
        batch=batch,
        tile=None if sides is None else (sides[0], sides[1]),
        aim="hide" if hide is not None else aim,
        hide=hide,
        scene=scene,
        seed=seed,
    )
    loaded, data = place_to_fit.load(model_options)
    with told(f"universal perturbation of {place_to_fit.model}", passes, "passes") as tell:
        artifact = fit_universal(loaded, data, rule, tell)
    tensor = artifact.tensors["perturbation"]
    written(artifact, output, from_tensor(tensor / tensor.abs().max().clamp_min(1e-12) / 2 + 0.5), as_json)


@universal_app.command(epilog="Example: gauntlet universal apply u.safetensors --model streets/enet --limit 32")
@takes_model_options()
@takes_application
def apply(
    draws: Annotated[int, typer.Option("--draws", min=1, help="Draws of the random control.")] = 5,
    *,
    application: Application,
    model_options: ModelOptions,
) -> None:
    """Evaluate a universal perturbation on held-out images, beside random signs of the same norm."""
    from gauntlet.evaluation.fitted import apply_universal

    application.run("universal", apply_universal, "{}", model_options, draws=draws)
