"""Where the weights of torchvision's networks come from: its publication, or a file of one's own; for both tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gauntlet.errors import GauntletError
from gauntlet.models.code_identity import code_of_packages
from gauntlet.models.contract import ModelIdentity
from gauntlet.models.sources.adapting import digested
from gauntlet.models.sources.contract import ModelSource, file_digest


@dataclass(frozen=True)
class PublishedWeights(ModelSource):
    """A network with weights that torchvision publishes."""

    network: str
    weights: Any
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        # The name of the file at the end of the address has a digest of its content in it.
        settings = digested(self.options) | {"network": self.network, "url": self.weights.url}
        code = code_of_packages("torchvision")
        return ModelIdentity(self.options.get("name") or self.network, file_digest([], settings), code=code)

    def state(self) -> dict[str, torch.Tensor]:
        """The published tensors, fetched where torch's cache does not have them."""
        try:
            # Tensors only: torch.hub would unpickle anything.
            state: dict[str, torch.Tensor] = self.weights.get_state_dict(
                progress=False, check_hash=True, weights_only=True
            )
        except (OSError, RuntimeError) as error:
            cache = Path(torch.hub.get_dir()) / "checkpoints"
            raise GauntletError(
                f"the weights of torchvision:{self.network} could not be fetched from {self.weights.url} ({error}); "
                f"fetch that file where there is network and give it as weights, or put it into {cache}."
            ) from None
        return state


@dataclass(frozen=True)
class OwnWeights(ModelSource):
    """A network with weights from a file."""

    network: str
    path: Path
    options: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        settings = digested(self.options) | {"network": self.network}
        name = self.options.get("name") or f"{self.network} {self.path.stem}"
        return ModelIdentity(name, file_digest([self.path], settings), code=code_of_packages("torchvision"))
