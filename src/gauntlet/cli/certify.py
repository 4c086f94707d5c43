"""`gauntlet certify`: what no small perturbation can change."""

from __future__ import annotations

from typing import Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.output import print_json
from gauntlet.cli.shared_options import (
    DEFAULT_STORE,
    DeviceOption,
    JsonOption,
    ModelOptions,
    SeedOption,
    StoreOption,
    takes_model_options,
)


@app.command(
    epilog="Example: gauntlet certify --model streets/enet-noise --dataset streets --sigma 0.25 --tau 0.75 --limit 16"
)
@takes_model_options()
def certify(
    model: Annotated[str, typer.Option("--model", "-m", help="The base model, trained on noise of this sigma.")],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="A dataset, or folder:PATH.")] = "streets",
    split: Annotated[
        str | None, typer.Option("--split", help="Split of the dataset; its usual one by default.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many images.")] = None,
    sigma: Annotated[
        float, typer.Option("--sigma", help="Standard deviation of the noise, on the [0, 1] scale.")
    ] = 0.25,
    n0: Annotated[int, typer.Option("--n0", min=1, help="Noisy copies that choose the class of a pixel.")] = 10,
    n: Annotated[int, typer.Option("--n", min=1, help="Noisy copies that vote on it.")] = 100,
    tau: Annotated[
        list[float] | None, typer.Option("--tau", help="Probability that the class must exceed; may be repeated.")
    ] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="Chance of any wrong certificate, per image.")] = 0.001,
    correction: Annotated[str, typer.Option("--correction", help="holm, bonferroni or none.")] = "holm",
    tolerated: Annotated[int, typer.Option("--tolerated", min=0, help="Wrong pixels per image put up with.")] = 0,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Images computed together.")] = 4,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes with one thread each; one per core by default.")
    ] = None,
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
    store: StoreOption = DEFAULT_STORE,
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Certify pixels by randomised smoothing: inside the radius, no l2 perturbation changes their class."""
    from gauntlet import evaluation
    from gauntlet.datasets import load_dataset
    from gauntlet.evaluation.execution.local import cores
    from gauntlet.evaluation.execution.progress import Terminal
    from gauntlet.evaluation.jobs import resolve_for

    data = load_dataset(dataset, split=split, root=root, limit=limit)
    with Terminal() as progress:
        result = evaluation.certify(
            resolve_for(model, model_options, data),
            data,
            sigma=sigma,
            n0=n0,
            n=n,
            tau=tau or [0.75],
            alpha=alpha,
            correction=correction,
            tolerated=tolerated,
            store=store,
            seed=seed,
            batch_size=batch_size,
            device=None if device == "auto" else device,
            workers=workers or cores(),
            progress=progress,
        )
    if as_json:
        print_json({**result.as_dict(), "store": store})
        return
    typer.echo(f"{result.model} on {result.images} images of {result.dataset}/{result.split}, {result.threat}")
    by_view: dict[str, dict[str, float]] = {}
    for figure in result.all_figures:
        if not figure.class_name and figure.view != "all":
            by_view.setdefault(figure.view, {})[figure.metric] = figure.value
    for view, values in by_view.items():
        if "radius" in values:
            typer.echo(
                f"  {view}: certified accuracy {100 * values['certified_accuracy']:.1f} %, certified mIoU "
                f"{100 * values['certified_mIoU']:.1f} %, abstained {100 * values['abstention']:.1f} %, "
                f"l2 radius {values['radius']:.3f}"
            )
        else:
            words = {"majority": "vote without abstention", "clean": "base model without noise"}[view]
            typer.echo(f"  {words}: accuracy {100 * values['aAcc']:.1f} %, mIoU {100 * values['mIoU']:.1f} %")
    what = "of a single pixel" if correction == "none" else "of an image"
    wrong = "wrong" if tolerated == 0 else f"wrong on more than {tolerated} pixels"
    together = "" if correction == "none" else f", any of these with {min(1, alpha * result.images):g}"
    typer.echo(
        f"  a certificate {what} is {wrong} with a chance of {alpha:g} at most{together}; {store} keeps the votes"
    )
