"""`gauntlet run`: evaluate one model or thousands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.dry_run import print_dry_run
from gauntlet.cli.evaluations import print_many, print_one
from gauntlet.cli.output import print_json
from gauntlet.cli.plan_arguments import given, parse_channels, plan_from_file, plan_from_options
from gauntlet.cli.shared_options import DEFAULT_STORE, DeviceOption, JsonOption, SeedOption, StoreOption

if TYPE_CHECKING:
    from gauntlet.evaluation.jobs import PlannedJob
    from gauntlet.evaluation.run_log import RunOutcome
    from gauntlet.evaluation.runner import Executor

EXECUTORS = ("local", "ray")
DEFAULT_BATCH_SIZE = 4


@app.command(
    epilog="Examples: gauntlet run --model streets/enet --suite quick --limit 32   |   gauntlet run plan.yaml   |   "
    "gauntlet run -m streets/enet -t '{attack: {name: pgd, epsilon: [2/255, 8/255], steps: 20}}' --dry-run"
)
def run(
    plan: Annotated[Path | None, typer.Argument(help="A plan in YAML; instead of --model and the rest.")] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="A model; 'gauntlet list models' shows the shipped ones.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option("--weights", help="File with the model's weights (camvid/, smp:, torchvision:).")
    ] = None,
    num_classes: Annotated[
        int | None, typer.Option("--num-classes", min=1, help="Classes of the model, where it does not say.")
    ] = None,
    class_names: Annotated[
        str | None,
        typer.Option("--class-names", help="The model's classes, where it has none: car,person,traffic light."),
    ] = None,
    mean: Annotated[
        str | None, typer.Option("--mean", help="What the model subtracts, on the [0, 1] scale: 0.485,0.456,0.406.")
    ] = None,
    std: Annotated[
        str | None, typer.Option("--std", help="What the model divides by, on the [0, 1] scale: 0.229,0.224,0.225.")
    ] = None,
    channel_order: Annotated[
        str | None, typer.Option("--channel-order", help="RGB or BGR, what the model was trained on.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let the model's files run code: pickles, .pt2, OpenMMLab configurations.")
    ] = False,
    dataset: Annotated[list[str] | None, typer.Option("--dataset", "-d", help="A dataset, or folder:PATH.")] = None,
    threat: Annotated[
        list[str] | None,
        typer.Option("--threat", "-t", help="A name (clean, pgd, fog), a YAML description with sweeps, or a file."),
    ] = None,
    suite: Annotated[list[str] | None, typer.Option("--suite", "-s", help="A built-in list of threats.")] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Split of the dataset; its usual one by default.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    protocol: Annotated[str | None, typer.Option("--protocol", help="How images are resized and cropped.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many images.")] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, help="Images computed together.")
    ] = DEFAULT_BATCH_SIZE,
    precision: Annotated[str, typer.Option("--precision", help="fp32 or bf16.")] = "fp32",
    prepare: Annotated[
        str,
        typer.Option("--prepare", help="Faster passes under attacks: auto, off, or steps such as fold,channels-last."),
    ] = "auto",
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
    store: StoreOption = DEFAULT_STORE,
    again: Annotated[bool, typer.Option("--again", help="Compute again what is stored already.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run and how long it takes.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of a plan and exit.")] = False,
    executor: Annotated[str, typer.Option("--executor", help="local or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="Ray cluster to join; a new one here by default.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, help="Processes with one thread each; one per core by default."),
    ] = None,
    cpus_per_worker: Annotated[int, typer.Option("--cpus-per-worker", min=1, help="Cores of a Ray worker.")] = 1,
    wandb: Annotated[bool, typer.Option("--wandb", help="Log to Weights & Biases (offline by default).")] = False,
    mlflow: Annotated[bool, typer.Option("--mlflow", help="Log to MLflow.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Log to TensorBoard.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate models on datasets under threats; what is stored already is not computed again."""
    from gauntlet.evaluation.memory import keep_freed_memory
    from gauntlet.evaluation.plan import plan_jobs, plan_schema
    from gauntlet.evaluation.progress import Terminal

    if schema:
        print_json(plan_schema())
        return
    model_options = given(
        {
            "weights": weights,
            "num_classes": num_classes,
            "class_names": [name.strip() for name in class_names.split(",")] if class_names else None,
            "mean": parse_channels("--mean", mean),
            "std": parse_channels("--std", std),
            "channel_order": channel_order,
            "trust": trust or None,
        }
    )
    place = {"split": split, "root": root, "limit": limit, "protocol": protocol}
    if plan is not None:
        beside = {f"--{name}": value for name, value in place.items()} | {
            "--seed": seed or None,
            "--batch-size": batch_size if batch_size != DEFAULT_BATCH_SIZE else None,
            "--precision": precision if precision != "fp32" else None,
            "--prepare": prepare if prepare != "auto" else None,
        }
        chosen = plan_from_file(plan, (model, dataset, threat, suite), beside, model_options)
    else:
        how = {"seeds": [seed], "batch_size": batch_size, "precision": precision, "prepare": prepare}
        chosen = plan_from_options(model, model_options, dataset, place, suite, threat, **how)
    jobs = plan_jobs(chosen, device, Terminal())
    if dry_run:
        from gauntlet.evaluation.local import cores

        print_dry_run(jobs, store, workers or cores(), as_json)
        return
    keep_freed_memory()
    trackers = [name for name, wanted in (("wandb", wandb), ("mlflow", mlflow), ("tensorboard", tensorboard)) if wanted]
    _run(jobs, store, _executor(executor, address, workers, cpus_per_worker), trackers, again, as_json)


def _run(
    jobs: Sequence[PlannedJob],
    address: str,
    executor: Executor,
    trackers: Sequence[str],
    again: bool,
    as_json: bool,
) -> None:
    from gauntlet.evaluation.listeners import TrackerListener
    from gauntlet.evaluation.progress import Terminal
    from gauntlet.evaluation.runner import run_jobs
    from gauntlet.results import open_store

    with open_store(address) as store:
        listeners = [TrackerListener(kind, Path("gauntlet-logs")) for kind in trackers]
        with Terminal() as progress:
            outcome = run_jobs(jobs, store, executor=executor, progress=progress, listeners=listeners, again=again)
        computed = {evaluation.key: evaluation for evaluation in outcome.computed}
        known = [computed.get(planned.job.key) or store.load(planned.job.key) for planned in jobs]
        results = [each for each in known if each is not None]
        if as_json:
            documents = [
                {**each.as_dict(), "from_store": each.key not in computed, "store": address} for each in results
            ]
            print_json(documents[0] if len(jobs) == 1 and documents else documents)
        elif len(jobs) == 1 and results:
            print_one(results[0])
        else:
            print_many(results)
    _print_outcome(outcome, address, as_json)


def _print_outcome(outcome: RunOutcome, address: str, as_json: bool) -> None:
    """Says how much was computed and what failed; the exit code is 1 where something failed, 2 where all did."""
    text = f"{len(outcome.computed)} computed, {len(outcome.stored)} found in {address}"
    if outcome.log is not None:
        text += f"; log: {outcome.log}"
    if not as_json:
        typer.echo(text)
    for failure in outcome.failures:
        typer.echo(f"failed: {failure.planned.job.model} | {failure.planned.job.threat}: {failure.error}", err=True)
    if outcome.failures:
        raise typer.Exit(1 if len(outcome.failures) > 1 or outcome.computed else 2)


def _executor(name: str, address: str | None, workers: int | None, cpus_per_worker: int) -> Executor:
    from gauntlet.evaluation.local import LocalExecutor

    if name == "local":
        return LocalExecutor(workers)
    if name == "ray":
        from gauntlet.evaluation.cluster import RayExecutor

        return RayExecutor(address, cpus_per_worker, workers)
    from gauntlet.errors import unknown_name

    raise unknown_name("executor", name, EXECUTORS)
