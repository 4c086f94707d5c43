"""A model that is loaded, prepared and asked for its probe once for all jobs of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gauntlet.models.contract import GauntletModel, LabelSpace, ModelIdentity
from gauntlet.models.probe import Probe
from gauntlet.models.sources.contract import ModelSource, coded_identity


class LoadedOnce(ModelSource):
    """A source that keeps what it loaded."""

    def __init__(self, source: GauntletModel | ModelSource) -> None:
        self.source = source
        self.prepared: tuple[tuple[str, ...], GauntletModel] | None = None
        self.probe: Probe | None = None
        self._model: GauntletModel | None = None

    @property
    def identity(self) -> ModelIdentity:
        return coded_identity(self.source)

    @property
    def in_memory(self) -> bool:
        return not isinstance(self.source, ModelSource) or self.source.in_memory

    @property
    def task(self) -> str:
        return self.source.task

    @property
    def origin(self) -> Mapping[str, Any] | None:
        return self.source.origin

    @property
    def label_space(self) -> LabelSpace | None:
        return self.source.label_space

    def check_size(self, height: int, width: int) -> None:
        self.source.check_size(height, width)

    def load(self) -> GauntletModel:
        if self._model is None:
            self._model = self.source.load() if isinstance(self.source, ModelSource) else self.source
        return self._model
