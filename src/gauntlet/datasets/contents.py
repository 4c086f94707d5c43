"""The contents of data as digests: of files, of decoded samples, and of what labels mean."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.files import cache_folder
from gauntlet.samples import Boxes, Sample

LENGTH = 16
"""Hex digits of a digest."""
TRUSTED = "trusted"
"""The contents of a dataset whose files nobody read."""

Told = Callable[[int, int], None]
"""Takes how many files are read, and how many there are."""

_SEEN: dict[str, tuple[str, str]] = {}
# State and digest of the files that this process has asked for.
_SETTLED = 2.0  # seconds after its last change from which a file's times tell the next change
_CHUNK = 1 << 20
_TABLE = "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, state TEXT NOT NULL, digest TEXT NOT NULL)"


@dataclass(frozen=True)
class Contents:
    """What the images and the ground truth of a dataset are.

    Attributes:
        images: a digest per image, in order, of its pixels and its ground truth; "" where they are trusted.
        meaning: digest of the class names, their colours and the label of void.
        trusted: True where nobody read the files.
    """

    images: tuple[str, ...]
    meaning: str
    trusted: bool = False

    @property
    def digest(self) -> str:
        """All of it in one text."""
        return TRUSTED if self.trusted else text_digest(self.images, self.meaning)


def text_digest(*parts: Any) -> str:
    """Digest of JSON-able values."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def sample_digest(sample: Sample) -> str:
    """Digest of the decoded image, labels, boxes and depth of a sample."""
    digest = hashlib.sha256()
    for name, values in (("image", sample.image), ("labels", sample.labels), ("depth", sample.depth)):
        if values is not None:
            _add_array(digest, name, values.astype(np.int64) if name == "labels" else values)
    if sample.boxes is not None:
        digest.update(boxes_digest(sample.boxes).encode())
    return digest.hexdigest()[:LENGTH]


def boxes_digest(boxes: Boxes) -> str:
    """Digest of the objects of one image."""
    digest = hashlib.sha256()
    for name in ("xyxy", "classes", "scores", "crowd", "difficult", "area"):
        values = getattr(boxes, name)
        if values is not None:
            _add_array(digest, name, values)
    if boxes.pixel_area != 1:
        digest.update(f"pixel_area|{boxes.pixel_area!r}|".encode())
    return digest.hexdigest()[:LENGTH]


def _add_array(digest: Any, name: str, values: npt.NDArray[Any]) -> None:
    digest.update(f"{name}|{values.dtype.str}|{values.shape}|".encode())
    digest.update(np.ascontiguousarray(values).data)


def file_digests(paths: Sequence[Path], told: Told | None = None) -> list[str]:
    """Digest of the bytes of every file; files that have not changed since they were read are not read again.

    What was read is kept in the user's cache folder by path, size, times of change and inode. Files are read in
    parallel.

    Args:
        paths: of the files.
        told: told how many files of those to be read have been read.
    """
    states = [_state(path) for path in paths]
    known = {str(path): _SEEN[str(path)] for path in paths if str(path) in _SEEN}
    known |= _Kept.read([str(path) for path in paths if str(path) not in known])
    found: dict[str, str] = {}
    missing: dict[str, Path] = {}
    for path, state in zip(paths, states, strict=True):
        kept = known.get(str(path))
        if kept is not None and kept[0] == state:
            found[str(path)] = kept[1]
            _SEEN[str(path)] = kept
        else:
            missing[str(path)] = path
    if missing:
        with ThreadPoolExecutor(min(8, (os.cpu_count() or 1) * 2)) as pool:
            for number, (name, digest) in enumerate(
                zip(missing, pool.map(_bytes_digest, missing.values()), strict=True)
            ):
                found[name] = digest
                if told is not None:
                    told(number + 1, len(missing))
        settled = time.time() - _SETTLED
        fresh = {str(path): state for path, state in zip(paths, states, strict=True) if str(path) in missing}
        kept_from_now = {
            name: (state, found[name]) for name, state in fresh.items() if _last_change(missing[name]) < settled
        }
        _SEEN.update(kept_from_now)
        _Kept.write((name, state, digest) for name, (state, digest) in kept_from_now.items())
    return [found[str(path)] for path in paths]


def _state(path: Path) -> str:
    """Size, times of change and inode of a file."""
    try:
        state = os.stat(path)
    except OSError as error:
        raise GauntletError(f"the file '{path}' cannot be read: {error.strerror}.") from None
    return f"{state.st_size}|{state.st_mtime_ns}|{state.st_ctime_ns}|{state.st_ino}|{state.st_dev}"


def _last_change(path: Path) -> float:
    state = os.stat(path)
    return max(state.st_mtime, state.st_ctime)


def _bytes_digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as stream:
            while block := stream.read(_CHUNK):
                digest.update(block)
    except OSError as error:
        raise GauntletError(f"the file '{path}' cannot be read: {error.strerror}.") from None
    return digest.hexdigest()[:LENGTH]


class _Kept:
    """Digests of files in the user's cache folder; a cache that cannot be used is no cache."""

    @staticmethod
    def read(paths: Sequence[str]) -> dict[str, tuple[str, str]]:
        known: dict[str, tuple[str, str]] = {}
        try:
            with closing(_Kept._open()) as connection:
                for start in range(0, len(paths), 500):
                    page = paths[start : start + 500]
                    marks = ",".join("?" * len(page))
                    query = f"SELECT path, state, digest FROM files WHERE path IN ({marks})"  # nosec B608 # only marks
                    known.update({row[0]: (row[1], row[2]) for row in connection.execute(query, page)})
        except (OSError, sqlite3.Error):
            return {}
        return known

    @staticmethod
    def write(rows: Iterable[tuple[str, str, str]]) -> None:
        try:
            with closing(_Kept._open()) as connection, connection:
                connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", rows)
        except (OSError, sqlite3.Error):
            return

    @staticmethod
    def _open() -> sqlite3.Connection:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(folder / "digests.sqlite", timeout=10)
        connection.execute(_TABLE)
        return connection


def meaning_digest(facts: Mapping[str, Any]) -> str:
    """Digest of what labels mean: class names, colours, void."""
    return text_digest({name: _plain(value) for name, value in facts.items()})


def _plain(value: Any) -> Any:
    """Numbers, texts and lists of them, whatever kind of sequence or number they are."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (Sequence, np.ndarray)):
        return [_plain(each) for each in value]
    return int(value)
