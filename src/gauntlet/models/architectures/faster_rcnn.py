"""A light two-stage detector in the manner of Faster R-CNN (Ren et al. 2015, arXiv:1506.01497) on a pyramid.

Where it differs from the paper: nothing is drawn at random, all proposals of an image count for its loss; one box per
proposal instead of one per class, which learns by its GIoU; true boxes are not added to the proposals.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.detector import Detector, Targets
from gauntlet.models.architectures.geometry import area, corrected
from gauntlet.models.architectures.proposals import (
    ANCHOR_SIDE,
    ProposalHead,
    Proposed,
    box_losses,
    choose,
    match,
    proposal_losses,
)
from gauntlet.models.architectures.pspnet import Encoder
from gauntlet.models.architectures.pyramid import STRIDES, WIDTHS, Pyramid, residual_encoder
from gauntlet.models.architectures.roi_align import roi_align
from gauntlet.models.contract import Candidates

BINS = 7
"""In x and in y, of what the second stage sees of a proposal."""
CLASS_WEIGHT = 2.0
"""Of the second stage's cross-entropy, as BOX_WEIGHT of its boxes."""


@dataclass(frozen=True)
class TwoStageOutputs:
    """What both stages say of N images.

    Attributes:
        proposed: of the first stage.
        proposals: (N, R, 4) what the second stage looked at, corners in pixels.
        logits: (N, R, K + 1) of the classes, the background last.
        boxes: (N, R, 4) corrected proposals.
    """

    proposed: Proposed
    proposals: torch.Tensor
    logits: torch.Tensor
    boxes: torch.Tensor

    @property
    def scores(self) -> torch.Tensor:
        """(N, R, K) logits of the classes over that of the background."""
        return self.logits[..., :-1] - self.logits[..., -1:]


class BoxHead(nn.Module):
    """Two linear layers over what a proposal sees; class logits, the background's last, and a correction of the box."""

    def __init__(self, width: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width * BINS * BINS, hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
        )
        self.classes = nn.Linear(hidden, num_classes + 1)
        self.boxes = nn.Linear(hidden, 4)
        for predictor, spread in ((self.classes, 0.01), (self.boxes, 0.001)):
            nn.init.normal_(predictor.weight, std=spread)
            nn.init.zeros_(predictor.bias)

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (N, R, K + 1) and changes (N, R, 4) from (N, R, C, BINS, BINS)."""
        features = self.layers(seen.flatten(2))
        return self.classes(features).float(), self.boxes(features).float()


class FasterRCNN(Detector):
    """The encoder of our PSPNet, a pyramid at strides 4, 8 and 16, a proposal network, a head for every proposal.

    Args:
        num_classes: number of object classes.
        proposals: most boxes of an image that the second stage looks at.
        width: channels of the pyramid, a multiple of 8.
        hidden: of the second stage's linear layers.
        top_width: channels of the residual blocks at stride 16.
        widths: channels of the encoder's four stages.
        suppression: IoU above which the weaker of two boxes of a class goes.
    """

    encoder: Encoder

    def __init__(
        self,
        num_classes: int,
        *,
        proposals: int = 64,
        width: int = 64,
        hidden: int = 128,
        top_width: int = 128,
        widths: tuple[int, int, int, int] = WIDTHS,
        suppression: float = 0.5,
    ) -> None:
        super().__init__()
        self.stride = STRIDES[-1]
        self.suppression = suppression
        self.proposals = proposals
        self.encoder = residual_encoder(tuple(widths))
        self.pyramid = Pyramid(tuple(widths), top_width, width)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.proposal_head = ProposalHead(width)
        self.box_head = BoxHead(width, hidden, num_classes)

    def forward(self, images: torch.Tensor) -> TwoStageOutputs:
        height, width = images.shape[-2:]
        size = torch.tensor([width, height] * 2, dtype=torch.float32, device=images.device)
        maps = self.pyramid(self.encoder.maps(images))
        proposed: Proposed = self.proposal_head(maps)
        chosen = choose(proposed, min(self.proposals, len(proposed.anchors)))
        boxes = proposed.boxes.gather(1, chosen[..., None].expand(-1, -1, 4)).clamp(min=0).minimum(size)
        if self.training:
            # Each stage learns its own correction, as published. An attack on the network that is in use gets the
            # whole gradient.
            boxes = boxes.detach()
        logits, changes = self.box_head(roi_align(maps, STRIDES, boxes, levels(boxes), BINS))
        return TwoStageOutputs(proposed, boxes, logits, corrected(boxes, changes))

    def losses(self, outputs: TwoStageOutputs, targets: Targets) -> torch.Tensor:
        """Those of the proposal network; cross-entropy of the classes, a mean over proposals; GIoU of the objects'."""
        index = match(outputs.proposals, targets, every_object=False).index
        positive = index >= 0
        background = outputs.logits.shape[-1] - 1
        truth = targets.classes.gather(1, index.clamp(min=0)).where(positive, torch.full_like(index, background))
        centres = (outputs.proposals[..., :2] + outputs.proposals[..., 2:]).detach() / 2
        counted = positive | ~targets.ignores(centres)
        classified = functional.cross_entropy(outputs.logits.transpose(1, 2), truth, reduction="none") * counted
        return (
            proposal_losses(outputs.proposed, targets)
            + CLASS_WEIGHT * classified.sum(dim=1) / counted.sum(dim=1).clamp(min=1)
            + box_losses(outputs.boxes, index, targets) / positive.sum(dim=1).clamp(min=1)
        )

    def candidates(self, outputs: TwoStageOutputs) -> Candidates:
        """The proposals; log sum exp of the classes' logits over the background's is the logit of any object."""
        return Candidates(outputs.scores, outputs.boxes, outputs.scores.logsumexp(dim=-1))

    def confidences(self, outputs: TwoStageOutputs) -> torch.Tensor:
        return outputs.logits.softmax(dim=-1)[..., :-1]


def levels(boxes: torch.Tensor) -> torch.Tensor:
    """The level whose anchors are nearest in size to boxes (..., 4), as FPN's eq. 1 with our sizes."""
    sides = area(boxes.detach()).sqrt().clamp(min=1.0)
    return (sides / (ANCHOR_SIDE * STRIDES[0])).log2().round().long().clamp(0, len(STRIDES) - 1)
