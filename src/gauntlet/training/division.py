"""DDC-AT: dynamic divide-and-conquer adversarial training (Xu, Zhao, Jia 2021, arXiv:2003.06555)."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import GauntletError
from gauntlet.models.architectures import Architecture
from gauntlet.models.wrapping import WrappedSegmentation
from gauntlet.training.config import AdversarialConfig
from gauntlet.training.objectives import AdversarialObjective, StepInfo, frozen
from gauntlet.training.pixel_loss import PixelLoss

MASK_CLASSES = 2
AUXILIARY = 1


class Branches(nn.Module):
    """A network with two further decoders on its encoder; the logits of all three side by side.

    Args:
        network: its own decoder is the main branch, the only one that is kept.
    """

    def __init__(self, network: Architecture) -> None:
        super().__init__()
        if not hasattr(network, "encoder") or not hasattr(network, "decoder"):
            raise GauntletError(
                "ddc-at puts further decoders on a network's encoder: it needs these two parts by name."
            )
        self.encoder = network.encoder
        self.main = network.decoder
        self.auxiliary = copy.deepcopy(network.decoder)
        self.mask = copy.deepcopy(network.decoder)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(N, K + K + 2, h, w): main, auxiliary and mask branch."""
        features = self.encoder(images)
        mask = self.mask(features)[:, :MASK_CLASSES]
        return torch.cat((self.main(features), self.auxiliary(features), mask), dim=1)


class DividedObjective(AdversarialObjective):
    """Pixels near a decision boundary learn in an auxiliary branch, the others in the main one.

    A clean pixel has the boundary property when the attack changes its prediction (section 3.2). The mask branch
    learns to tell these pixels; where it says so, the prediction and the loss come from the auxiliary branch, elsewhere
    from the main one (equation 3). Half of a batch is clean; the pixels of the attacked half have no boundary property
    and so learn in the main branch. The attack is made on the main branch. After training the main branch is the model.
    """

    def __init__(
        self,
        model: WrappedSegmentation,
        config: AdversarialConfig,
        criterion: PixelLoss | None = None,
    ) -> None:
        super().__init__(model, config, criterion)
        network = model.module
        if not isinstance(network, Architecture) or model.num_classes < MASK_CLASSES:
            raise GauntletError("ddc-at needs a network of gauntlet.models.architectures with two classes or more.")
        self.branches = WrappedSegmentation(
            Branches(network),
            num_classes=2 * model.num_classes + MASK_CLASSES,
            normalisation=model.normalisation,
            ignore_index=model.ignore_index,
            stride=model.stride,
        )

    def prepare(self, images: torch.Tensor, labels: torch.Tensor, info: StepInfo) -> tuple[Any, ...]:
        if len(images) < 2:
            raise GauntletError("ddc-at divides a batch into halves; give every process and part two samples or more.")
        attacked = self.perturb(images, labels, info.seeds, info.done)
        half = len(images) // 2
        boundary = torch.zeros_like(labels)
        with frozen(self.branches), torch.no_grad():
            boundary[:half] = (self.predict(images[:half]) != self.predict(attacked[:half])).to(labels.dtype)
        return torch.cat((images[:half], attacked[half:])), labels, boundary

    def predict(self, images: torch.Tensor) -> torch.Tensor:
        """Label maps (N, H, W) of the divided prediction."""
        return self.divide(images)[0].argmax(dim=1)

    def divide(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of the branch that the mask chooses per pixel (N, K, H, W), and of the mask (N, 2, H, W)."""
        classes = self.model.num_classes
        main, auxiliary, mask = self.branches(images).split((classes, classes, MASK_CLASSES), dim=1)
        chosen = mask.argmax(dim=1, keepdim=True) == AUXILIARY
        return torch.where(chosen, auxiliary, main), mask

    def forward(  # type: ignore[override]
        self, images: torch.Tensor, labels: torch.Tensor, boundary: torch.Tensor
    ) -> torch.Tensor:
        logits, mask = self.divide(images)
        loss: torch.Tensor = self.criterion(logits, labels) + functional.cross_entropy(mask.float(), boundary)
        return loss
