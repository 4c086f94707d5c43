"""smoothed: votes of a model over noisy copies of an image, for prediction (docs/specs/defences.md, 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gauntlet.defences.contract import Addressed, Defence, DefenceSettings, parse_whole
from gauntlet.defences.transformations.noise import noisy
from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel
from gauntlet.models.defended_names import defences_in, draws_in
from gauntlet.models.randomness import RandomPart, random_parts
from gauntlet.models.sources.contract import ModelSource
from gauntlet.numbers import Number, parse_number


@dataclass(frozen=True)
class SmoothedSettings(DefenceSettings):
    """How much noise, and how many copies.

    Attributes:
        sigma: standard deviation of the noise on the [0, 1] scale.
        n0: copies of the first stage of a certificate, samples 0 to n0 - 1.
        n: copies that vote, samples n0 to n0 + n - 1.
        tau: probability that a certificate asks for. alpha: its error rate. Both only choose figures.
    """

    without_effect = ("tau", "alpha")

    sigma: Number = 0.25
    n0: Number = 10
    n: Number = 100
    tau: Number = 0.75
    alpha: Number = 0.001

    def __post_init__(self) -> None:
        sigma, tau, alpha = (
            parse_number(getattr(self, name), f"the {name} of smoothed:") for name in ("sigma", "tau", "alpha")
        )
        if sigma <= 0:
            raise GauntletError(f"the sigma of smoothed: must be greater than 0, not {sigma:g}.")
        if not 0.5 < tau < 1:
            raise GauntletError(f"the tau of smoothed: must lie between 1/2 and 1, not {tau:g}.")
        if not 0 < alpha < 1:
            raise GauntletError(f"the alpha of smoothed: must lie between 0 and 1, not {alpha:g}.")
        n0, n = (parse_whole(getattr(self, name), f"the {name} of smoothed:", 1) for name in ("n0", "n"))
        self._set(sigma=sigma, n0=n0, n=n, tau=tau, alpha=alpha)


class SmoothedModel(Defence, RandomPart):
    """The logarithm of (votes + 1/2) / (n + K/2) per class; it has no gradient.

    Args:
        model: what votes.
        settings: those of `SmoothedSettings`.
    """

    prefix = "smoothed"
    draw_name = "smoothing"
    adds_noise = True
    settings_type = SmoothedSettings
    settings: SmoothedSettings

    def __init__(self, model: GauntletModel, **settings: Any) -> None:
        super().__init__([model], SmoothedSettings(**settings))
        if random_parts(model):  # a wrapper of another kind around it hides its name
            raise _draws(model.identity.name)

    @classmethod
    def check_inner(cls, inner: GauntletModel | ModelSource, settings: DefenceSettings) -> None:
        super().check_inner(inner, settings)
        name = inner.identity.name
        if draws_in(name) or cls.prefix in defences_in(name):
            raise _draws(name)

    def defend(self, images: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() and images.requires_grad:
            raise GauntletError(
                "'smoothed:' counts votes and has no gradient; attack 'noise:' with the same sigma and several samples "
                "instead."
            )
        first, count = int(self.settings.n0), int(self.settings.n)
        votes = self.votes(images, range(first, first + count)).to(images.dtype)
        return torch.log((votes + 0.5) / (count + self.num_classes / 2))

    @torch.no_grad()
    def votes(self, images: torch.Tensor, samples: range) -> torch.Tensor:
        """How often each class is predicted over some noisy copies, int32 (N, K, H, W).

        Args:
            images: (N, 3, H, W).
            samples: numbers of the copies; the noise of a copy depends on its number and the image's seed alone.
        """
        count, _, height, width = images.shape
        votes = torch.zeros(count, self.num_classes, height, width, dtype=torch.int32, device=images.device)
        one = torch.ones(count, 1, height, width, dtype=torch.int32, device=images.device)
        for sample in samples:
            logits = self.model(noisy(images, self.numbers(sample), float(self.settings.sigma)))
            votes.scatter_add_(1, logits.argmax(dim=1, keepdim=True), one)
        return votes


def _draws(name: str) -> GauntletError:
    """Every copy would meet the same draw."""
    return GauntletError(f"'{name}' draws at random; 'smoothed:' takes a model that does not.")


source = Addressed(SmoothedModel)
