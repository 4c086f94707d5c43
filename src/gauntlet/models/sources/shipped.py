"""Models that come with the package: safetensors beside a card, under models/weights/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models import architectures
from gauntlet.models.contract import GauntletModel, ModelIdentity
from gauntlet.models.sources.contract import ModelSource, file_digest
from gauntlet.models.wrapping import Normalisation, WrappedSegmentation

WEIGHTS = Path(__file__).parent.parent / "weights"


@dataclass(frozen=True)
class ShippedModel(ModelSource):
    """A model of the package, by its name below models/weights/ ("streets/enet")."""

    name: str

    @property
    def card(self) -> dict[str, Any]:
        """What is known of the model: architecture, data, recipe, figures."""
        card: dict[str, Any] = json.loads((WEIGHTS / f"{self.name}.json").read_text())
        return card

    @property
    def weights(self) -> Path:
        return WEIGHTS / f"{self.name}.safetensors"

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(self.name, file_digest([self.weights], self.card["model"]))

    @property
    def task(self) -> str:
        return str(self.card["model"].get("task", "segmentation"))

    def load(self) -> GauntletModel:
        return load_weights(self.card["model"], self.weights, self.identity)


def load_weights(description: Mapping[str, Any], weights: Path, identity: ModelIdentity) -> GauntletModel:
    """A model from its description and a safetensors file.

    Args:
        description: architecture, options, num_classes, class_names, mean, std; "task" is "detection" for detectors,
            the others have ignore_index and stride.
        weights: a safetensors file; nothing is unpickled.
        identity: what the model is called.
    """
    from safetensors.torch import load_file

    detection = description.get("task") == "detection"
    build = architectures.build_detector if detection else architectures.build
    module = build(description["architecture"], description["num_classes"], **description.get("options", {}))
    try:
        module.load_state_dict(load_file(weights))
    except RuntimeError as error:
        raise GauntletError(
            f"the weights {weights} do not fit the architecture '{description['architecture']}': "
            f"{str(error).splitlines()[-1].strip()}"
        ) from None
    model: GauntletModel
    common = {"num_classes": description["num_classes"], "class_names": description["class_names"]}
    mean, std = description["mean"], description["std"]
    if isinstance(module, architectures.Detector):
        model = architectures.WrappedDetector(module, **common, mean=mean, std=std, identity=identity)
    else:
        model = WrappedSegmentation(
            module,
            **common,
            normalisation=Normalisation(mean, std),
            ignore_index=description["ignore_index"],
            stride=description.get("stride", 1),
            identity=identity,
        )
    model.freeze()
    return model


def names() -> list[str]:
    """Names of all shipped models."""
    return sorted(str(path.relative_to(WEIGHTS).with_suffix("")) for path in WEIGHTS.rglob("*.safetensors"))


def find(name: str) -> ShippedModel:
    """The shipped model of a name; an error with suggestions for an unknown one."""
    if name not in names():
        raise unknown_name("model", name, names())
    return ShippedModel(name)
