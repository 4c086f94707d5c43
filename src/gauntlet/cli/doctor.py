"""`gauntlet doctor`: is everything there?"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from gauntlet._version import __version__
from gauntlet.cli.app import app
from gauntlet.cli.options import JsonOption
from gauntlet.cli.output import print_json, print_table

CORE = ("torch", "numpy", "scipy", "opencv-python-headless", "numba", "pydantic", "SQLAlchemy", "pandas", "safetensors")
# What an optional part needs: import name, distribution, the command that installs it.
OPTIONAL = {
    "PostgreSQL store": ("psycopg", "psycopg", "pip install 'vision-gauntlet[postgres]'"),
    "Parquet export": ("pyarrow", "pyarrow", "pip install 'vision-gauntlet[parquet]'"),
}


@app.command(epilog="Example: gauntlet doctor --json")
def doctor(as_json: JsonOption = False) -> None:
    """Check the environment: versions, devices, optional parts and the command that installs each."""
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
    typer.echo("All of the core is there." if not facts["missing"] else f"Missing: {', '.join(facts['missing'])}.")
    if facts["missing"]:
        raise typer.Exit(1)


def _facts() -> dict[str, Any]:
    core = {name: _version(name) for name in CORE}
    return {
        "environment": {
            "gauntlet": __version__,
            "python": f"{platform.python_version()} ({sys.executable})",
            "platform": platform.platform(),
            "free disk": f"{shutil.disk_usage('.').free / 2**30:.1f} GiB here",
            **{name: found or "missing" for name, found in core.items()},
        },
        "devices": _devices(),
        "optional": {
            name: {"version": _version(distribution) if importlib.util.find_spec(module) else None, "install": install}
            for name, (module, distribution, install) in OPTIONAL.items()
        },
        "missing": [name for name, found in core.items() if found is None],
    }


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
