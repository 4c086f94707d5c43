"""`gauntlet doctor`: is everything there?"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauntlet._version import __version__
from gauntlet.cli.app import app
from gauntlet.cli.output import print_json, print_table
from gauntlet.cli.shared_options import JsonOption, ModelOptions, takes_model_options

if TYPE_CHECKING:
    from gauntlet.datasets.contract import Dataset
    from gauntlet.models import GauntletModel
    from gauntlet.samples import Sample
    from gauntlet.threats.attacks.checks import Suspicion

CORE = ("torch", "numpy", "scipy", "opencv-python-headless", "numba", "pydantic", "SQLAlchemy", "pandas", "safetensors")
# What an optional part needs: import name, distribution, the command that installs it.
OPTIONAL = {
    "Ray cluster": ("ray", "ray", "pip install 'vision-gauntlet[cluster]'"),
    "Weights & Biases": ("wandb", "wandb", "pip install 'vision-gauntlet[tracking]'"),
    "MLflow": ("mlflow", "mlflow", "pip install 'vision-gauntlet[tracking]'"),
    "TensorBoard": ("tensorboard", "tensorboard", "pip install 'vision-gauntlet[tracking]'"),
    "Hugging Face models": ("transformers", "transformers", "pip install 'vision-gauntlet[zoo]'"),
    "torchvision models": ("torchvision", "torchvision", "pip install 'vision-gauntlet[zoo]'"),
    "PostgreSQL store": ("psycopg", "psycopg", "pip install 'vision-gauntlet[postgres]'"),
    "Figures as PNG, PDF, SVG": ("matplotlib", "matplotlib", "pip install 'vision-gauntlet[figures]'"),
    "Parquet export": ("pyarrow", "pyarrow", "pip install 'vision-gauntlet[parquet]'"),
}


@app.command(epilog="Examples: gauntlet doctor   |   gauntlet doctor --attack-check streets/enet --images 4")
@takes_model_options()
def doctor(
    attack_check: Annotated[
        str | None,
        typer.Option(
            "--attack-check", help="A model: do attacks on it work as they should, or is its gradient masked?"
        ),
    ] = None,
    transfer_from: Annotated[
        str | None,
        typer.Option("--transfer-from", help="With --attack-check: a second model to transfer attacks from."),
    ] = None,
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", help="With --attack-check: the images to use.")
    ] = "streets",
    split: Annotated[str | None, typer.Option("--split", help="Split of the dataset.")] = None,
    root: Annotated[str | None, typer.Option("--root", help="Where the dataset lies on disk.")] = None,
    images: Annotated[int, typer.Option("--images", min=1, help="With --attack-check: how many images.")] = 4,
    as_json: JsonOption = False,
    *,
    model_options: ModelOptions,
) -> None:
    """Check the environment: versions, devices, optional parts; or whether attacks on a model can be trusted."""
    if attack_check is not None:
        from gauntlet.datasets import load_dataset
        from gauntlet.evaluation.jobs import resolve_for
        from gauntlet.models import load_model

        data = load_dataset(dataset, split=split, root=root, limit=images)
        other = None if transfer_from is None else load_model(transfer_from)
        model = resolve_for(attack_check, model_options, data).load()
        _check_attacks(attack_check, model, data, other, as_json)
        return
    facts = _facts()
    if as_json:
        print_json(facts)
        return
    print_table("Environment", ["what", "value"], list(facts["environment"].items()), numbers_from=9)
    print_table("Devices", ["device", "what"], list(facts["devices"].items()), numbers_from=9)
    rows = [
        (name, part["version"] or "missing", "" if part["version"] else part["install"])
        for name, part in facts["optional"].items()
    ]
    print_table("Optional parts", ["part", "version", "to install it"], rows, numbers_from=9)
    for broken in facts["broken plug-ins"]:
        typer.echo(f"Broken: {broken}")
    typer.echo("All of the core is there." if not facts["missing"] else f"Missing: {', '.join(facts['missing'])}.")
    if facts["missing"]:
        raise typer.Exit(1)


def _check_attacks(
    address: str, model: GauntletModel, data: Dataset, other: GauntletModel | None, as_json: bool
) -> None:
    """Runs the honesty checks on a few images; exit code 1 when an alarming finding was made."""
    findings = _findings(model, data, other)
    rows = [{"severity": f.severity, "code": f.code, "finding": f.sentence, "figures": f.figures} for f in findings]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(f"Findings on {address}", ["severity", "code", "finding"],
                    [(row["severity"], row["code"], row["finding"]) for row in rows], numbers_from=9)  # fmt: skip
    else:
        typer.echo(f"{address}: nothing suspicious on {len(data)} images; attacks behave as they should.")
    if any(finding.severity != "note" for finding in findings):
        raise typer.Exit(1)


def _findings(model: GauntletModel, data: Dataset, other: GauntletModel | None) -> list[Suspicion]:
    """What is suspicious on the images of a dataset; those of one size are attacked together, the worst is told."""
    from gauntlet.samples import collate
    from gauntlet.threats.attacks import check_attack
    from gauntlet.threats.kinds.attack import truth_of

    by_size: dict[tuple[int, ...], list[Sample]] = {}
    for sample in data:
        by_size.setdefault(sample.image.shape, []).append(sample)
    worst: dict[str, Suspicion] = {}
    for samples in by_size.values():
        batch = collate(samples, ignore_index=data.ignore_index)
        truth = truth_of(model, batch)
        for finding in check_attack(model, batch.images, truth, other_model=other, ignore_index=data.ignore_index):
            if finding.code not in worst or finding.severity == "error":
                worst[finding.code] = finding
    return list(worst.values())


def _facts() -> dict[str, Any]:
    core = {name: _version(name) for name in CORE}
    return {
        "environment": {
            "gauntlet": __version__,
            "python": f"{platform.python_version()} ({sys.executable})",
            "platform": platform.platform(),
            "free disk": f"{shutil.disk_usage('.').free / 2**30:.1f} GiB here",
            **{name: installed or "missing" for name, installed in core.items()},
        },
        "devices": _devices(),
        "optional": {
            name: {"version": _version(distribution) if importlib.util.find_spec(module) else None, "install": install}
            for name, (module, distribution, install) in OPTIONAL.items()
        },
        "missing": [name for name, installed in core.items() if installed is None],
        "broken plug-ins": _broken_plugins(),
    }


def _broken_plugins() -> list[str]:
    """A sentence for every entry point of another package that cannot be used."""
    import gauntlet.evaluation
    import gauntlet.models.sources.decoding
    import gauntlet.threats.suites  # noqa: F401 - with the other two, every module that has a registry
    from gauntlet.registry import broken_plugins

    return [str(broken) for broken in broken_plugins()]


def _devices() -> dict[str, str]:
    import torch

    devices = {"cpu": f"{torch.get_num_threads()} threads"}
    for index in range(torch.cuda.device_count()):
        memory = torch.cuda.get_device_properties(index).total_memory / 2**30
        devices[f"cuda:{index}"] = f"{torch.cuda.get_device_name(index)}, {memory:.0f} GiB"
    if torch.backends.mps.is_available():
        devices["mps"] = "Apple GPU"
    return devices


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
