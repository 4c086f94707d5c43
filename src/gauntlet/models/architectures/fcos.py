"""A light anchor-free detector in the manner of FCOS (Tian et al. 2019, arXiv:1904.01355)."""

from __future__ import annotations

import torch
from torch import nn

from gauntlet.models.architectures.dense import DenseHead, DenseOutputs, dense_losses
from gauntlet.models.architectures.detector import Detector, Targets
from gauntlet.models.architectures.pspnet import Encoder
from gauntlet.models.architectures.pyramid import STRIDES, WIDTHS, Pyramid, residual_encoder
from gauntlet.models.contract import Candidates


class FCOS(Detector):
    """The encoder of our PSPNet, a pyramid at strides 4, 8 and 16, one head for all levels.

    Args:
        num_classes: number of object classes.
        width: channels of pyramid and head, a multiple of 8.
        top_width: channels of the residual blocks at stride 16.
        widths: channels of the encoder's four stages.
        suppression: IoU above which the weaker of two boxes of a class goes.
    """

    encoder: Encoder

    def __init__(
        self,
        num_classes: int,
        *,
        width: int = 64,
        top_width: int = 128,
        widths: tuple[int, int, int, int] = WIDTHS,
        suppression: float = 0.6,
    ) -> None:
        super().__init__()
        self.stride = STRIDES[-1]
        self.suppression = suppression
        self.encoder = residual_encoder(tuple(widths))
        self.pyramid = Pyramid(tuple(widths), top_width, width)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.head = DenseHead(width, num_classes)

    def forward(self, images: torch.Tensor) -> DenseOutputs:
        outputs: DenseOutputs = self.head(self.pyramid(self.encoder.maps(images)))
        return outputs

    def losses(self, outputs: DenseOutputs, targets: Targets) -> torch.Tensor:
        return dense_losses(outputs, targets)

    def candidates(self, outputs: DenseOutputs) -> Candidates:
        return Candidates(outputs.logits, outputs.boxes, outputs.logits.amax(dim=-1))

    def confidences(self, outputs: DenseOutputs) -> torch.Tensor:
        """The geometric mean of class probability and predicted overlap."""
        return (outputs.logits.sigmoid() * outputs.quality.sigmoid()[..., None]).sqrt()
