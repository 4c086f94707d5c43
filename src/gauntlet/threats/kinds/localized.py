"""A threat that acts in a part of the image only: {"localized": {"corruption": {...}, "ratio": 0.5, "patch": 64}}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, model_validator

from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel
from gauntlet.numbers import parse_fraction
from gauntlet.samples import Batch
from gauntlet.seeding import ImageSeed
from gauntlet.threats.contract import Perturbed, Threat, threats
from gauntlet.threats.kinds.corruption import CorruptionThreat, parse_options
from gauntlet.threats.masks import canonical_mask, canonical_size, parse_mask
from gauntlet.threats.options import MODE, PATCH, RATIO, Option, options_of
from gauntlet.threats.passes import Passes

GRID = ("ratio", "patch", "mode")


class LocalizedOptions(BaseModel):
    """What is localized, and where.

    Attributes:
        corruption: the options of the corruption.
        ratio: share of the patches of a grid, in [0, 1].
        patch: size of a patch in pixels, {"height": 32, "width": 64}, or a word such as "quarter".
        mode: "bernoulli" or "exact".
        region: another mask of `gauntlet.threats.masks` instead of the grid's ratio, patch and mode.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    corruption: dict[str, Any]
    ratio: Annotated[float | str, RATIO] = 0.5
    patch: Annotated[int | str | tuple[int, int] | dict[str, int], PATCH] = 64
    mode: Annotated[str, MODE] = "bernoulli"
    region: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_place(self) -> LocalizedOptions:
        if self.region is not None and self.model_fields_set.intersection(GRID):
            raise GauntletError("a localized threat takes either a region or ratio, patch and mode, not both.")
        return self

    def place(self) -> dict[str, Any]:
        """The options that say where, in canonical form."""
        if self.region is not None:
            return {"region": canonical_mask(self.region)}
        ratio = parse_fraction(self.ratio, "ratio")
        return {"ratio": ratio, "patch": canonical_size(self.patch, "patch"), "mode": self.mode}


@threats.register("localized")
class LocalizedThreat(Threat):
    """x_M = c(x) M + x (1 - M): a threat to the whole image of which only the part inside a mask is kept.

    The mask of an image depends on the run seed and the image only: every threat and every severity meets the same one
    (docs/specs/corruptions.md, section 6).
    """

    needs_model = False

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = parse_options("localized", LocalizedOptions, options)
        self.inner = CorruptionThreat(self.options.corruption)
        self._build_mask = parse_mask(self._mask())

    def uses(self) -> str:
        return self.inner.uses()

    @property
    def name(self) -> str:
        """Such as "fog 3 ratio 0.5 patch 64"."""
        place = self.options.place()
        words = " ".join(f"{key} {value}" for key, value in place.get("region", place).items() if value != "bernoulli")
        return f"{self.inner.name} " + "".join(letter for letter in words if letter not in "{}[]'\":,")

    @property
    def needs_depth(self) -> bool:
        return self.inner.needs_depth

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        return options_of(LocalizedOptions)

    def passes(self, task: str = "segmentation") -> Passes:
        return Passes(forward=2)  # the figures inside and outside of the region are compared with the clean ones

    def describe(self) -> dict[str, Any]:
        return {"localized": {**self.inner.describe(), **self.options.place()}}

    def region(self, batch: Batch, seeds: Sequence[ImageSeed]) -> torch.Tensor:
        """The masks of a batch, bool (N, H, W), on the CPU."""
        height, width = batch.images.shape[-2:]
        return torch.from_numpy(np.stack([self._build_mask(height, width, seed.stream("mask")) for seed in seeds]))

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        region = self.region(batch, seeds).to(batch.images.device)
        inside = self.inner.perturb(model, batch, seeds)
        return Perturbed(torch.where(region[:, None], inside.images, batch.images), region=region)

    def _mask(self) -> dict[str, Any]:
        place = self.options.place()
        mask: dict[str, Any] = place.get("region", {"patches": place})
        return mask
