"""The resumable state of a training: written whole or not at all, read without unpickling code."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.files import write_atomically

FILE_NAME = "checkpoint.pt"


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Writes tensors, numbers, texts and containers of them to the folder's checkpoint."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(folder / FILE_NAME, buffer.getvalue(), sync=True)


def load_state(folder: Path) -> dict[str, Any] | None:
    """The state in the folder's checkpoint, or None when there is none."""
    path = folder / FILE_NAME
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # damaged files end in one of many errors of zip files and pickles
        raise GauntletError(f"'{path}' is not a readable checkpoint; remove it to start the training anew.") from None
    return state


def remove_state(folder: Path) -> None:
    """Removes the checkpoint, once the trained model is in place."""
    (folder / FILE_NAME).unlink(missing_ok=True)
