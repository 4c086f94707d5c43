"""A fitted patch as a threat: {"patch": {"artifact": "patch.safetensors"}}.

docs/specs/beyond.md, 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field

from gauntlet.errors import GauntletError
from gauntlet.metrics.detection.metric import mostly_inside
from gauntlet.models.contract import GauntletModel
from gauntlet.samples import Batch, Sample
from gauntlet.seeding import ImageSeed, numpy_generator
from gauntlet.threats.artifacts import Artifact, load_artifact
from gauntlet.threats.contract import Perturbed, Threat, threats
from gauntlet.threats.fitted.fit_images import check_held_out
from gauntlet.threats.fitted.patch import KIND, laid_in
from gauntlet.threats.fitted.placing import Placement, paste
from gauntlet.threats.kinds.corruption import parse_options
from gauntlet.threats.options import Option, options_of
from gauntlet.threats.passes import Passes

FITTED, RANDOM, GREY, CROP = "fitted", "random", "grey", "crop"


class PatchOptions(BaseModel):
    """What is shown, and where.

    Attributes:
        artifact: the file that `gauntlet patch fit` wrote; in stored descriptions its digest.
        content: "fitted"; the controls, in the same places: "random" (uniform pixels), "grey" (0.5), "crop" (a piece
            of an image of the fit set).
        draw: which random pixels.
        place: "image", "facade", "billboard" or "surface" instead of the place that it was fitted for.
        eot: whether place and light are drawn for each image; otherwise the middle of every range.
        fit_images: whether images that it was fitted on are allowed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    artifact: Annotated[str | Path | Artifact, Option("always", swept=True)]
    content: Annotated[Literal["fitted", "random", "grey", "crop"], Option(swept=True)] = "fitted"
    draw: Annotated[int, Option(swept=True), Field(ge=0)] = 0
    place: Annotated[str | None, Option(swept=True)] = None
    eot: Annotated[bool, Option()] = True
    fit_images: Annotated[bool, Option()] = False


@threats.register(KIND)
class PatchThreat(Threat):
    """One patch in every image; figures inside and outside of it are reported, those outside (`_Mbar`) are its effect.

    Where it lies depends on the image, the seed of the run and its ranges, not on what it shows: controls lie in the
    same places. Its key holds the digest of the artifact.
    """

    needs_model = False

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = parse_options(KIND, PatchOptions, options)
        self.artifact = load_artifact(self.options.artifact, KIND)
        placement = Placement.of(dict(self.artifact.facts["placement"]))
        self._elsewhere = None if self.options.place == placement.place else self.options.place
        if self._elsewhere is not None:
            placement = replace(placement, place=self._elsewhere)
        self.placement = placement if self.options.eot else placement.fixed()
        if self.options.draw and self.options.content != RANDOM:
            raise GauntletError("draw is the number of a random patch; leave it out, or set content: random.")

    @property
    def name(self) -> str:
        """Such as "patch fitted on image 0123456789abcdef"."""
        options = self.options
        content = f"{RANDOM} {options.draw}" if options.content == RANDOM else options.content
        words = ["patch", content, "on", self.placement.place, self.artifact.digest]
        words += [] if options.eot else ["fixed"]
        return " ".join([*words, *(["on fit images"] if options.fit_images else [])])

    @property
    def needs_depth(self) -> bool:
        return self.placement.place != "image"

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        return options_of(PatchOptions)

    def passes(self, task: str = "segmentation") -> Passes:
        return Passes(forward=2)  # the figures inside and outside of the patch are compared with the clean ones

    def describe(self) -> dict[str, Any]:
        return {KIND: {**self._changed(), "artifact": self.artifact.digest}}

    def written(self) -> dict[str, Any]:
        return {KIND: {**self._changed(), "artifact": self.artifact.address(self.options.artifact)}}

    def _changed(self) -> dict[str, Any]:
        changed = self.options.model_dump(exclude={"artifact", "place"}, exclude_defaults=True)
        return changed if self._elsewhere is None else {**changed, "place": self._elsewhere}

    def patch(self) -> torch.Tensor:
        """What is shown, (3, a, b) in [0, 1]."""
        fitted = self.artifact.tensors["patch"]
        if self.options.content == RANDOM:
            draws = numpy_generator(ImageSeed(self.options.draw, "").stream("patch|control"))
            return torch.from_numpy(draws.uniform(0, 1, tuple(fitted.shape))).to(fitted.dtype)
        if self.options.content == GREY:
            return torch.full_like(fitted, 0.5)
        return self.artifact.tensors["crop"] if self.options.content == CROP else fitted

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        if not self.options.fit_images:
            check_held_out(batch.samples, self.artifact.facts["fit_ids"])
        patch = self.patch()
        size = (patch.shape[1], patch.shape[2])
        laid = laid_in(batch, self.placement, size, [seed.stream(KIND) for seed in seeds])
        images, region = paste(batch.images.cpu(), patch, laid)
        masks = region.numpy()
        details: dict[str, Sequence[Any]] = {
            "patch_share": masks.mean((1, 2)).tolist(),
            "unpatched": [each is None for each in laid],
            "ignored_by_patch": [_covered(sample, mask) for sample, mask in zip(batch.samples, masks, strict=True)],
        }
        device = batch.images.device
        return Perturbed(images.to(device), region.to(device), covers=True, details=details)


def _covered(sample: Sample, mask: npt.NDArray[np.bool_]) -> int:
    """Objects with more than half of their area under the patch."""
    return 0 if sample.boxes is None else int(mostly_inside(sample.boxes, mask).sum())
