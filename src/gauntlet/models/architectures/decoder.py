"""The transformer of our DETR: queries with reference boxes that sample the pyramid around themselves."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from gauntlet.models.architectures.dense import PRIOR_LOGIT
from gauntlet.models.architectures.geometry import corrected

TEMPERATURE = 20.0
HIGHEST_FREQUENCY = 8.0
"""In periods over the image."""


def sine_embedding(values: torch.Tensor, width: int) -> torch.Tensor:
    """Values in [0, 1], (..., n), as sines and cosines of `width` features each: (..., n * width)."""
    frequency = HIGHEST_FREQUENCY * TEMPERATURE ** (-torch.arange(width // 2, device=values.device) / (width // 2))
    phase = 2 * math.pi * values[..., None] * frequency
    return torch.cat((phase.sin(), phase.cos()), dim=-1).flatten(-2)


def multilayer(in_width: int, width: int, out_width: int) -> nn.Sequential:
    """Two linear layers with a ReLU between them."""
    return nn.Sequential(nn.Linear(in_width, width), nn.ReLU(inplace=True), nn.Linear(width, out_width))


class SelfAttention(nn.Module):
    """Multi-head attention of tokens (N, L, C) among themselves; their positions go into queries and keys only."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key = nn.Linear(width, 2 * width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        query, key = (self._split(part) for part in self.query_key(tokens + positions).chunk(2, dim=-1))
        attended = functional.scaled_dot_product_attention(query, key, self._split(self.value(tokens)))
        result: torch.Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return result

    def _split(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens.reshape(*tokens.shape[:2], self.heads, -1).transpose(1, 2)


class GlobalContext(nn.Module):
    """One transformer encoder layer over the coarsest map (as in RT-DETR, Zhao et al. 2024, arXiv:2304.08069)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = SelfAttention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = multilayer(width, 4 * width, width)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        height, width = features.shape[-2:]
        tokens = features.flatten(2).transpose(1, 2)
        y = (torch.arange(height, device=features.device) + 0.5) / height
        x = (torch.arange(width, device=features.device) + 0.5) / width
        places = torch.stack(torch.meshgrid(y, x, indexing="ij"), dim=-1).flatten(0, 1)
        positions = sine_embedding(places, tokens.shape[-1] // 2)
        tokens = tokens + self.attention(self.attention_norm(tokens), positions)
        tokens = tokens + self.feed_forward(self.feed_forward_norm(tokens))
        result: torch.Tensor = tokens.transpose(1, 2).unflatten(2, (height, width))
        return result


class SamplingAttention(nn.Module):
    """Deformable attention (Zhu et al. 2021, arXiv:2010.04159): a few weighted points per head, level and query.

    Args:
        width: of the queries.
        map_width: of the maps.
        heads, levels, points: how many.
    """

    def __init__(self, width: int, map_width: int, heads: int, levels: int, points: int) -> None:
        super().__init__()
        self.heads, self.levels, self.points = heads, levels, points
        self.offsets = nn.Linear(width, heads * levels * points * 2)
        self.weights = nn.Linear(width, heads * levels * points)
        self.value = nn.Conv2d(map_width, width, 1)
        self.output = nn.Linear(width, width)
        nn.init.zeros_(self.weights.weight)
        nn.init.zeros_(self.weights.bias)
        nn.init.zeros_(self.offsets.weight)
        # Each head looks into a direction of its own, its points further and further out, up to the box's edge.
        angle = torch.arange(heads) * (2 * math.pi / heads)
        direction = torch.stack((angle.cos(), angle.sin()), dim=-1)
        direction = direction / direction.abs().amax(dim=-1, keepdim=True)
        reach = torch.arange(1, points + 1) / points
        start = direction[:, None, None] * reach[None, None, :, None]
        with torch.no_grad():
            self.offsets.bias.copy_(start.expand(heads, levels, points, 2).flatten())

    def forward(
        self, queries: torch.Tensor, boxes: torch.Tensor, maps: list[torch.Tensor], size: torch.Tensor
    ) -> torch.Tensor:
        """What queries (N, Q, C) with boxes (N, Q, 4) in pixels see of the maps; `size` is (4,), as for matching."""
        batch, count, _ = queries.shape
        shape = (batch, count, self.heads, self.levels, self.points)
        weights = self.weights(queries).view(*shape[:3], -1).softmax(dim=-1).view(shape)
        centres, halves = (boxes[..., :2] + boxes[..., 2:]) / 2, (boxes[..., 2:] - boxes[..., :2]) / 2
        offsets = self.offsets(queries).view(*shape, 2)
        places = centres[:, :, None, None, None] + offsets * halves[:, :, None, None, None]
        # (N * heads, levels, Q, points, 2) on the scale of grid_sample, where -1 and 1 are the edges of the image.
        grid = (places * (2 / size[:2]) - 1).permute(0, 2, 3, 1, 4, 5).flatten(0, 1)
        sampled = torch.zeros((), device=queries.device)
        for level, features in enumerate(maps):
            values = self.value(features).unflatten(1, (self.heads, -1)).flatten(0, 1)
            seen = functional.grid_sample(values, grid[:, level], align_corners=False)  # (N * heads, c, Q, points)
            chosen = weights[:, :, :, level].transpose(1, 2).flatten(0, 1)[:, None]
            sampled = sampled + (seen * chosen).sum(dim=-1)
        result: torch.Tensor = self.output(sampled.reshape(batch, -1, count).transpose(1, 2))
        return result


class DecoderLayer(nn.Module):
    """Queries look at each other, then at the image around their boxes; class logits and a correction of the boxes."""

    def __init__(self, width: int, map_width: int, heads: int, levels: int, points: int, num_classes: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.attention = SelfAttention(width, heads)
        self.sampling = SamplingAttention(width, map_width, heads, levels, points)
        self.feed_forward = multilayer(width, 4 * width, width)
        self.classes = nn.Linear(width, num_classes)
        self.boxes = multilayer(width, width, 4)
        nn.init.constant_(self.classes.bias, PRIOR_LOGIT)
        for parameter in self.boxes[-1].parameters():
            nn.init.zeros_(parameter)  # boxes start as they came

    def forward(
        self,
        queries: torch.Tensor,
        positions: torch.Tensor,
        boxes: torch.Tensor,
        maps: list[torch.Tensor],
        size: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The queries afterwards (N, Q, C), their class logits (N, Q, K) and boxes (N, Q, 4)."""
        queries = queries + self.attention(self.norms[0](queries), positions)
        queries = queries + self.sampling(self.norms[1](queries) + positions, boxes, maps, size)
        queries = queries + self.feed_forward(self.norms[2](queries))
        seen = self.norms[3](queries)
        return queries, self.classes(seen), corrected(boxes, self.boxes(seen))
