"""Files that are whole or not there, and the folder of those that can be made again."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path, PurePosixPath, PureWindowsPath

from gauntlet.errors import GauntletError


def cache_folder() -> Path:
    """Where what can be computed again is kept: $GAUNTLET_CACHE, else a folder in the user's cache."""
    folder = os.environ.get("GAUNTLET_CACHE")
    return Path(folder) if folder else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gauntlet"


def name_inside(image_id: str) -> PurePosixPath:
    """The id of an image as a path that stays in the folder it is put into; an error for one that leaves it.

    >>> str(name_inside("val/a.png"))
    'val/a.png'
    """
    path = PurePosixPath(image_id)
    windows = PureWindowsPath(image_id)
    leaves = path.is_absolute() or windows.drive or windows.root or ".." in (*path.parts, *windows.parts)
    if leaves or not path.name or "\0" in image_id:
        raise GauntletError(f"the image id '{image_id}' cannot be a file name inside a folder.")
    return path


def write_atomically(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Writes beside the file and renames, so that a reader sees the old or the new content, never a part of it.

    Args:
        path: of the file; missing folders are made.
        content: all of it.
        sync: wait until the disk has it, so that the file also survives a power cut.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            if sync:
                stream.flush()
                os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
