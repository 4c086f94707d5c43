"""Published CamVid networks of this repository's architectures, with the weights that their authors give away.

The weights stay where the user has them: `load_model("camvid/enet", weights="enet_camvid.pth")`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauntlet.camvid_classes import CLASS_NAMES
from gauntlet.models import architectures
from gauntlet.models.code_identity import OWN_CODE
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.models.sources.adapting import check_options
from gauntlet.models.sources.contract import ModelSource, file_digest
from gauntlet.models.sources.weights import read_state, weights_path
from gauntlet.models.wrapping import Normalisation, WrappedSegmentation


@dataclass(frozen=True)
class Published:
    """How a published network was trained: what its file holds and what it takes.

    All have the label order of the 11-class release; void comes twelfth where it has a logit.

    Attributes:
        architecture: name of our network.
        logits: outputs in the file; a twelfth is void and is dropped.
        mean, std: on the [0, 1] scale, in `channel_order`.
        channel_order: "RGB" or "BGR".
        origin: where the weights are from.
    """

    architecture: str
    logits: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    channel_order: str
    origin: str


def _levels(*values: float) -> tuple[float, float, float]:
    """Grey levels 0..255 on the [0, 1] scale."""
    red, green, blue = (value / 255 for value in values)
    return red, green, blue


PUBLISHED: Mapping[str, Published] = {
    "camvid/enet": Published("enet", 12, (0.0,) * 3, (1.0,) * 3, "RGB", "davidtvs/PyTorch-ENet"),
    # Only the mean is subtracted, from grey levels.
    "camvid/cgnet": Published(
        "cgnet", 11, _levels(105.65775, 103.329834, 99.625404), _levels(1, 1, 1), "RGB", "wutianyiRosun/CGNet"
    ),
    # (levels - mean) / std / 255, blue first: the division by 255 comes last, so the deviation stays in grey levels.
    "camvid/espnet": Published(
        "espnet",
        12,
        _levels(110.33102643, 108.40886315, 105.03319369),
        (72.12571015, 72.69074534, 69.90434816),
        "BGR",
        "sacmehta/ESPNet",
    ),
}


@dataclass(frozen=True)
class CamVidModel(ModelSource):
    """A published network and the file with its weights."""

    name: str
    weights: Path
    trust: bool = False

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(self.name, file_digest([self.weights], {"published": self.name}), code=OWN_CODE)

    def load(self) -> GauntletModel:
        facts = PUBLISHED[self.name]
        options = architectures.architectures[facts.architecture].published_options
        network = architectures.build(facts.architecture, facts.logits, **options)
        architectures.load_published(network, read_state(self.weights, trust=self.trust))
        model = WrappedSegmentation(
            network,
            num_classes=len(CLASS_NAMES),
            normalisation=Normalisation(facts.mean, facts.std, facts.channel_order),
            class_names=CLASS_NAMES,
            stride=network.stride,
            identity=self.identity,
        )
        model.freeze()
        return model


def names() -> list[str]:
    """Names of the published networks."""
    return list(PUBLISHED)


def find(name: str, options: Mapping[str, Any]) -> CamVidModel:
    """The source of a published network; needs the option `weights`, takes `trust`."""
    check_options(name, options, ("weights", "trust"))
    where = f"{name} ({PUBLISHED[name].origin} publishes them)"
    return CamVidModel(name, weights_path(where, options.get("weights")), bool(options.get("trust")))
