"""Images that were expensive to make, kept on disk for whoever needs them again.

An entry is found by a key of everything it depends on, so it is never wrong, only absent. The oldest entries go when
the folder grows over its limit.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.files import cache_folder, write_atomically

_LOGGER = logging.getLogger(__name__)

LIMIT = 8 << 30
"""Bytes that are kept."""
_LOOK_EVERY = 64
"""Entries that a process writes between two looks at the size of the folder."""


@dataclass(frozen=True)
class MadeImage:
    """A perturbed image and what is known of how it was made.

    Attributes:
        image: float32 (3, H, W) in [0, 1]; not 8 bits, which would lose changes below a grey level.
        details: JSON-able facts.
    """

    image: npt.NDArray[np.float32]
    details: Mapping[str, Any]


@dataclass
class ImageCache:
    """Made images in a folder.

    Attributes:
        name: of the folder inside `files.cache_folder()`.
        limit: bytes after which the oldest are removed.
    """

    name: str
    limit: int = LIMIT
    _written: int = field(default=0, init=False)

    @property
    def folder(self) -> Path:
        """Where the entries are; $GAUNTLET_CACHE may change while a process runs."""
        return cache_folder() / self.name

    def read(self, key: str) -> MadeImage | None:
        """An entry; None where there is none, or one that cannot be read."""
        try:
            with np.load(self._path(key), allow_pickle=False) as content:
                return MadeImage(content["image"], json.loads(str(content["details"])))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None

    def write(self, key: str, made: MadeImage) -> None:
        """Adds an entry, all or nothing; without a writable folder nothing is kept."""
        buffer = io.BytesIO()
        np.savez(buffer, image=made.image, details=np.array(json.dumps(dict(made.details))))
        try:
            write_atomically(self._path(key), buffer.getvalue())
        except OSError as error:
            _LOGGER.info("an image cannot be kept in %s: %s", self.folder, error)
            return
        if self._written % _LOOK_EVERY == 0:
            self._remove_oldest()
        self._written += 1

    @contextmanager
    def making(self, key: str) -> Iterator[None]:
        """While one process makes what belongs to a key, others that want the same wait; a dead one holds up nobody."""
        lock = self._lock(key)
        try:
            yield
        finally:
            if lock is not None:
                os.close(lock)

    def _lock(self, key: str) -> int | None:
        """An open file that is locked until it is closed; None where files cannot be locked."""
        try:
            import fcntl

            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / f"{key[:2]}.lock", os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except (ImportError, OSError):  # Windows, or a folder that nothing can be written to
            return None
        return handle

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.npz"

    def _remove_oldest(self) -> None:
        entries = []
        for path in self.folder.glob("*/*.npz"):
            try:
                facts = path.stat()
            except OSError:  # removed by another process meanwhile
                continue
            entries.append((facts.st_mtime, facts.st_size, path))
        too_much = sum(size for _, size, _ in entries) - self.limit
        for _, size, path in sorted(entries):
            if too_much <= 0:
                return
            try:
                path.unlink(missing_ok=True)
            except OSError:  # somebody reads it, on a system where that holds a file
                continue
            too_much -= size


def content_key(*parts: Any) -> str:
    """SHA-256 over arrays (type, shape, bytes) and JSON-able values."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype}|{part.shape}|".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(json.dumps(part, sort_keys=True).encode())
        digest.update(b"|")
    return digest.hexdigest()
