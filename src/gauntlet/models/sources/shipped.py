"""Models that come with the package: safetensors beside a card, under models/weights/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gauntlet.errors import unknown_name
from gauntlet.models.sources.card_and_weights import CardAndWeights

WEIGHTS = Path(__file__).parent.parent / "weights"


@dataclass(frozen=True)
class ShippedModel(CardAndWeights):
    """A model of the package, by its name below models/weights/ ("streets/enet")."""

    name: str

    @property
    def called(self) -> str:
        return self.name

    @property
    def card_file(self) -> Path:
        return WEIGHTS / f"{self.name}.json"

    @property
    def weights(self) -> Path:
        return WEIGHTS / f"{self.name}.safetensors"

    @property
    def architecture(self) -> str:
        """The family whose weights it has, such as "enet"."""
        return str(self.card["model"]["architecture"])

    @property
    def network(self) -> tuple[str, int]:
        """Its family and number of parameters, which tell the shipped networks apart from trainings of one of them."""
        return self.architecture, int(self.card["model"]["parameters"])


def names(dataset: str = "*") -> list[str]:
    """Names of the shipped models, all or those of one dataset ("streets")."""
    return sorted(str(path.relative_to(WEIGHTS).with_suffix("")) for path in WEIGHTS.glob(f"{dataset}/*.safetensors"))


def find(name: str) -> ShippedModel:
    """The shipped model of a name; an error with suggestions for an unknown one."""
    if name not in names():
        raise unknown_name("model", name, names())
    return ShippedModel(name)
