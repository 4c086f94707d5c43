"""Models that the user trained with `gauntlet train`: by their folder, or by the name of their recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError
from gauntlet.files import cache_folder, write_atomically
from gauntlet.models.contract import GauntletModel
from gauntlet.models.sources.adapting import check_options
from gauntlet.models.sources.card_and_weights import CardAndWeights
from gauntlet.own_code import refusing_code

CARD_FILE, WEIGHTS_FILE = "card.json", "model.safetensors"
"""What makes a folder a trained model."""
OPTIONS = ("name", "trust")
"""The card says everything else, and nothing of it is unpickled; trust lets a network of one's own be imported."""


@dataclass(frozen=True)
class TrainedModel(CardAndWeights):
    """A folder that `gauntlet train` wrote.

    Attributes:
        folder: with the card and the weights.
        name: what results are stored under; the name of the recipe by default.
        trust: whether the network may be code that the card names; it may where this user trained it.
    """

    folder: Path
    name: str | None = None
    trust: bool = False

    @property
    def called(self) -> str:
        return self.name or str(self.card["name"])

    @property
    def origin(self) -> Mapping[str, Any]:
        return {"address": str(self.folder), "options": {"name": self.name} if self.name else {}}

    def load(self) -> GauntletModel:
        own = self.trust or str(self.folder.resolve()) in _registered().values()
        why = f"the card of {self.folder}, which was not trained here, names it: pass trust=True (--trust) to trust it."
        with refusing_code("" if own else why):
            return super().load()

    @property
    def card_file(self) -> Path:
        return self.folder / CARD_FILE

    @property
    def weights(self) -> Path:
        return self.folder / WEIGHTS_FILE


def find(address: str, options: Mapping[str, Any]) -> TrainedModel | None:
    """The model in a trained folder, or the one last trained under a name; None where the address is neither."""
    folder = Path(address).expanduser()
    if not is_trained(folder):
        if address not in names():
            return None
        folder = Path(_registered()[address])
    check_options(address, options, OPTIONS)
    return TrainedModel(folder, options.get("name"), bool(options.get("trust")))


def is_trained(folder: Path) -> bool:
    """Whether a folder holds a finished training; one that is not finished is an error."""
    try:
        if (folder / CARD_FILE).is_file() and (folder / WEIGHTS_FILE).is_file():
            return True
        unfinished = (folder / "checkpoint.pt").is_file()
    except OSError:  # a name that is too long for one
        return False
    if unfinished:
        raise GauntletError(f"the training in {folder} is not finished; run 'gauntlet train' again to go on.")
    return False


def names() -> list[str]:
    """The names of this user's trained models whose folders are still there."""
    return sorted(name for name, folder in _registered().items() if (Path(folder) / CARD_FILE).is_file())


def register(name: str, folder: Path) -> None:
    """Makes a name stand for a folder, on this machine and for this user; a later training takes the name over."""
    try:
        known = {**_registered(), name: str(folder.resolve())}
        write_atomically(_registry_file(), json.dumps(known, indent=1).encode())
    except (OSError, RuntimeError):  # no home, or none that can be written: the folder is an address all the same
        return


def _registered() -> dict[str, str]:
    try:
        content = json.loads(_registry_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError):
        return {}
    return {str(name): str(folder) for name, folder in content.items()} if isinstance(content, dict) else {}


def _registry_file() -> Path:
    return cache_folder() / "trained-models.json"
