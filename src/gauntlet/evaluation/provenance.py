"""How a figure was obtained: versions, machine, settings, command."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from gauntlet._version import __version__
from gauntlet.errors import GauntletError
from gauntlet.secrecy import without_password, without_secrets
from gauntlet.yaml_files import parse_yaml


def describe_run(
    *,
    device: torch.device,
    batch_size: int,
    precision: str,
    threads: int | None = None,
    preparation: Sequence[str] | None = (),
) -> dict[str, Any]:
    """Facts about this process, or its workers, that are stored beside the figures.

    Args:
        device, batch_size, precision: of the evaluation.
        threads: torch threads of a worker; this process's by default.
        preparation: how the model is prepared; None when it is chosen later.
    """
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "gauntlet": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "opencv": cv2.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(device),
        "device": str(device),
        "threads": threads or torch.get_num_threads(),
        "batch_size": batch_size,
        "precision": precision,
        "tf32": device.type == "cuda" and (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32),
        "preparation": None if preparation is None else list(preparation),
        "command": command_line(),
    }


def _processor(device: torch.device) -> str:
    if device.type == "cuda" and torch.cuda.is_available():
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


def command_line() -> str:
    """The command this process was started with, as a person would write it; passwords are masked."""
    program, *arguments = sys.argv or [""]
    name = Path(program).name
    if name == "__main__.py":
        folders = Path(program).parent.parts
        start = len(folders) - 1 - folders[::-1].index("gauntlet") if "gauntlet" in folders else -1
        name = "python -m " + ".".join(folders[start:])
    words = [_without_secrets(word) for word in arguments]
    return without_password(f"{name or 'python'} {shlex.join(words)}".strip())


def _without_secrets(word: str) -> str:
    """A word of a command; a mapping in it without what is named like a secret."""
    if not word.lstrip().startswith("{"):
        return word
    try:
        value = parse_yaml(word)
    except GauntletError:
        return word
    clean = without_secrets(value)
    return word if clean == value else json.dumps(clean)


def choose_device(device: str | torch.device | None = None) -> torch.device:
    """The device asked for, else CUDA, else MPS, else the CPU."""
    if device is not None and str(device) != "auto":
        try:
            chosen = torch.device(device)
        except RuntimeError:
            raise GauntletError(f"unknown device '{device}'; use cpu, cuda, cuda:1, mps or auto.") from None
        if chosen.type == "cuda" and not torch.cuda.is_available():
            raise GauntletError("no CUDA device is available; use --device cpu.")
        return chosen
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
