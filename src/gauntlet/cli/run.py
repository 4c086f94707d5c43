"""`gauntlet run`: evaluate one model or thousands; `gauntlet runs`: what ran."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauntlet.cli.app import app
from gauntlet.cli.options import DEFAULT_STORE, DeviceOption, JsonOption, SeedOption, StoreOption
from gauntlet.cli.output import percent, print_json, print_table
from gauntlet.errors import GauntletError
from gauntlet.numbers import format_duration, parse_number

if TYPE_CHECKING:
    from gauntlet.evaluation.plan import PlannedJob
    from gauntlet.evaluation.runner import Executor, Summary
    from gauntlet.results import Evaluation

EXECUTORS = ("local", "ray")
_MANY = 4
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
        int | None, typer.Option("--workers", min=1, help="Ray workers; all that fit by default.")
    ] = None,
    cpus_per_worker: Annotated[int, typer.Option("--cpus-per-worker", min=1, help="Cores of a Ray worker.")] = 1,
    wandb: Annotated[bool, typer.Option("--wandb", help="Log to Weights & Biases (offline by default).")] = False,
    mlflow: Annotated[bool, typer.Option("--mlflow", help="Log to MLflow.")] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Log to TensorBoard.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate models on datasets under threats; what is stored already is not computed again."""
    from gauntlet.evaluation.plan import parse_plan, plan_jobs, plan_schema, read_plan
    from gauntlet.evaluation.progress import Terminal

    if schema:
        print_json(plan_schema())
        return
    options = _given(
        {
            "weights": weights,
            "num_classes": num_classes,
            "class_names": [name.strip() for name in class_names.split(",")] if class_names else None,
            "mean": _channels("--mean", mean),
            "std": _channels("--std", std),
            "channel_order": channel_order,
            "trust": trust or None,
        }
    )
    if plan is not None:
        if model or dataset or threat or suite:
            raise GauntletError("give either a plan or --model, --dataset, --threat and --suite, not both.")
        beside = {"--split": split, "--root": root, "--limit": limit, "--protocol": protocol, "--seed": seed or None}
        beside |= {"--batch-size": batch_size if batch_size != DEFAULT_BATCH_SIZE else None}
        beside |= {"--precision": precision if precision != "fp32" else None}
        ignored = [name for name, value in beside.items() if value is not None]
        if ignored:
            raise GauntletError(f"write {', '.join(ignored)} into the plan; beside a plan it has no effect.")
        if options:
            raise GauntletError(
                f"with a plan, write {', '.join(options)} into it, as options of the model they are meant for."
            )
        chosen = read_plan(plan)
    else:
        if not model:
            raise GauntletError("say which model to evaluate: --model streets/enet, or give a plan.")
        place = {"split": split, "root": root, "limit": limit, "protocol": protocol}
        content = {
            "models": [{"address": each, "options": options} for each in model],
            "datasets": [{"name": name, **_given(place)} for name in dataset or ["streets"]],
            "suites": suite or [],
            "threats": [parse_threat(each) for each in threat or ([] if suite else ["clean"])],
            "seeds": [seed],
            "batch_size": batch_size,
            "precision": precision,
        }
        chosen = parse_plan(content, "the command line")
    jobs = plan_jobs(chosen, device, Terminal())
    kinds = [name for name, wanted in (("wandb", wandb), ("mlflow", mlflow), ("tensorboard", tensorboard)) if wanted]
    if dry_run:
        _dry_run(jobs, store, as_json)
        return
    _run(jobs, store, _executor(executor, address, workers, cpus_per_worker), kinds, again, as_json)


def _run(
    jobs: Sequence[PlannedJob],
    address: str,
    executor: Executor | None,
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
            summary = run_jobs(jobs, store, executor=executor, progress=progress, listeners=listeners, again=again)
        results = [found for planned in jobs if (found := store.load(planned.job.key)) is not None]
        computed = {evaluation.key for evaluation in summary.computed}
        if as_json:
            documents = [
                {**each.as_dict(), "from_store": each.key not in computed, "store": address} for each in results
            ]
            print_json(documents[0] if len(jobs) == 1 and documents else documents)
        elif len(jobs) == 1 and results:
            print_one(results[0])
        else:
            print_many(results)
    _say_summary(summary, address, as_json)


def _say_summary(summary: Summary, address: str, as_json: bool) -> None:
    text = f"{len(summary.computed)} computed, {len(summary.found)} found in {address}"
    if summary.log is not None:
        text += f"; log: {summary.log}"
    if not as_json:
        typer.echo(text)
    for failure in summary.failures:
        typer.echo(f"failed: {failure.planned.job.model} | {failure.planned.job.threat}: {failure.error}", err=True)
    if summary.failures:
        raise typer.Exit(1 if len(summary.failures) > 1 or summary.computed else 2)


def print_one(result: Evaluation) -> None:
    """Every headline figure of one evaluation, with its interval."""
    from gauntlet.metrics.contract import NOT_FRACTIONS

    def text(name: str, value: float) -> str:
        return f"{value:.2f} (not %)" if name in NOT_FRACTIONS and not math.isnan(value) else percent(value)

    rows = [
        (
            name,
            text(name, value),
            "" if (bounds := result.intervals.get(name)) is None else " to ".join(text(name, b) for b in bounds),
        )
        for name, value in result.figures.items()
    ]
    title = f"{result.model} on {result.dataset}/{result.split} ({result.images} images), {result.threat}"
    print_table(title, ["figure", "%", "95 % interval"], rows)


def print_many(results: Sequence[Evaluation]) -> None:
    """The headline figure of several evaluations (mIoU, mAP), a table per task."""
    from gauntlet.metrics import metrics

    for task in dict.fromkeys(result.task for result in results):
        _print_headline([result for result in results if result.task == task], metrics[task].headline)


def _print_headline(results: Sequence[Evaluation], metric: str) -> None:
    """Models in columns when they are few, else one row each."""
    models = list(dict.fromkeys(result.model for result in results))
    names = _dataset_names(results)
    cells = {(names[_images_of(r)], r.threat, r.seed, r.model): r.figures[metric] for r in results}
    if len(models) > _MANY:
        rows = [[model, dataset, threat, percent(value)] for (dataset, threat, _, model), value in cells.items()]
        print_table(f"{metric} %", ["model", "dataset", "threat", metric], rows, numbers_from=3)
        return
    rows = []
    for dataset, threat, seed in dict.fromkeys(key[:3] for key in cells):
        values = [percent(cells.get((dataset, threat, seed, model), math.nan)) for model in models]
        rows.append([dataset, threat, *values])
    print_table(f"{metric} %", ["dataset", "threat", *models], rows, numbers_from=2)


def _dataset_names(results: Sequence[Evaluation]) -> dict[tuple[str, str, str], str]:
    """What images are called; their number and digest are added where one name and split stands for several sets."""
    numbers = {_images_of(result): result.images for result in results}
    several = Counter(key[:2] for key in numbers)
    return {
        (dataset, split, digest): f"{dataset}/{split}"
        + (f", {images} images [{digest[:8]}]" if several[dataset, split] > 1 else "")
        for (dataset, split, digest), images in numbers.items()
    }


def _images_of(result: Evaluation) -> tuple[str, str, str]:
    return result.dataset, result.split, result.dataset_digest


def _dry_run(jobs: Sequence[PlannedJob], address: str, as_json: bool) -> None:
    from gauntlet.evaluation.estimate import estimate

    states = _states(jobs, address)
    missing = [planned for planned in jobs if states.get(planned.job.key) != "complete"]
    seconds = dict(zip((planned.job.key for planned in missing), estimate(missing), strict=True))
    rows = [
        {
            "model": planned.job.model,
            "dataset": planned.job.dataset["name"],
            "threat": planned.job.threat,
            "images": len(planned.dataset),
            "state": states.get(planned.job.key, "new"),
            "seconds": round(seconds.get(planned.job.key, 0.0), 1),
            "key": planned.job.key,
        }
        for planned in jobs
    ]
    if as_json:
        print_json(rows)
        return
    columns = ["model", "dataset", "threat", "images", "state", "seconds"]
    print_table("", columns, [[row[name] for name in columns] for row in rows], numbers_from=3)
    typer.echo(
        f"{len(jobs)} evaluations, {len(jobs) - len(missing)} of them stored; the rest takes about "
        f"{format_duration(sum(seconds.values()))} in one process (attacks that stop early take less)."
    )


def _states(jobs: Sequence[PlannedJob], address: str) -> dict[str, str]:
    from gauntlet.results import open_store

    if "://" not in address and not Path(address).exists():
        return {}
    with open_store(address, read_only=True) as store:
        return store.states([planned.job.key for planned in jobs])


def _executor(name: str, address: str | None, workers: int | None, cpus_per_worker: int) -> Executor | None:
    if name == "local":
        return None
    if name == "ray":
        from gauntlet.evaluation.cluster import RayExecutor

        return RayExecutor(address, cpus_per_worker, workers)
    from gauntlet.errors import unknown_name

    raise unknown_name("executor", name, EXECUTORS)


@app.command(epilog="Example: gauntlet runs --store results.db")
def runs(store: StoreOption = DEFAULT_STORE, as_json: JsonOption = False) -> None:
    """List the runs that wrote into a store, with their state."""
    from gauntlet.evaluation.runner import is_alive
    from gauntlet.results import open_store

    with open_store(store, read_only=True) as opened:
        frame = opened.runs()
    rows = frame.to_dict("records")
    for row in rows:
        if row["state"] == "running" and not is_alive(row["host"], row["process"]):
            row["state"] = "killed"
    if as_json:
        print_json(rows)
        return
    columns = ["id", "state", "started", "jobs", "done", "failed", "command"]
    print_table("", columns, [[row[name] for name in columns] for row in rows], numbers_from=9)


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


def _channels(option: str, text: str | None) -> list[float] | None:
    """Three numbers, one for each channel, from "a,b,c"."""
    if text is None:
        return None
    values = [parse_number(part, option) for part in text.split(",")]
    if len(values) != 3:
        raise GauntletError(f"{option} needs three numbers such as 0.485,0.456,0.406, not '{text}'.")
    return values


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
