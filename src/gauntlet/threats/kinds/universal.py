"""A fitted universal perturbation as a threat: {"universal": {"artifact": "universal.safetensors"}}.

docs/specs/beyond.md, 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field

from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel
from gauntlet.numbers import format_number, parse_number
from gauntlet.samples import Batch
from gauntlet.seeding import ImageSeed, numpy_generator
from gauntlet.threats.artifacts import Artifact, load_artifact
from gauntlet.threats.attacks.engine.constraints import ball
from gauntlet.threats.contract import Perturbed, Threat, threats
from gauntlet.threats.fitted.fit_images import check_held_out
from gauntlet.threats.fitted.tiles import tiled
from gauntlet.threats.fitted.universal import KIND
from gauntlet.threats.kinds.corruption import parse_options
from gauntlet.threats.options import Option, options_of


class UniversalOptions(BaseModel):
    """What is shown.

    Attributes:
        artifact: the file that `gauntlet universal fit` wrote; in stored descriptions its digest.
        epsilon: the norm that the file is expected to have; another one is refused.
        control: random signs instead of the fitted perturbation, in the same tile: of the same linf or l2 norm.
        draw: which random signs.
        fit_images: whether images that it was fitted on are allowed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    artifact: Annotated[str | Path | Artifact, Option("always", swept=True)]
    epsilon: Annotated[float | str | None, Option("never")] = None
    control: Annotated[Literal["linf", "l2"] | None, Option(swept=True)] = None
    draw: Annotated[int, Option(swept=True), Field(ge=0)] = 0
    fit_images: Annotated[bool, Option()] = False


@threats.register(KIND)
class UniversalThreat(Threat):
    """One perturbation, the same for all images: x' = B(x + tile(xi)), exactly inside the ball of its norm.

    Its key holds the digest of the artifact: a moved file has the same key, another fit another one.
    """

    needs_model = False

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = parse_options(KIND, UniversalOptions, options)
        self.artifact = load_artifact(self.options.artifact, KIND)
        facts = self.artifact.facts
        wanted = self.options.epsilon
        if wanted is not None and not math.isclose(parse_number(wanted, "epsilon"), facts["epsilon"], rel_tol=1e-9):
            raise GauntletError(
                f"the perturbation {self.artifact.digest} was fitted for epsilon {format_number(facts['epsilon'])}, "
                f"not {wanted}; leave epsilon out, or fit another one."
            )
        if self.options.draw and self.options.control is None:
            raise GauntletError("draw is the number of a random control; leave it out, or set control: linf.")

    @property
    def name(self) -> str:
        """Such as "universal untargeted linf 10/255 0123456789abcdef"."""
        facts, options = self.artifact.facts, self.options
        words = ["universal", facts["aim"]]
        if options.control is not None:
            words = ["universal", f"control {options.control} draw {options.draw} of"]
        words += [facts["norm"], format_number(facts["epsilon"]), self.artifact.digest]
        return " ".join([*words, *(["on fit images"] if options.fit_images else [])])

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        return options_of(UniversalOptions)

    def describe(self) -> dict[str, Any]:
        return {KIND: {**self._changed(), "artifact": self.artifact.digest}}

    def written(self) -> dict[str, Any]:
        return {KIND: {**self._changed(), "artifact": self.artifact.address(self.options.artifact)}}

    def _changed(self) -> dict[str, Any]:
        return self.options.model_dump(exclude={"artifact", "epsilon"}, exclude_defaults=True)

    def perturbation(self) -> torch.Tensor:
        """The tile, (3, h, w): the fitted one, or random signs of the same norm."""
        fitted = self.artifact.tensors["perturbation"]
        if self.options.control is None:
            return fitted
        draws = numpy_generator(ImageSeed(self.options.draw, "").stream("universal|control"))
        signs = torch.from_numpy(draws.choice([-1.0, 1.0], tuple(fitted.shape))).to(fitted.dtype)
        if self.options.control == "linf":
            return signs * fitted.abs().max()
        return signs * fitted.double().square().mean().sqrt().to(fitted.dtype)

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        if not self.options.fit_images:
            check_held_out(batch.samples, self.artifact.facts["fit_ids"])
        images = batch.images.cpu()  # bounds are exact in float64, which not every device has
        points = (images + tiled(self.perturbation(), *images.shape[2:])).clamp(0, 1)
        if self.options.control is None:
            norm, radius = self.artifact.facts["norm"], self.artifact.facts["epsilon"]
            points = ball(norm, images, torch.full((len(images),), radius, dtype=torch.float64), None).finish(points)
        difference = (points - images).double().flatten(1)
        details = {
            "linf": difference.abs().amax(1).tolist(),
            "l2": torch.linalg.vector_norm(difference, dim=1).tolist(),
        }
        return Perturbed(points.to(batch.images.device), details=details)
