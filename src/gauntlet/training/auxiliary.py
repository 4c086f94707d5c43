"""Auxiliary heads: further logits of the encoder's features, whose losses train the encoder; not kept afterwards."""

from __future__ import annotations

import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.models.architectures.base import Architecture
from gauntlet.models.architectures.published.network import HardPixels, PublishedNetwork, Supervision
from gauntlet.models.wrapping import WrappedSegmentation
from gauntlet.training.config import LossConfig
from gauntlet.training.pixel_loss import PixelLoss, boundary_loss

BOUNDARY_PROBABILITY = 0.8
"""Where the boundary head is surer than this, the main logits count once more (PIDNet, loss l3)."""


class AuxiliaryHeads(nn.Module):
    """The auxiliary heads of a network and the sum of all losses.

    Args:
        network: the network that the heads are for, with their structure.
        weight: of the heads' losses, one for all or one for each.
        criterion: of the heads' logits.
        boundary: which head says where boundaries are; None for none.
    """

    def __init__(
        self,
        network: PublishedNetwork,
        weight: float | tuple[float, ...],
        criterion: PixelLoss,
        boundary: int | None = None,
    ) -> None:
        super().__init__()
        self.heads = network.training_heads()
        weights = weight if isinstance(weight, tuple) else (weight,) * len(self.heads)
        if len(weights) != len(self.heads):
            raise GauntletError(
                f"loss.auxiliary has {len(weights)} weights, but {network.name} has {len(self.heads)} auxiliary heads."
            )
        self.weights, self.criterion, self.boundary = weights, criterion, boundary

    def forward(
        self, model: WrappedSegmentation, main: PixelLoss, images: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """The main loss of images (N, 3, H, W) and the weighed losses of the heads."""
        network = model.module
        assert isinstance(network, Architecture)
        encoded = network.encoder(model.normalisation(model.padded(images)))
        size = images.shape[-2:]
        logits = model.fitted(network.decoder(encoded), size)[:, : model.num_classes]
        total: torch.Tensor = main(logits, labels)
        for index, (head, weight) in enumerate(zip(self.heads, self.weights, strict=True)):
            auxiliary = model.fitted(head(encoded), size)
            if index != self.boundary:
                total = total + weight * self.criterion(auxiliary[:, : model.num_classes], labels)
                continue
            sure = torch.sigmoid(auxiliary.detach()[:, 0]) > BOUNDARY_PROBABILITY
            near = torch.where(sure, labels, main.ignore_index)
            total = total + weight * boundary_loss(auxiliary, labels, main.ignore_index) + main(logits, near)
        return total


def supervision(network: nn.Module, config: LossConfig) -> Supervision:
    """The losses of a network: those it was published with, as far as the recipe says nothing else."""
    published = network.row.supervision if isinstance(network, PublishedNetwork) else Supervision()
    weight = published.weight if config.auxiliary is None else config.auxiliary
    hard = published.hard
    if config.name is not None:
        given = {"threshold": config.threshold, "share": config.share}
        chosen = {name: value for name, value in given.items() if value is not None}
        hard = HardPixels(**chosen) if config.name == "ohem" else None
    return Supervision(weight, hard, published.hard_everywhere, published.boundary)


def auxiliary_heads(network: nn.Module, losses: Supervision, main: PixelLoss) -> AuxiliaryHeads | None:
    """The heads that the losses ask for; None where they ask for none."""
    if not isinstance(network, PublishedNetwork):
        if losses.weight and isinstance(losses.weight, tuple):
            raise GauntletError("loss.auxiliary is for networks with auxiliary heads, those of net:NAME.")
        return None
    if losses.weight == ():
        return None
    hard = losses.hard if losses.hard_everywhere else None
    criterion = PixelLoss(main.ignore_index, weight=main.weight, label_smoothing=main.label_smoothing, hard=hard)
    heads = AuxiliaryHeads(network, losses.weight, criterion, losses.boundary)
    return heads if len(heads.heads) else None
