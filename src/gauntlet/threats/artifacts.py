"""Artifacts: what was fitted on data and is used by a threat, as a file with a digest that is part of the key.

A file is safetensors (no pickle): tensors, and facts about them as JSON. Whoever reads or writes one keeps a copy under
its digest, so that a stored evaluation, which knows the digest only, finds it again wherever the file went.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from gauntlet.errors import GauntletError, first_line
from gauntlet.files import cache_folder, write_atomically

_LOGGER = logging.getLogger(__name__)
ENDING = ".safetensors"
_DIGITS = 16


@dataclass(frozen=True)
class Artifact:
    """Something fitted.

    Attributes:
        kind: what it is: "universal", "patch".
        tensors: by name, on the CPU.
        facts: JSON-able: how it was fitted, on which images, for which model.
    """

    kind: str
    tensors: Mapping[str, torch.Tensor]
    facts: Mapping[str, Any]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the kind, the facts, and names, types, shapes and bytes of the tensors; first 16 hex digits."""
        digest = hashlib.sha256(f"{self.kind}|{_canonical(self.facts)}|".encode())
        for name, value in sorted(self.tensors.items()):
            digest.update(f"{name}|{value.dtype}|{tuple(value.shape)}|".encode())
            digest.update(value.contiguous().numpy().tobytes())
        return digest.hexdigest()[:_DIGITS]

    def save(self, path: str | Path) -> Path:
        """Writes the file, all or nothing, and keeps a copy; its path, with the ending .safetensors."""
        path = Path(path).expanduser()
        if path.suffix != ENDING:
            path = path.with_name(path.name + ENDING)
        try:
            write_atomically(path, self._content())
        except OSError as error:
            raise GauntletError(f"{path} cannot be written: {first_line(error)}; choose another file.") from None
        self.keep()
        return path

    def keep(self) -> None:
        """A copy under the digest; without a writable cache nothing is kept."""
        copy = _copy_of(self.digest)
        if copy.exists():
            return
        try:
            write_atomically(copy, self._content())
        except OSError as error:
            _LOGGER.info("no copy of an artifact can be kept in %s: %s", copy.parent, error)

    def address(self, reference: str | Path | Artifact) -> str:
        """Where another process finds it: the file that a reference names, else the copy under its digest."""
        if isinstance(reference, Artifact) or not Path(reference).expanduser().is_file():
            return self.digest
        return str(Path(reference).expanduser().resolve())

    def _content(self) -> bytes:
        tensors = {name: value.contiguous() for name, value in self.tensors.items()}
        about = {"artifact": self.kind, "digest": self.digest, "facts": _canonical(self.facts)}
        return bytes(save(tensors, about))


def load_artifact(reference: str | Path | Artifact, kind: str) -> Artifact:
    """An artifact by the path of its file, or by its digest where a copy was kept; an error where it is another kind.

    Args:
        reference: a path, 16 hex digits, or the artifact itself.
        kind: what is wanted: "universal", "patch".
    """
    artifact = reference if isinstance(reference, Artifact) else _read(_find(str(reference), kind))
    if artifact.kind != kind:
        raise GauntletError(f"{reference} is a fitted '{artifact.kind}', not a '{kind}'; give it to that threat.")
    artifact.keep()
    return artifact


def _find(reference: str, kind: str) -> Path:
    path = Path(reference).expanduser()
    if path.is_file():
        return path
    if re.fullmatch(f"[0-9a-f]{{{_DIGITS}}}", reference):
        if _copy_of(reference).is_file():
            return _copy_of(reference)
        raise GauntletError(f"no copy of the artifact {reference} was kept on this machine; give the path of its file.")
    raise GauntletError(f"there is no file {reference}; 'gauntlet {kind} fit' writes one.")


def _read(path: Path) -> Artifact:
    try:
        with safe_open(path, framework="pt") as stored:
            about = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - no mapping
        facts = json.loads(about["facts"])
        artifact = Artifact(about["artifact"], tensors, facts)
    except (OSError, SafetensorError, KeyError, ValueError):
        raise GauntletError(
            f"{path} is no artifact of Gauntlet's, or damaged; 'gauntlet universal fit' and 'gauntlet patch fit' "
            "write them."
        ) from None
    if artifact.digest != about.get("digest"):
        raise GauntletError(f"the content of {path} does not fit its own digest; it was changed or damaged.")
    return artifact


def _canonical(facts: Mapping[str, Any]) -> str:
    return json.dumps(facts, sort_keys=True)


def _copy_of(digest: str) -> Path:
    return cache_folder() / "artifacts" / f"{digest}{ENDING}"
