"""Models that `gauntlet train` wrote: a safetensors file, and a card that says which network it fills."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gauntlet.errors import GauntletError, first_line
from gauntlet.models import architectures
from gauntlet.models.code_identity import OWN_CODE, code_of_target
from gauntlet.models.contract import GauntletModel, LabelSpace, ModelIdentity
from gauntlet.models.sources.contract import ModelSource, file_digest
from gauntlet.models.wrapping import Normalisation, WrappedSegmentation
from gauntlet.own_code import PREFIX


class CardAndWeights(ModelSource):
    """A model whose card describes it under "model"."""

    @property
    @abstractmethod
    def called(self) -> str:
        """What results are stored under."""

    @property
    @abstractmethod
    def card_file(self) -> Path: ...

    @property
    @abstractmethod
    def weights(self) -> Path:
        """The safetensors file."""

    @property
    def card(self) -> dict[str, Any]:
        """What is known of the model: architecture, data, recipe, figures."""
        try:
            card: dict[str, Any] = json.loads(self.card_file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise GauntletError(f"the card {self.card_file} cannot be read: {error}.") from None
        described = card.get("model") if isinstance(card, dict) else None
        if not isinstance(described, dict) or not isinstance(described.get("architecture"), str) or "name" not in card:
            raise GauntletError(f"the card {self.card_file} describes no model; train it again, or get the whole card.")
        return card

    @property
    def identity(self) -> ModelIdentity:
        card = self.card
        architecture, folder = card["model"]["architecture"], card.get("code", "")
        own = architecture.startswith(PREFIX)
        code = code_of_target(architecture.removeprefix(PREFIX), [folder] if folder else []) if own else OWN_CODE
        return ModelIdentity(self.called, file_digest([self.weights], card["model"]), code=code)

    @property
    def task(self) -> str:
        return str(self.card["model"].get("task", "segmentation"))

    @property
    def label_space(self) -> LabelSpace | None:
        described = self.card["model"]
        names = described.get("class_names")
        return LabelSpace(tuple(names), described.get("ignore_index")) if isinstance(names, list) else None

    def load(self) -> GauntletModel:
        card = self.card
        try:
            return load_weights(card["model"], self.weights, self.identity, card.get("code", ""))
        except GauntletError:
            raise
        # The card is a file like any other: whatever stands in it goes into layers, which fail in many ways.
        except Exception as error:
            what = f"{type(error).__name__}: {first_line(error)}"
            raise GauntletError(f"no model can be made of the card {self.card_file}: {what}") from error


def load_weights(
    description: Mapping[str, Any], weights: Path, identity: ModelIdentity, code: str = ""
) -> GauntletModel:
    """A model from its description and a safetensors file.

    Args:
        description: architecture, options, num_classes, class_names, mean, std; "task" is "detection" for detectors,
            the others have ignore_index and stride.
        weights: a safetensors file; nothing is unpickled.
        identity: what the model is called.
        code: the folder of the user's module where the architecture is one of the user's own.
    """
    from safetensors.torch import load_file

    name, classes = description["architecture"], description["num_classes"]
    options = description.get("options", {})
    if description.get("task") == "detection":
        module: Any = architectures.build_detector(name, classes, **options)
    else:
        module = architectures.build_network(name, classes, options, [code] if code else [])
    try:
        module.load_state_dict(load_file(weights))
    except RuntimeError as error:
        raise GauntletError(
            f"the weights {weights} do not fit the architecture '{name}': {str(error).splitlines()[-1].strip()}"
        ) from None
    model: GauntletModel
    common = {"num_classes": classes, "class_names": description["class_names"]}
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
