"""`gauntlet run`: evaluate one model or thousands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gauntlet.cli.app import app
from gauntlet.cli.dry_run import print_dry_run
from gauntlet.cli.evaluations import model_names, print_many, print_one
from gauntlet.cli.output import print_json
from gauntlet.cli.plan_arguments import plan_from_file, plan_from_options
from gauntlet.cli.shared_options import (
    DEFAULT_STORE,
    DeviceOption,
    JsonOption,
    ModelOptions,
    SeedOption,
    SpreadOption,
    StoreOption,
    takes_model_options,
)
from gauntlet.errors import GauntletError, unknown_name

if TYPE_CHECKING:
    from gauntlet.evaluation.execution.run_log import RunOutcome
    from gauntlet.evaluation.execution.runner import Executor
    from gauntlet.evaluation.jobs import PlannedJob

EXECUTORS = ("local", "ray")
DEFAULT_BATCH_SIZE = 4


@app.command(
    epilog="Examples: gauntlet run --model streets/enet --suite quick --limit 32   |   gauntlet run plan.yaml   |   "
    "gauntlet run -m streets/enet -t '{attack: {name: pgd, epsilon: [2/255, 8/255], steps: 20}}' --dry-run"
)
@takes_model_options()
def run(
    plan: Annotated[Path | None, typer.Argument(help="A plan in YAML; instead of --model and the rest.")] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="A model; 'gauntlet list models' shows the shipped ones.")
    ] = None,
    zoo: Annotated[
        str | None,
        typer.Option("--zoo", help="semsegbench or detecbench: every model trained on the dataset that can be loaded."),
    ] = None,
    dataset: Annotated[list[str] | None, typer.Option("--dataset", "-d", help="A dataset, or folder:PATH.")] = None,
    threat: Annotated[
        list[str] | None,
        typer.Option("--threat", "-t", help="A name (clean, pgd, fog), a YAML description with sweeps, or a file."),
    ] = None,
    suite: Annotated[list[str] | None, typer.Option("--suite", "-s", help="A built-in list of threats.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", help="Of the threats only these: a name (pgd), a kind (corruption) or a pattern ('fog*')."
        ),
    ] = None,
    skip: Annotated[list[str] | None, typer.Option("--skip", help="Of the threats not these.")] = None,
    save_images: Annotated[
        Path | None,
        typer.Option("--save-images", help="Folder for the perturbed images: PNG, exact numbers and an index."),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Split of the dataset; its usual one by default.")
    ] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    protocol: Annotated[str | None, typer.Option("--protocol", help="How images are resized and cropped.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many images.")] = None,
    spread: SpreadOption = False,
    trust_data: Annotated[
        bool, typer.Option("--trust-data", help="Do not read the files to identify the data; results say so.")
    ] = False,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, help="Images computed together.")
    ] = DEFAULT_BATCH_SIZE,
    precision: Annotated[str, typer.Option("--precision", help="fp32 or bf16.")] = "fp32",
    prepare: Annotated[
        str,
        typer.Option("--prepare", help="Faster passes under attacks: auto, off, or steps such as fold,channels-last."),
    ] = "auto",
    objects: Annotated[
        bool, typer.Option("--objects", help="Keep every connected object, for size bias; segmentation only.")
    ] = False,
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
    *,
    model_options: ModelOptions,
) -> None:
    """Evaluate models on datasets under threats; what is stored already is not computed again."""
    from gauntlet.evaluation.execution.memory import keep_freed_memory
    from gauntlet.evaluation.execution.progress import Terminal
    from gauntlet.evaluation.plan import plan_jobs, plan_schema

    if schema:
        print_json(plan_schema())
        return
    place: dict[str, object] = {
        "split": split,
        "root": root,
        "limit": limit,
        "spread": spread or None,
        "protocol": protocol,
        "trust_data": trust_data or None,
    }
    if plan is not None:
        beside = {f"--{name.replace('_', '-')}": value for name, value in place.items()} | {
            "--seed": seed or None,
            "--batch-size": batch_size if batch_size != DEFAULT_BATCH_SIZE else None,
            "--precision": precision if precision != "fp32" else None,
            "--prepare": prepare if prepare != "auto" else None,
            "--objects": objects or None,
        }
        chosen = plan_from_file(plan, (model, zoo, dataset, threat, suite), beside, model_options)
    else:
        how = {"seeds": [seed], "batch_size": batch_size, "precision": precision, "prepare": prepare}
        chosen = plan_from_options(model, model_options, dataset, place, suite, threat, zoo, **how, objects=objects)
    keep_freed_memory()  # before a dry run too: its probe is to cost what the run will
    folder = None if save_images is None else str(save_images.resolve())
    jobs = plan_jobs(chosen, device, Terminal(), only=only or (), skip=skip or (), images_folder=folder)
    if dry_run:
        print_dry_run(jobs, store, workers, as_json)
        return
    trackers = [name for name, wanted in (("wandb", wandb), ("mlflow", mlflow), ("tensorboard", tensorboard)) if wanted]
    if save_images is not None:
        _make_folder(save_images)
    outcome = _run(jobs, store, _executor(executor, address, workers, cpus_per_worker), trackers, again, as_json)
    if save_images is not None:
        left = f"; {len(outcome.stored)} stored already have none (--again makes them)" if outcome.stored else ""
        typer.echo(f"images of {len(outcome.computed)} evaluations written to {save_images}{left}", err=True)
    _end(outcome)


def _run(
    jobs: Sequence[PlannedJob],
    address: str,
    executor: Executor,
    trackers: Sequence[str],
    again: bool,
    as_json: bool,
) -> RunOutcome:
    from gauntlet.evaluation.execution.listeners import TrackerListener
    from gauntlet.evaluation.execution.progress import Terminal
    from gauntlet.evaluation.execution.runner import run_jobs
    from gauntlet.evaluation.jobs import look_up
    from gauntlet.results import open_store

    with open_store(address) as store:
        listeners = [TrackerListener(kind, Path("gauntlet-logs")) for kind in trackers]
        with Terminal() as progress:
            jobs = jobs if again else look_up(store, jobs)[0]
            outcome = run_jobs(jobs, store, executor=executor, progress=progress, listeners=listeners, again=again)
        computed = {evaluation.key: evaluation for evaluation in outcome.computed}
        failed = {failure.planned.job.key for failure in outcome.failures}
        keys = [planned.job.key for planned in jobs if planned.job.key not in failed]
        known = [computed.get(key) or store.load(key) for key in keys]
        results = [each for each in known if each is not None]
        if as_json:
            documents = [
                {**each.as_dict(), "from_store": each.key not in computed, "store": address} for each in results
            ]
            print_json(documents[0] if len(jobs) == 1 and documents else documents)
        elif len(jobs) == 1 and results:
            print_one(results[0], model_names(store), store)
        else:
            print_many(results, model_names(store), store)
    if not as_json:
        typer.echo(_summary(outcome, address))
    return outcome


def _summary(outcome: RunOutcome, address: str) -> str:
    """How much was computed; what failed was said when it did."""
    text = f"{len(outcome.computed)} computed, {len(outcome.stored)} found in {address}"
    if outcome.failures:
        text += f", {len(outcome.failures)} failed (see above)"
    return text if outcome.log is None else f"{text}; log: {outcome.log}"


def _end(outcome: RunOutcome) -> None:
    """The exit code is 1 where something failed, 2 where all did."""
    if outcome.failures:
        raise typer.Exit(1 if len(outcome.failures) > 1 or outcome.computed else 2)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GauntletError(f"the folder {folder} cannot be made: {error.strerror}.") from None


def _executor(name: str, address: str | None, workers: int | None, cpus_per_worker: int) -> Executor:
    from gauntlet.evaluation.execution.local import LocalExecutor

    if name == "local":
        return LocalExecutor(workers)
    if name == "ray":
        from gauntlet.evaluation.execution.cluster import RayExecutor

        return RayExecutor(address, cpus_per_worker, workers)
    raise unknown_name("executor", name, EXECUTORS)
