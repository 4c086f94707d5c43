"""onnx: a detector in ONNX with a declared decode rule (`decoding`); gradients reach the input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.contract import Candidates, ModelIdentity
from gauntlet.models.sources.decoding import Decoded, DecodeRule, decoded_loss
from gauntlet.models.sources.detecting import NETWORK_OPTIONS, Labels, ObjectDetector
from gauntlet.models.wrapping import Normalisation
from gauntlet.samples import Boxes

OPTIONS = ("decode", *NETWORK_OPTIONS, "name", "trust")
# Logits of probabilities that float32 rounds to 0 or 1 are cut off here.
_SURE = 1e-6


class ExportedDetector(ObjectDetector):
    """A network whose output a decode rule reads.

    Args:
        network: normalised images (N, 3, h, w) to the output that the rule knows.
        rule: reads it.
        size: (height, width) that images are resized to; None for any size.
    """

    def __init__(
        self,
        network: nn.Module,
        labels: Labels,
        identity: ModelIdentity,
        *,
        rule: DecodeRule,
        normalisation: Normalisation,
        size: tuple[int, int] | None,
    ) -> None:
        super().__init__(network, labels, identity)
        self.rule = rule
        self.normalisation = normalisation
        self.size = size

    def decoded(self, images: torch.Tensor) -> Decoded:
        """What the network proposes, boxes in pixels of the image."""
        height, width = images.shape[-2:]
        size = self.size or (height, width)
        if size != (height, width):
            images = functional.interpolate(
                images, size, mode="bilinear", align_corners=False, antialias=self.rule.antialias
            )
        decoded = self.rule.decode(self.network(self.normalisation(images)), size)
        boxes = decoded.boxes * decoded.boxes.new_tensor([width, height, width, height])
        return Decoded(boxes, decoded.confidences[..., self.outputs], decoded.objectness)

    def losses(self, images: torch.Tensor, targets: Sequence[Boxes]) -> torch.Tensor:
        objects = list(self.checked(images, targets))
        decoded = self.decoded(images)
        return torch.stack(
            [
                decoded_loss(decoded.boxes[row], decoded.confidences[row], boxes, classes)
                for row, (boxes, classes) in enumerate(objects)
            ]
        )

    @torch.no_grad()
    def predict(self, images: torch.Tensor) -> list[Boxes]:
        decoded = self.decoded(images)
        boxes = decoded.boxes
        if self.rule.clip:
            boxes = boxes.clamp(min=0).minimum(boxes.new_tensor([images.shape[3], images.shape[2]] * 2))
        return [self.rule.select(*each) for each in zip(boxes, decoded.confidences, strict=True)]

    def candidates(self, images: torch.Tensor) -> Candidates:
        """Every box of the output; logits are those of the confidences."""
        decoded = self.decoded(images)
        scores = decoded.confidences.logit(_SURE)
        objectness = scores.amax(dim=-1) if decoded.objectness is None else decoded.objectness.logit(_SURE)
        return Candidates(scores, decoded.boxes, objectness)
