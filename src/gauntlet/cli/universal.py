"""`gauntlet universal`: one perturbation for all images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.fitting import (
    ArtifactArgument,
    DatasetOption,
    FitLimitOption,
    FitSplitOption,
    LimitOption,
    ModelOption,
    OutputOption,
    RootOption,
    WorkersOption,
)
from gauntlet.cli.shared_options import (
    DEFAULT_STORE,
    DeviceOption,
    JsonOption,
    ModelOptions,
    SeedOption,
    StoreOption,
    takes_model_options,
)

universal_app = typer.Typer(help="One perturbation for all images.", no_args_is_help=True)
app.add_typer(universal_app, name="universal")


@universal_app.callback()
def universal() -> None:
    """One perturbation for all images: fitted on one split, evaluated on another."""


@universal_app.command(epilog="Example: gauntlet universal fit --model streets/enet --split train --limit 32 -o u")
@takes_model_options()
def fit(
    model: ModelOption,
    dataset: DatasetOption = "streets",
    split: FitSplitOption = "train",
    root: RootOption = None,
    limit: FitLimitOption = 32,
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
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
    output: OutputOption = Path("universal.safetensors"),
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Fit a universal perturbation; the images are held in memory."""
    from gauntlet.cli.fitting import model_to_fit, told, written
    from gauntlet.cli.shared_options import whole_numbers
    from gauntlet.datasets import load_dataset
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
    data = load_dataset(dataset, split=split, root=root, limit=limit)
    loaded = model_to_fit(model, model_options, data, device)
    with told(f"universal perturbation of {model}", passes, "passes") as tell:
        artifact = fit_universal(loaded, data, rule, tell)
    tensor = artifact.tensors["perturbation"]
    written(artifact, output, from_tensor(tensor / tensor.abs().max().clamp_min(1e-12) / 2 + 0.5), as_json)


@universal_app.command(epilog="Example: gauntlet universal apply u.safetensors --model streets/enet --limit 32")
@takes_model_options()
def apply(
    artifact: ArtifactArgument,
    model: ModelOption,
    dataset: DatasetOption = "streets",
    split: Annotated[str | None, typer.Option("--split", help="Held-out split.")] = None,
    root: RootOption = None,
    limit: LimitOption = None,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Draws of the random control.")] = 5,
    gap: Annotated[bool, typer.Option("--gap", help="Also on the images that it was fitted on.")] = False,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
    seed: SeedOption = 0,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Evaluate a universal perturbation on held-out images, beside random signs of the same norm."""
    from gauntlet.cli.fitting import fit_images, show_rows
    from gauntlet.datasets import load_dataset
    from gauntlet.evaluation.execution.progress import Terminal
    from gauntlet.evaluation.fitted import apply_universal
    from gauntlet.evaluation.jobs import resolve_for
    from gauntlet.tasks import get_task
    from gauntlet.threats.artifacts import load_artifact

    fitted = load_artifact(artifact, "universal")
    data = load_dataset(dataset, split=split, root=root, limit=limit)
    source = resolve_for(model, model_options, data)
    with Terminal() as progress:
        rows = apply_universal(
            source,
            data,
            fitted,
            fit_dataset=fit_images(fitted, root) if gap else None,
            draws=draws,
            store=store,
            seed=seed,
            workers=workers or 1,
            device=None if device == "auto" else device,
            progress=progress,
        )
    title = f"{model} on {len(data)} images of {data.name}/{data.split}, fitted on {fitted.facts['model']}"
    show_rows(rows, get_task(source.task).main_figure, title, store, as_json)
