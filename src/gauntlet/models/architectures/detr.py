"""A light detector of the DETR family (Carion et al. 2020, arXiv:2005.12872) that learns in minutes.

What makes it quick: queries start as the peaks of a dense head that learns one-to-many (queries chosen by the encoder,
Zhu et al. 2021; the auxiliary head of Co-DETR, Zong et al. 2023), carry boxes that every layer corrects (DAB-DETR, Liu
et al. 2022), and sample a few points around them at three resolutions (Deformable DETR, Zhu et al. 2021). Each object
is then matched with one query, and nothing is suppressed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.decoder import DecoderLayer, GlobalContext, multilayer, sine_embedding
from gauntlet.models.architectures.dense import DenseHead, DenseOutputs, dense_losses
from gauntlet.models.architectures.detector import Detector, Targets
from gauntlet.models.architectures.pspnet import Encoder
from gauntlet.models.architectures.pyramid import STRIDES, WIDTHS, Pyramid, residual_encoder
from gauntlet.models.architectures.set_loss import set_losses
from gauntlet.models.contract import Candidates

NOT_A_PEAK = -1e4
MAP_WIDTH = 64
POINTS = 4


@dataclass(frozen=True)
class QueryOutputs:
    """What D decoder layers say of N images.

    Attributes:
        logits: (D, N, Q, K) of the classes.
        boxes: (D, N, Q, 4) corners in pixels.
        dense: of the head that the queries come from.
        size: (4,) width, height, width, height of the images.
    """

    logits: torch.Tensor
    boxes: torch.Tensor
    dense: DenseOutputs
    size: torch.Tensor


class DETR(Detector):
    """The encoder of our PSPNet, a pyramid with a transformer layer on its top, a dense head, a decoder of queries.

    Args:
        num_classes: number of object classes.
        queries: most objects of an image that can be found.
        layers: of the decoder.
        width: of the queries, a multiple of 16 (of eight sines and cosines per side of a box) and of the heads.
        heads: of attention.
        top_width: channels of the residual blocks at stride 16.
        widths: channels of the encoder's four stages.
    """

    suppression = None
    encoder: Encoder

    def __init__(
        self,
        num_classes: int,
        *,
        queries: int = 50,
        layers: int = 3,
        width: int = 128,
        heads: int = 8,
        top_width: int = 128,
        widths: tuple[int, int, int, int] = WIDTHS,
    ) -> None:
        super().__init__()
        self.stride = STRIDES[-1]
        self.queries, self.width = queries, width
        self.encoder = residual_encoder(tuple(widths))
        self.pyramid = Pyramid(tuple(widths), top_width, MAP_WIDTH, GlobalContext(MAP_WIDTH, heads))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.head = DenseHead(MAP_WIDTH, num_classes)
        self.content = nn.Sequential(nn.Linear(MAP_WIDTH, width), nn.LayerNorm(width))
        self.position = multilayer(width, width, width)
        self.decoder = nn.ModuleList(
            DecoderLayer(width, MAP_WIDTH, heads, len(STRIDES), POINTS, num_classes) for _ in range(layers)
        )

    def forward(self, images: torch.Tensor) -> QueryOutputs:
        height, width = images.shape[-2:]
        size = torch.tensor([width, height] * 2, dtype=torch.float32, device=images.device)
        maps = self.pyramid(self.encoder.maps(images))
        dense: DenseOutputs = self.head(maps)
        chosen = peaks(dense, self.queries)[..., None]
        features = torch.cat([each.flatten(2).transpose(1, 2) for each in maps], dim=1)
        queries = self.content(features.gather(1, chosen.expand(-1, -1, features.shape[-1])))
        boxes = dense.boxes.gather(1, chosen.expand(-1, -1, 4))
        logits, corrections = [], []
        for layer in self.decoder:
            if self.training:
                # Each layer learns its own correction (Deformable DETR, appendix A.4). An attack on the network that
                # is in use gets the whole gradient.
                boxes = boxes.detach()
            centre, sides = (boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]
            positions = self.position(sine_embedding(torch.cat((centre, sides), dim=-1) / size, self.width // 4))
            queries, classes, boxes = layer(queries, positions, boxes, maps, size)
            logits.append(classes.float())
            corrections.append(boxes.float())
        return QueryOutputs(torch.stack(logits), torch.stack(corrections), dense, size)

    def losses(self, outputs: QueryOutputs, targets: Targets) -> torch.Tensor:
        return dense_losses(outputs.dense, targets) + set_losses(outputs.logits, outputs.boxes, targets, outputs.size)

    def candidates(self, outputs: QueryOutputs) -> Candidates:
        logits = outputs.logits[-1]
        return Candidates(logits, outputs.boxes[-1], logits.amax(dim=-1))

    def confidences(self, outputs: QueryOutputs) -> torch.Tensor:
        return outputs.logits[-1].sigmoid()


@torch.no_grad()
def peaks(dense: DenseOutputs, count: int) -> torch.Tensor:
    """The best locations, (N, count), of those that are the best of their 3x3 neighbourhood first."""
    scores = dense.logits.float().amax(dim=-1)
    levels, sizes = [], dense.locations.sizes
    parts = torch.split(scores, [height * width for height, width in sizes], dim=1)
    for each, size in zip(parts, sizes, strict=True):
        grid = each.reshape(-1, 1, *size)
        highest = functional.max_pool2d(grid, 3, stride=1, padding=1)
        levels.append(torch.where(grid == highest, grid, grid + NOT_A_PEAK).flatten(1))
    ranked = torch.cat(levels, dim=1)
    return ranked.topk(min(count, ranked.shape[1]), dim=1).indices
