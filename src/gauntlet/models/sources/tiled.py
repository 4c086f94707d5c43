"""tiled: any other model in tiled inference, as in tiled:size=512x1024,overlap=1/3,mirror:hf:FOLDER."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.contract import GauntletModel, LabelSpace, ModelIdentity, SegmentationModel
from gauntlet.models.sources.contract import ModelSource, coded_identity
from gauntlet.models.tiling import TiledModel, tile_settings, tiled_identity

_EXAMPLE = "tiled:size=512x1024,overlap=1/3,mirror:ADDRESS"
_SETTINGS = ("size", "overlap", "mirror", "average")


@dataclass(frozen=True)
class TiledSource(ModelSource):
    """A model that is applied to windows, and how."""

    inner: ModelSource
    settings: Mapping[str, Any]

    @property
    def identity(self) -> ModelIdentity:
        return tiled_identity(coded_identity(self.inner), tile_settings(**self.settings))

    @property
    def needs_num_classes(self) -> bool:
        return self.inner.needs_num_classes

    @property
    def label_space(self) -> LabelSpace | None:
        return self.inner.label_space

    def load(self) -> GauntletModel:
        model = self.inner.load()
        if not isinstance(model, SegmentationModel):
            raise GauntletError(f"'{model.identity.name}' is not a segmentation model; only those come in tiles.")
        return TiledModel(model, **self.settings)


def source(rest: str, options: Mapping[str, Any]) -> ModelSource:
    """tiled:SETTINGS:ADDRESS, with the options of the model at the address."""
    # Not at the top: the function that finds every source finds this one too.
    from gauntlet.models.loading import resolve_model

    text, _, address = rest.partition(":")
    if not address:
        raise GauntletError(f"tiled:{rest} must name settings and a model, as in {_EXAMPLE}.")
    settings = _parse(text)
    tile_settings(**settings)
    return TiledSource(resolve_model(address, **options), settings)


def _parse(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in _SETTINGS:
            raise unknown_name("setting of tiled:", name, _SETTINGS)
        if name == "mirror":
            settings[name] = value.lower() in ("", "true", "yes", "1")
        elif name == "average":
            settings[name] = value
        else:
            settings[name] = value.split("x") if "x" in value else value
    if "size" not in settings:
        raise GauntletError(f"tiled: needs the size of a tile, as in {_EXAMPLE}.")
    size = settings["size"]
    try:
        settings["size"] = [int(side) for side in size] if isinstance(size, list) else int(size)
    except ValueError:
        raise GauntletError(f"the size of a tile must be HEIGHTxWIDTH in pixels, not '{text}'.") from None
    return settings
