"""Optional packages: how to install them, and whether they can be imported."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gauntlet.errors import first_line

FITTING_TORCHVISION = (
    "pip install --force-reinstall --no-deps torchvision --index-url https://download.pytorch.org/whl/cpu"
)
"""PyPI's torchvision is compiled against the plain build of torch, not against the one for the CPU."""


def install_command(extra: str) -> str:
    """The command that installs an extra of Gauntlet: from the cloned repository where this package lies in one."""
    repository = Path(__file__).resolve().parents[2]
    if not (repository / "pyproject.toml").is_file():
        return f"pip install 'vision-gauntlet[{extra}]'"
    return f"pip install -e '{'.' if repository == Path.cwd() else repository}[{extra}]'"


def installed_version(distribution: str) -> str | None:
    """The version of a distribution, None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def import_fault(target: str) -> str | None:
    """Why "module" or "module:attribute" cannot be imported, in a few words; None where it can."""
    module, _, attribute = target.partition(":")
    try:
        imported = importlib.import_module(module)
        if attribute:
            getattr(imported, attribute)
    except Exception as error:  # foreign code, which fails in its own ways
        return first_line(error).rstrip(".")
    return None


@cache
def torchvision_fault() -> str | None:
    """What is wrong with a torchvision that is installed and cannot be imported, as a part of a sentence."""
    if importlib.util.find_spec("torchvision") is None:
        return None
    reason = import_fault("torchvision")
    if reason is None:
        return None
    import torch

    found = installed_version("torchvision") or "unknown"
    return f"torchvision {found} does not work with torch {torch.__version__} ({reason})"
