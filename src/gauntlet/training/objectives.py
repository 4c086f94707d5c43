"""What a step minimises: the loss on clean images, on attacked ones, or on a mix of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gauntlet.models.contract import DetectionModel, GauntletModel
from gauntlet.numbers import parse_number
from gauntlet.samples import Boxes
from gauntlet.training.auxiliary import AuxiliaryHeads
from gauntlet.training.config import AdversarialConfig
from gauntlet.training.pixel_loss import PixelLoss

RAMP_LEVELS = 16
"""The budget of a ramp grows in so many equal stairs, so that an attack is rebuilt rarely."""


@dataclass(frozen=True)
class StepInfo:
    """What an objective may depend on besides the batch.

    Attributes:
        done: share of the training that is done, in [0, 1).
        seeds: one per image, for the attack's draws.
    """

    done: float
    seeds: Sequence[int]


class Objective(nn.Module):
    """Clean training: cross-entropy over the labelled pixels, of auxiliary heads too where the network has them.

    `prepare` runs on the bare module (attacks), `forward` inside the distributed wrapper (the loss with gradients).

    Args:
        model: the network behind the contract; its parameters train.
        criterion: the loss of its logits; plain cross-entropy by default; a detector has a loss of its own.
        auxiliary: heads that train with it, or None.
    """

    def __init__(
        self, model: GauntletModel, criterion: PixelLoss | None = None, auxiliary: AuxiliaryHeads | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.criterion = criterion if criterion is not None else PixelLoss(model.ignore_index)
        self.auxiliary = auxiliary

    def prepare(self, images: torch.Tensor, labels: Any, info: StepInfo) -> tuple[Any, ...]:
        """The arguments of `forward` for a batch."""
        return images, labels

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if self.auxiliary is None:
            loss: torch.Tensor = self.criterion(self.model(images), labels)
        else:
            loss = self.auxiliary(self.model, self.criterion, images, labels)
        return loss


class AdversarialObjective(Objective):
    """Adversarial training: the last `share` of the batch is replaced by what the attack makes of it."""

    def __init__(
        self,
        model: GauntletModel,
        config: AdversarialConfig,
        criterion: PixelLoss | None = None,
        auxiliary: AuxiliaryHeads | None = None,
    ) -> None:
        super().__init__(model, criterion, auxiliary)
        self.config = config
        self._attacks: dict[float, Any] = {}
        self.attack_at(0.0)  # a wrong name or option shows before the first step

    def prepare(self, images: torch.Tensor, labels: Any, info: StepInfo) -> tuple[Any, ...]:
        clean = len(images) - round(self.config.share * len(images))
        attacked = self.perturb(images[clean:], labels[clean:], info.seeds[clean:], info.done)
        return torch.cat((images[:clean], attacked)), labels

    def perturb(self, images: torch.Tensor, labels: Any, seeds: Sequence[int], done: float) -> torch.Tensor:
        """The attacked images, made in eval mode with frozen weights, in float32."""
        if not len(images):
            return images
        with frozen(self.model):
            outcome = self.attack_at(done)(self.model, images, labels, seed=list(seeds))
        attacked: torch.Tensor = outcome.images
        return attacked.detach()

    def attack_at(self, done: float) -> Any:
        """The attack when a share `done` of the training is done; weaker on the ramp."""
        ramp = self.config.ramp
        level = 1.0 if done >= ramp else (1 + int(RAMP_LEVELS * done / ramp)) / RAMP_LEVELS
        if level not in self._attacks:
            from gauntlet.threats.attacks import build

            self._attacks = {level: build(**scaled_attack(self.config.attack, level))}
        return self._attacks[level]


class DetectionObjective(Objective):
    """Clean training of a detector: the mean over the images of the network's own loss."""

    model: DetectionModel

    def forward(self, images: torch.Tensor, labels: Sequence[Boxes]) -> torch.Tensor:  # type: ignore[override]
        return self.model.losses(images, labels).mean()


class AdversarialDetectionObjective(DetectionObjective, AdversarialObjective):
    """Adversarial training of a detector."""


def scaled_attack(options: dict[str, Any], factor: float) -> dict[str, Any]:
    """Options of an attack with its budget and step size multiplied by a factor."""
    if factor == 1.0:
        return dict(options)
    scaled: dict[str, Any] = {
        key: parse_number(options[key], key) * factor for key in ("epsilon", "alpha") if key in options
    }
    return {**options, **scaled}


@contextmanager
def frozen(model: GauntletModel) -> Iterator[None]:
    """Eval mode and no parameter gradients inside; as before afterwards.

    Batch norm must use (and keep) its running statistics while an attack runs, and a backward pass to the image alone
    costs two thirds of one to the weights.
    """
    training = model.training
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.freeze()
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)
        model.train(training)
