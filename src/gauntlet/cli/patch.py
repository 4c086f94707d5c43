"""`gauntlet patch`: one patch for all images, flat in the picture or on the walls of a scene."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.fitting import (
    Application,
    ArtifactArgument,
    FitPlace,
    OutputOption,
    takes_application,
    takes_fit_place,
)
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import JsonOption, ModelOptions, SeedOption, takes_model_options

patch_app = typer.Typer(help="One patch for all images.", no_args_is_help=True)
app.add_typer(patch_app, name="patch")


@patch_app.callback()
def patch() -> None:
    """One patch for all images: fitted over its places on one split, evaluated on another."""


@patch_app.command(epilog="Example: gauntlet patch fit --model streets/enet --place billboard --steps 100 -o p")
@takes_model_options()
@takes_fit_place
def fit(
    size: Annotated[
        str | None, typer.Option("--size", help="HEIGHTxWIDTH in pixels; 4 % of the image, 2:1, by default.")
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=0, help="Updates of the patch.")] = 200,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Images per update.")] = 8,
    rate: Annotated[str | None, typer.Option("--rate", help="Length of a step; 0.05, for detectors 2/255.")] = None,
    gamma: Annotated[
        str, typer.Option("--gamma", help="Weight of pixels that are still right: 0 to 1, dynamic or plain.")
    ] = "dynamic",
    goal: Annotated[
        str, typer.Option("--goal", help="Detectors: untargeted, vanishing or fabrication.")
    ] = "untargeted",
    target: Annotated[str | None, typer.Option("--target", help="Class that the rest is to become.")] = None,
    place: Annotated[str, typer.Option("--place", help="image; in streets facade, billboard or surface.")] = "image",
    move: Annotated[float, typer.Option("--move", help="Translation, in sides of the patch.")] = 0.5,
    scale: Annotated[float, typer.Option("--scale", help="Its size varies by this share.")] = 0.2,
    rotation: Annotated[float, typer.Option("--rotation", help="Degrees to either side.")] = 0.0,
    perspective: Annotated[float, typer.Option("--perspective", help="Corners move by this share.")] = 0.0,
    brightness: Annotated[float, typer.Option("--brightness", help="Standard deviation of a shift.")] = 0.0,
    contrast: Annotated[float, typer.Option("--contrast", help="Standard deviation of a factor.")] = 0.0,
    noise: Annotated[float, typer.Option("--noise", help="Standard deviation of noise on its pixels.")] = 0.1,
    metres: Annotated[float, typer.Option("--metres", help="Width of the patch in a scene.")] = 4.0,
    smoothness: Annotated[float, typer.Option("--smoothness", min=0, help="Weight of smoothness.")] = 0.0,
    printability: Annotated[float, typer.Option("--printability", min=0, help="Weight of printable colours.")] = 0.0,
    colors: Annotated[
        Path | None, typer.Option("--colors", help="Text file of printable colours: three numbers 0 to 1 per line.")
    ] = None,
    seed: SeedOption = 0,
    output: OutputOption = Path("patch.safetensors"),
    as_json: JsonOption = False,
    *,
    place_to_fit: FitPlace,
    model_options: ModelOptions,
) -> None:
    """Fit a patch; the images are held in memory."""
    from gauntlet.cli.fitting import told, written
    from gauntlet.cli.shared_options import whole_numbers
    from gauntlet.numbers import parse_number
    from gauntlet.pictures import from_tensor
    from gauntlet.threats.fitted import PatchRule, Placement, fit_patch
    from gauntlet.threats.fitted.patch_losses import DYNAMIC, PLAIN, read_colors

    sides = whole_numbers("--size", size, "x", "26x52", count=2)
    placement = Placement(
        place=place,
        move=move,
        scale=scale,
        rotation=rotation,
        perspective=perspective,
        brightness=brightness,
        contrast=contrast,
        noise=noise,
        metres=metres,
    )
    rule = PatchRule(
        size=None if sides is None else (sides[0], sides[1]),
        steps=steps,
        batch=batch,
        rate=rate,
        gamma=gamma if gamma in (DYNAMIC, PLAIN) else parse_number(gamma, "gamma"),
        goal=goal,
        target=target,
        smoothness=smoothness,
        printability=printability,
        colors=None if colors is None else read_colors(colors),
        placement=placement,
        seed=seed,
    )
    loaded, data = place_to_fit.load(model_options)
    with told(f"patch on {place_to_fit.model}", steps, "steps") as tell:
        artifact = fit_patch(loaded, data, rule, tell)
    written(artifact, output, from_tensor(artifact.tensors["patch"]), as_json)


@patch_app.command(epilog="Example: gauntlet patch apply p.safetensors --model streets/enet --limit 32")
@takes_model_options()
@takes_application
def apply(
    place: Annotated[str | None, typer.Option("--place", help="Another place than it was fitted for.")] = None,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Draws of the random patch.")] = 1,
    *,
    application: Application,
    model_options: ModelOptions,
) -> None:
    """Evaluate a patch on held-out images, without its own pixels, beside a random, a grey and a harmless one."""
    from gauntlet.evaluation.fitted import apply_patch

    application.run("patch", apply_patch, "{} outside", model_options, place=place, draws=draws)


@patch_app.command(epilog="Example: gauntlet patch show p.safetensors --output patch.png --enlarge 8")
def show(
    artifact: ArtifactArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG file to write.")] = Path("patch.png"),
    enlarge: Annotated[int, typer.Option("--enlarge", min=1, help="Times; 1 is the patch itself.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Write a patch as a PNG, and say how it was fitted."""
    from gauntlet.cli.fitting import write_picture
    from gauntlet.pictures import enlarge as enlarged
    from gauntlet.pictures import from_tensor
    from gauntlet.threats.artifacts import load_artifact

    fitted = load_artifact(artifact, "patch")
    write_picture(output, enlarged(from_tensor(fitted.tensors["patch"]), enlarge))
    facts = {name: value for name, value in fitted.facts.items() if name != "fit_ids"}
    about = {"digest": fitted.digest, "picture": str(output), "fit_images": len(fitted.facts["fit_ids"]), **facts}
    if as_json:
        print_json(about)
        return
    for name, value in about.items():
        typer.echo(f"{name}: {value}")
