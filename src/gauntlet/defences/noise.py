"""noise: Gaussian noise before a model, drawn anew per image: what an attack on `smoothed:` differentiates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gauntlet.defences.contract import Addressed, Defence, DefenceSettings, parse_whole
from gauntlet.defences.transform import TRIALS
from gauntlet.defences.transformations.noise import noisy
from gauntlet.errors import GauntletError
from gauntlet.models.contract import GauntletModel
from gauntlet.models.randomness import RandomPart
from gauntlet.numbers import Number, parse_number


@dataclass(frozen=True)
class NoiseSettings(DefenceSettings):
    """How much noise.

    Attributes:
        sigma: standard deviation on the [0, 1] scale.
        trials: how often an evaluation repeats the inference, each time with other draws.
    """

    sigma: Number = 0.25
    trials: Number | None = TRIALS

    def __post_init__(self) -> None:
        sigma = parse_number(self.sigma, "the sigma of noise:")
        if sigma < 0:
            raise GauntletError(f"the sigma of noise: must be at least 0, not {sigma:g}.")
        trials = parse_whole(TRIALS if self.trials is None else self.trials, "trials of noise:", 1)
        self._set(sigma=sigma, trials=trials if sigma else None)

    @property
    def neutral(self) -> bool:
        return self.sigma == 0


class NoisyModel(Defence, RandomPart):
    """A model that sees images with noise, which is not clipped.

    Args:
        model: what sees them.
        settings: those of `NoiseSettings`.
    """

    prefix = draw_name = "noise"
    adds_noise = True
    settings_type = NoiseSettings
    settings: NoiseSettings

    def __init__(self, model: GauntletModel, **settings: Any) -> None:
        checked = NoiseSettings(**settings)
        super().__init__([model], checked)
        self.is_random = not checked.neutral
        self.trials = int(checked.trials or 1)

    def defend(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(noisy(images, self.numbers(), float(self.settings.sigma)))
        return logits


source = Addressed(NoisyModel)
