"""What a model source must be: it knows which model it stands for without loading it, where it can."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.registry import Registry
from gauntlet.tasks import SEGMENTATION


class ModelSource(ABC):
    """A model that may not be loaded yet."""

    @property
    @abstractmethod
    def identity(self) -> ModelIdentity:
        """Name and digest; cheap where the weights are a file."""

    @property
    def task(self) -> str:
        """Either "segmentation" or "detection", without loading anything; a source of detectors says so."""
        return SEGMENTATION

    @abstractmethod
    def load(self) -> GauntletModel:
        """The model: frozen, in eval mode, on the CPU."""


SourceFactory = Callable[[str, Mapping[str, Any]], ModelSource]

sources: Registry[SourceFactory] = Registry("model source", "gauntlet.models")
"""Sources by prefix; an entry takes what stands behind the colon and the options, and returns a ModelSource."""


def file_digest(paths: list[Path], options: Mapping[str, Any]) -> str:
    """SHA-256 over the bytes of files and over options, first 16 hex digits."""
    digest = hashlib.sha256(json.dumps(dict(options), sort_keys=True, default=str).encode())
    try:
        for path in paths:
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    except OSError as error:
        raise GauntletError(f"the model file {error.filename} cannot be read: {error.strerror}.") from None
    return digest.hexdigest()[:16]
