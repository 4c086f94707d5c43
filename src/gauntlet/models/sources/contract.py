"""What a model source must be: it knows which model it stands for without loading it, where it can."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.models.code_identity import code_of
from gauntlet.models.contract import GauntletModel, LabelSpace, ModelIdentity
from gauntlet.registry import Registry, callable_as
from gauntlet.tasks import SEGMENTATION


class ModelSource(ABC):
    """A model that may not be loaded yet."""

    @property
    @abstractmethod
    def identity(self) -> ModelIdentity:
        """Name and digests; cheap where the weights are a file. See `coded_identity` for one without `code`."""

    @property
    def origin(self) -> Mapping[str, Any] | None:
        """Address and options that give this source again, where it knows them itself."""
        return None

    @property
    def in_memory(self) -> bool:
        """True of a model that is an object already, which may have changed since it got its identity."""
        return False

    @property
    def task(self) -> str:
        """Either "segmentation" or "detection", without loading anything; a source of detectors says so."""
        return SEGMENTATION

    @property
    def needs_num_classes(self) -> bool:
        """Whether nobody said how many classes the model has; those of a dataset are assumed then."""
        return False

    @property
    def label_space(self) -> LabelSpace | None:
        """Its classes and the label of void; None where they are only known once it is loaded."""
        return None

    def check_size(self, height: int, width: int) -> None:  # noqa: B027 - most models take every size
        """An error where the model cannot take images of a size, told without loading it."""

    @abstractmethod
    def load(self) -> GauntletModel:
        """The model: frozen, in eval mode, on the CPU."""


def coded_identity(source: GauntletModel | ModelSource) -> ModelIdentity:
    """The identity of a model; a source that does not say its code is known by its own class and options."""
    identity = source.identity
    return identity if identity.code else replace(identity, code=code_of(source))


@dataclass(frozen=True)
class LoadedModel(ModelSource):
    """A model that a function has made already."""

    model: GauntletModel

    @property
    def identity(self) -> ModelIdentity:
        return self.model.identity

    @property
    def in_memory(self) -> bool:
        return True

    @property
    def task(self) -> str:
        return self.model.task

    @property
    def label_space(self) -> LabelSpace:
        return self.model.label_space

    def check_size(self, height: int, width: int) -> None:
        self.model.check_size(height, width)

    def load(self) -> GauntletModel:
        self.model.freeze()
        return self.model


@dataclass(frozen=True)
class DescribedModel(ModelSource):
    """A source whose user says more about the model than it does itself.

    Attributes:
        source: where the model comes from.
        facts: by name ("architecture", "backbone", "date", ...); what the model says itself stays for other names.
        address: `address` and `options` that give the source, where the user named it in another way.
    """

    source: ModelSource
    facts: Mapping[str, Any]
    address: Mapping[str, Any] | None = None

    @property
    def identity(self) -> ModelIdentity:
        return coded_identity(self.source)

    @property
    def in_memory(self) -> bool:
        return self.source.in_memory

    @property
    def origin(self) -> Mapping[str, Any] | None:
        return self.address or self.source.origin

    @property
    def task(self) -> str:
        return self.source.task

    @property
    def needs_num_classes(self) -> bool:
        return self.source.needs_num_classes

    @property
    def label_space(self) -> LabelSpace | None:
        return self.source.label_space

    def check_size(self, height: int, width: int) -> None:
        self.source.check_size(height, width)

    def load(self) -> GauntletModel:
        model = self.source.load()
        model.facts = {**(model.facts or {}), **self.facts} or None
        return model


SourceFactory = Callable[[str, Mapping[str, Any]], ModelSource | GauntletModel]

sources: Registry[SourceFactory] = Registry(
    "model source",
    "gauntlet.models",
    check=callable_as("a function that takes what stands behind the colon and the options, and returns a ModelSource"),
)
"""Sources by prefix. An entry takes what stands behind the colon and the options, and returns a ModelSource; one that
has nothing to put off may return the model itself."""


def make_source(prefix: str, rest: str, options: Mapping[str, Any]) -> ModelSource:
    """What a registered source makes of the rest of an address and of the options."""
    made = sources[prefix](rest, options)
    if isinstance(made, GauntletModel):
        return LoadedModel(made)
    if not isinstance(made, ModelSource):
        raise GauntletError(
            f"the model source '{prefix}' returned a {type(made).__name__}; expected a ModelSource or what wrap_model "
            "returns."
        )
    return made


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
