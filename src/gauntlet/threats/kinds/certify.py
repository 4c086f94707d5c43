"""Certification as an evaluation: {"certify": {"sigma": 0.25, "n0": 10, "n": 100, "tau": [0.75]}}.

Randomised smoothing of segmentation, Fischer, Baader and Vechev 2021; docs/specs/defences.md, 6.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gauntlet.errors import GauntletError
from gauntlet.metrics.certification import Votes, needed_samples
from gauntlet.metrics.certification.testing import Correction, check_taus, check_testing
from gauntlet.models.contract import GauntletModel
from gauntlet.models.defended_names import bounded_in, defences_in
from gauntlet.models.randomness import EvaluationDraws, drawing, random_parts
from gauntlet.numbers import parse_number
from gauntlet.samples import Batch
from gauntlet.seeding import ImageSeed, numpy_generator
from gauntlet.tasks import SEGMENTATION, task_of
from gauntlet.threats.attacks.engine.labels import label_map
from gauntlet.threats.contract import Perturbed, Threat, threats
from gauntlet.threats.kinds.corruption import parse_options
from gauntlet.threats.options import Option, options_of
from gauntlet.threats.passes import Passes

_LOGGER = logging.getLogger(__name__)
Positive = Annotated[float, BeforeValidator(lambda value: parse_number(value, "sigma")), Field(gt=0)]


def _numbers(value: Any) -> Any:
    return tuple(parse_number(each, "tau") for each in (value if isinstance(value, (list, tuple)) else [value]))


class CertifyOptions(BaseModel):
    """How votes are taken, and which figures are computed from them.

    Attributes:
        sigma: standard deviation of the noise, on the [0, 1] scale.
        n0: noisy copies that choose the class of every pixel.
        n: fresh noisy copies that vote on it.
        norm: of the perturbations that a certificate covers; Gaussian noise gives l2.
        tau: probability that the class must exceed; a list gives one view of figures each.
        alpha: probability of any wrong certificate, per image.
        correction: "holm", "bonferroni", or "none": alpha per pixel then.
        tolerated: wrong pixels per image that are put up with.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    sigma: Annotated[Positive, Option("always", swept=True, axis="sigma of the noise")] = 0.25
    n0: Annotated[int, Option(), Field(ge=1, le=32767)] = 10
    n: Annotated[int, Option("always"), Field(ge=1, le=65535)] = 100
    norm: Annotated[str, Option("never"), Field(pattern="^l2$")] = "l2"
    tau: Annotated[tuple[float, ...], Option("never"), BeforeValidator(_numbers)] = (0.75,)
    alpha: Annotated[float, Option("never"), BeforeValidator(lambda value: parse_number(value, "alpha"))] = 0.001
    correction: Annotated[Correction, Option("never")] = "holm"
    tolerated: Annotated[int, Option("never"), Field(ge=0)] = 0


@threats.register("certify")
class CertifyThreat(Threat):
    """Votes of the model on noisy copies of an image; figures are of the pixels whose class is certain.

    What decides the votes is in the key: sigma, n0 and n. tau, alpha, correction and tolerated only choose the figures
    that are computed from stored votes.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = parse_options("certify", CertifyOptions, options)
        self._warned: set[tuple[float, int]] = set()  # taus and sizes that a sentence was said about
        check_taus(self.options.tau)
        check_testing(self.options.alpha, self.options.correction, self.options.tolerated)

    @property
    def name(self) -> str:
        """Such as "certify sigma 0.25 n 100"."""
        first = "" if self.options.n0 == CertifyOptions().n0 else f" n0 {self.options.n0}"
        return f"certify sigma {self.options.sigma:g} n {self.options.n}{first}"

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        return options_of(CertifyOptions)

    def passes(self, task: str = SEGMENTATION) -> Passes:
        return Passes(forward=self.options.n0 + self.options.n + 1)

    def describe(self) -> dict[str, Any]:
        return {"certify": {"sigma": self.options.sigma, "n0": self.options.n0, "n": self.options.n}}

    def written(self) -> dict[str, Any]:
        return {"certify": self.options.model_dump(mode="json")}

    def metric(self) -> tuple[str, dict[str, Any]]:
        chosen = self.options.model_dump(mode="json", include={"sigma", "tau", "alpha", "correction", "tolerated"})
        return "certification", chosen

    def check_task(self, task: str) -> None:
        if task != SEGMENTATION:
            raise GauntletError(f"certificates are of pixels, and {task} has none; give a segmentation model.")

    def check_model(self, name: str) -> None:
        if "smoothed" in defences_in(name):
            raise _smoothed_already(name)
        bounded = bounded_in(name)
        if bounded is not None:
            raise GauntletError(
                f"the noise of certificates is not clipped, and '{bounded}:' in '{name}' takes images in [0, 1] only; "
                "certify the model inside it."
            )

    def check_size(self, height: int, width: int) -> None:
        self.check_feasible(height * width)

    def check_feasible(self, pixels: int) -> None:
        """An error where no pixel of an image of this size could be certified at any tau; a warning for single ones."""
        options = self.options
        if options.tolerated >= pixels:
            raise GauntletError(f"{options.tolerated} wrong pixels are tolerated, but an image has only {pixels}.")
        family = 1 if options.correction == "none" else pixels / (options.tolerated + 1)
        needed = {tau: needed_samples(tau, options.alpha, family) for tau in options.tau}
        if options.n < min(needed.values()):
            tau = min(needed, key=lambda each: needed[each])
            raise GauntletError(
                f"with n = {options.n} no pixel of an image of {pixels} can be certified at tau {tau:g} and alpha "
                f"{options.alpha:g}; it takes n = {needed[tau]} at least."
            )
        for tau in (each for each in options.tau if options.n < needed[each]):
            if (tau, pixels) not in self._warned:
                self._warned.add((tau, pixels))
                _LOGGER.warning(
                    "with n = %d every pixel of an image of %d abstains at tau %g and alpha %g; it takes n = %d.",
                    options.n,
                    pixels,
                    tau,
                    options.alpha,
                    needed[tau],
                )

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        self.check_task(task_of(model))
        parts = random_parts(model)
        self.check_model(model.identity.name)
        if any(part.draw_name == "smoothing" for part in parts):  # a wrapper of another kind around it hides its name
            raise _smoothed_already(model.identity.name)
        images = batch.images
        self.check_feasible(images.shape[-2] * images.shape[-1])

        def said(points: torch.Tensor, trial: int) -> torch.Tensor:
            with drawing(parts, EvaluationDraws(seeds, trial)):
                return label_map(model(points)).cpu()

        with torch.inference_mode():
            clean = said(images, 0)
            counts = torch.zeros(len(batch), model.num_classes, *images.shape[-2:], dtype=torch.int16)
            for sample in range(self.options.n0):
                chosen = said(self._noisy(images, seeds, sample), sample)[:, None]
                counts.scatter_add_(1, chosen, torch.ones_like(chosen, dtype=torch.int16))
            top = label_map(counts.float())  # ties: the lowest class, (N, H, W)
            hits = torch.zeros_like(top)
            for sample in range(self.options.n0, self.options.n0 + self.options.n):
                hits += said(self._noisy(images, seeds, sample), sample) == top
        maps = [part.cpu().numpy() for part in (top, hits, clean)]
        votes = [Votes(of_top, of_hits, base, self.options.n) for of_top, of_hits, base in zip(*maps, strict=True)]
        return Perturbed(images, predictions=votes)

    def _noisy(self, images: torch.Tensor, seeds: Sequence[ImageSeed], sample: int) -> torch.Tensor:
        """The images with the noise of one sample, not clipped; every sample has a stream of its own.

        `smoothed:` has the same streams, laid out in another order of axes: fair draws too, but not the same ones.
        """
        drawn = [
            numpy_generator(seed.stream(f"smoothing|{sample}")).standard_normal(tuple(images.shape[1:]))
            for seed in seeds
        ]
        noise = torch.from_numpy(np.stack(drawn)).to(images)  # (N, 3, H, W)
        return images + self.options.sigma * noise


def _smoothed_already(name: str) -> GauntletError:
    return GauntletError(f"'{name}' is smoothed already; certify the model inside it.")
