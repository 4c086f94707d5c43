"""`gauntlet doctor`: is everything there?"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gauntlet._version import __version__
from gauntlet.cli.app import app
from gauntlet.cli.output import print_json, print_table
from gauntlet.cli.shared_options import JsonOption, ModelOptions, takes_model_options
from gauntlet.errors import GauntletError
from gauntlet.extras import FITTING_TORCHVISION, import_fault, install_command, installed_version, torchvision_fault
from gauntlet.numbers import counted, format_duration

if TYPE_CHECKING:
    from gauntlet.datasets.contract import Dataset
    from gauntlet.models import GauntletModel
    from gauntlet.samples import Sample
    from gauntlet.threats.attacks.checks import Suspicion

# What the core and what optional parts need: import name, distribution; for the latter the extra that installs it.
CORE = {
    "torch": "torch",
    "numpy": "numpy",
    "scipy": "scipy",
    "opencv-python-headless": "cv2",
    "numba": "numba",
    "pydantic": "pydantic",
    "SQLAlchemy": "sqlalchemy",
    "pandas": "pandas",
    "safetensors": "safetensors",
}
OPTIONAL = {
    "Ray cluster": ("ray", "ray", "cluster"),
    "Weights & Biases": ("wandb", "wandb", "tracking"),
    "MLflow": ("mlflow", "mlflow", "tracking"),
    "TensorBoard": ("tensorboard", "tensorboard", "tracking"),
    "H.265 corruptions": ("av", "av", "video"),
    "Hugging Face models": ("transformers:PreTrainedModel", "transformers", "zoo"),
    "torchvision models": ("torchvision", "torchvision", "zoo"),
    "segmentation_models_pytorch": ("segmentation_models_pytorch", "segmentation-models-pytorch", "zoo"),
    "ONNX models": ("onnx2torch", "onnx2torch", "zoo"),
    "ONNX Runtime": ("onnxruntime", "onnxruntime", "zoo"),
    "PostgreSQL store": ("psycopg", "psycopg", "postgres"),
    "Figures as PNG, PDF, SVG": ("matplotlib", "matplotlib", "figures"),
    "Parquet export": ("pyarrow", "pyarrow", "parquet"),
    "Playground": ("starlette", "starlette", "play"),
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
        import torch

        from gauntlet.datasets import load_dataset
        from gauntlet.evaluation.jobs import ready_model, resolve_for

        data = load_dataset(dataset, split=split, root=root, limit=images)
        other = None if transfer_from is None else resolve_for(transfer_from, {}, data).load()
        model = ready_model(resolve_for(attack_check, model_options, data), data, torch.device("cpu"))
        _check_attacks(attack_check, model, data, other, as_json)
        return
    if model_options:
        raise GauntletError(f"say which model {', '.join(model_options)} is meant for: --attack-check ADDRESS.")
    facts = _facts()
    if as_json:
        print_json(facts)
        return
    print_table("Environment", ["what", "value"], list(facts["environment"].items()), numbers_from=9)
    print_table("Devices", ["device", "what"], list(facts["devices"].items()), numbers_from=9)
    rows = [
        (name, part["version"] or "missing", _advice(part["version"], part["broken"], part["install"]))
        for name, part in facts["optional"].items()
    ]
    print_table("Optional parts", ["part", "version", "to install it"], rows, numbers_from=9)
    for name, part in facts["optional"].items():
        if part["broken"]:
            typer.echo(f"Broken: {name}: {part['broken']}.")
    if facts["torchvision"]:
        typer.echo(f"Broken: {facts['torchvision']}.")
    for broken in facts["broken plug-ins"]:
        typer.echo(f"Broken: {broken}")
    typer.echo("All of the core is there." if not facts["missing"] else f"Missing: {', '.join(facts['missing'])}.")
    if facts["missing"]:
        raise typer.Exit(1)


def _advice(version: str | None, broken: str | None, install: str) -> str:
    return install if version is None else "cannot be imported, see below" if broken else ""


def _check_attacks(
    address: str, model: GauntletModel, data: Dataset, other: GauntletModel | None, as_json: bool
) -> None:
    """Runs the honesty checks on a few images; exit code 1 when an alarming finding was made."""
    findings = _findings(model, data, other, told=None if as_json else address)
    rows = [{"severity": f.severity, "code": f.code, "finding": f.sentence, "figures": f.figures} for f in findings]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(f"Findings on {address}", ["severity", "code", "finding"],
                    [(row["severity"], row["code"], row["finding"]) for row in rows], numbers_from=9)  # fmt: skip
    else:
        typer.echo(f"{address}: nothing suspicious on {counted(len(data), 'image')}; attacks behave as they should.")
    if any(finding.severity != "note" for finding in findings):
        raise typer.Exit(1)


def _findings(model: GauntletModel, data: Dataset, other: GauntletModel | None, told: str | None) -> list[Suspicion]:
    """What is suspicious on the images of a dataset; those of one size are attacked together, the worst is told.

    Args:
        told: the name by which the terminal says how long it takes, None to say nothing.
    """
    from gauntlet.samples import collate
    from gauntlet.threats.attacks import build, check_attack
    from gauntlet.threats.attacks.checks import SINGLE_STEP, expected_gradients
    from gauntlet.threats.kinds.attack import truth_of

    by_size: dict[tuple[int, ...], list[Sample]] = {}
    for sample in data:
        by_size.setdefault(sample.image.shape, []).append(sample)
    worst: dict[str, Suspicion] = {}
    for samples in by_size.values():
        batch = collate(samples, ignore_index=data.ignore_index)
        truth = truth_of(model, batch)
        if told is not None:
            single = build(SINGLE_STEP, epsilon="1/255", ignore_index=data.ignore_index)
            single(model, batch.images, truth)  # the first pass of a process takes longer than any other
            began = time.perf_counter()
            single(model, batch.images, truth)
            passes = expected_gradients(model)
            expected = format_duration(passes * len(by_size) * (time.perf_counter() - began))
            sentence = f"Attacking {told} in a dozen ways, some {passes} gradients per image: about {expected}."
            typer.echo(sentence, err=True)
            told = None
        for finding in check_attack(model, batch.images, truth, other_model=other, ignore_index=data.ignore_index):
            if finding.code not in worst or finding.severity == "error":
                worst[finding.code] = finding
    return list(worst.values())


def _facts() -> dict[str, Any]:
    core = {name: installed_version(name) for name in CORE}
    faults = {name: import_fault(module) for name, module in CORE.items() if core[name] is not None}
    return {
        "environment": {
            "gauntlet": __version__,
            "python": f"{platform.python_version()} ({sys.executable})",
            "platform": platform.platform(),
            "free disk": f"{shutil.disk_usage('.').free / 2**30:.1f} GiB here",
            **{name: installed or "missing" for name, installed in core.items()},
        },
        "devices": _devices(),
        "optional": {name: _optional_part(*part) for name, part in OPTIONAL.items()},
        "torchvision": _torchvision(),
        "missing": [name for name, installed in core.items() if installed is None or faults[name] is not None],
        "broken plug-ins": _broken_plugins(),
    }


def _optional_part(target: str, distribution: str, extra: str) -> dict[str, str | None]:
    """Whether a part is installed, how to install it, and why it cannot be imported where it cannot."""
    there = importlib.util.find_spec(target.partition(":")[0]) is not None
    return {
        "version": installed_version(distribution) if there else None,
        "broken": import_fault(target) if there else None,
        "install": install_command(extra),
    }


def _torchvision() -> str | None:
    """What to do about a torchvision that breaks other parts."""
    fault = torchvision_fault()
    if fault is None:
        return None
    return f"{fault}; install the one that fits ({FITTING_TORCHVISION}) or remove it (pip uninstall torchvision)"


def _broken_plugins() -> list[str]:
    """A sentence for every entry point of another package that cannot be used."""
    import gauntlet.evaluation
    import gauntlet.models.sources.decoding
    import gauntlet.studies.contract
    import gauntlet.threats.suites  # noqa: F401 - with the other three, every module that has a registry
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
