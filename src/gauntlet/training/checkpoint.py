"""The resumable state of a training: written whole or not at all, read without unpickling code."""

from __future__ import annotations

import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import torch

from gauntlet.errors import GauntletError

FILE_NAME = "checkpoint.pt"


def write_atomically(path: Path, content: bytes) -> None:
    """Puts a file in place so that a reader, or the next start after a crash, sees the old or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Writes tensors, numbers, texts and containers of them to the folder's checkpoint."""
    import io

    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(folder / FILE_NAME, buffer.getvalue())


def load_state(folder: Path) -> dict[str, Any] | None:
    """The state in the folder's checkpoint, or None when there is none."""
    path = folder / FILE_NAME
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError):
        raise GauntletError(f"'{path}' is not a readable checkpoint; remove it to start the training anew.") from None
    return state


def remove_state(folder: Path) -> None:
    """Removes the checkpoint, once the trained model is in place."""
    (folder / FILE_NAME).unlink(missing_ok=True)
