"""Models that are trained in this repository: a card in the package, and weights that may lie elsewhere.

The package has the weights that its own licence covers. The others stay in the folder `weights/` of the repository,
whose clone or copy in the user's cache (`gauntlet fetch-weights`) is found here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.files import cache_folder, write_atomically
from gauntlet.models.sources.card_and_weights import CardAndWeights
from gauntlet.models.sources.contract import file_digest

CARDS = Path(__file__).parent.parent / "weights"
"""Cards of all models and weights of those that may be packaged, by dataset."""
SOURCES = Path(__file__).parents[3]
CLONE = SOURCES.parent / "weights"
"""Weights that are not packaged, where the package runs from a clone of the repository."""
PACKAGED = ("streets/",)
"""Names of the models whose weights the package's licence covers begin so."""


@dataclass(frozen=True)
class ShippedModel(CardAndWeights):
    """Model whose card is in the package. Its name is the path below models/weights/, such as "streets/enet"."""

    name: str

    @property
    def called(self) -> str:
        return self.name

    @property
    def origin(self) -> Mapping[str, Any]:
        return {"address": self.name, "options": {}}

    @property
    def card_file(self) -> Path:
        return CARDS / f"{self.name}.json"

    @property
    def weights(self) -> Path:
        for folder in weight_folders():
            path = folder / f"{self.name}.safetensors"
            if path.is_file():
                return path
        raise GauntletError(
            f"the weights of '{self.name}' are not in the package ({self.licence('weights')}); run "
            "'gauntlet fetch-weights FOLDER' with the folder of a clone of the repository."
        )

    @property
    def has_weights(self) -> bool:
        """True if the weights are on this machine."""
        return any((folder / f"{self.name}.safetensors").is_file() for folder in weight_folders())

    @property
    def data(self) -> str:
        """Name of the data it was trained on."""
        return str(self.card["data"]["training"]["name"])

    def licence(self, of: str) -> str:
        """Licence of the "weights" or of the "data" they were trained on."""
        return str(self.card["licence"][of])

    @property
    def architecture(self) -> str:
        """The family whose weights it has, such as "enet"."""
        return str(self.card["model"]["architecture"])

    @property
    def network(self) -> tuple[str, int]:
        """Its family and number of parameters, which tell the shipped networks apart from trainings of one of them."""
        return self.architecture, int(self.card["model"]["parameters"])


def weight_folders() -> list[Path]:
    """Folders that may hold weights: the package, the clone that it runs from, the user's cache."""
    clone = [CLONE] if SOURCES.name == "src" else []
    return [CARDS, *clone, cache_folder() / "weights"]


def names(dataset: str = "*") -> list[str]:
    """Names of the models with a card in the package, all or those of one dataset ("streets")."""
    return sorted(path.relative_to(CARDS).with_suffix("").as_posix() for path in CARDS.glob(f"{dataset}/*.json"))


def find(name: str) -> ShippedModel:
    """The shipped model of a name; an error with suggestions for an unknown one."""
    if name not in names():
        raise unknown_name("model", name, names())
    return ShippedModel(name)


def fetch(folder: Path) -> list[ShippedModel]:
    """Copy the weights that are not packaged from a clone of the repository into the user's cache.

    Args:
        folder: of the clone, or its folder `weights`.

    Returns:
        The models whose weights were copied.
    """
    wanted = [find(name) for name in names() if not name.startswith(PACKAGED)]
    base = folder / "weights" if (folder / "weights").is_dir() else folder
    found = [model for model in wanted if (base / f"{model.name}.safetensors").is_file()]
    if not found:
        raise GauntletError(
            f"no weights in '{folder}': expected {wanted[0].name}.safetensors in its folder 'weights'; give the folder "
            "of a clone of the repository."
        )
    for model in found:
        file, card = base / f"{model.name}.safetensors", model.card
        if file_digest([file], card["model"]) != card["digest"]:
            raise GauntletError(f"the weights {file} are not those of the card of '{model.name}'; get the whole file.")
        write_atomically(cache_folder() / "weights" / f"{model.name}.safetensors", file.read_bytes())
    return found
