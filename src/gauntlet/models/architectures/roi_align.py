"""RoI align (He et al. 2017, arXiv:1703.06870, section 3) on a pyramid, in plain torch.

Every bin of a box is the mean of SAMPLES x SAMPLES points, each read from the map by bilinear interpolation. Cell
centres are half a stride inside their cells, as torchvision's `roi_align(..., aligned=True)` has it; a point beyond the
outermost centres has the value at the edge. Maps and boxes both get gradients.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

SAMPLES = 2
"""Points of a bin in x and in y."""


def roi_align(
    maps: Sequence[torch.Tensor], strides: Sequence[int], boxes: torch.Tensor, levels: torch.Tensor, bins: int
) -> torch.Tensor:
    """What boxes see of the maps, (N, R, C, bins, bins).

    Args:
        maps: (N, C, h, w) of every level.
        strides: of the levels, in pixels.
        boxes: (N, R, 4) corners in pixels.
        levels: (N, R) int64, the map that a box reads.
        bins: in x and in y.
    """
    batch, channels = maps[0].shape[:2]
    heights, widths, sizes = (
        torch.tensor(values, device=boxes.device)
        for values in zip(*((h, w, h * w) for h, w in (each.shape[-2:] for each in maps)), strict=True)
    )
    cells = torch.cat([each.flatten(2).transpose(1, 2) for each in maps], dim=1)  # (N, L, C)
    image = torch.arange(batch, device=boxes.device)[:, None] * cells.shape[1]
    first = image + (sizes.cumsum(0) - sizes)[levels]  # (N, R), the row of `cells` where an image's map begins
    scaled = boxes / torch.tensor(strides, device=boxes.device)[levels][..., None]
    columns, across = _neighbours(scaled[..., 0], scaled[..., 2], widths[levels], bins)
    rows, down = _neighbours(scaled[..., 1], scaled[..., 3], heights[levels], bins)
    rows = first[..., None, None] + rows * widths[levels][..., None, None]
    # A bin is a weighted sum of (2 SAMPLES)^2 cells: (N, R, bins, bins, 2 SAMPLES, 2 SAMPLES).
    places = rows[:, :, :, None, :, None] + columns[:, :, None, :, None, :]
    weights = down[:, :, :, None, :, None] * across[:, :, None, :, None, :]
    precise = torch.promote_types(cells.dtype, weights.dtype)  # maps in half precision are read in single
    seen = functional.embedding_bag(
        places.flatten(0, 3).flatten(1),
        cells.flatten(0, 1).to(precise),
        mode="sum",
        per_sample_weights=weights.flatten(0, 3).flatten(1).to(precise),
    )
    return seen.to(cells.dtype).view(batch, -1, bins, bins, channels).permute(0, 1, 4, 2, 3)


def _neighbours(
    low: torch.Tensor, high: torch.Tensor, size: torch.Tensor, bins: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Along one axis: the cells that the points of every bin read, and with which weights, (N, R, bins, 2 SAMPLES).

    Args:
        low, high: (N, R), where the boxes begin and end, in cells.
        size: (N, R), number of cells of the map.
        bins: number of bins.
    """
    count = bins * SAMPLES
    shares = (torch.arange(count, device=low.device) + 0.5) / count
    points = low[..., None] + (high - low)[..., None] * shares - 0.5
    last = (size - 1)[..., None]
    points = points.clamp(min=0).minimum(last)
    before = points.detach().floor()
    beyond = points - before
    cells = torch.stack((before, (before + 1).minimum(last)), dim=-1).long()
    weights = torch.stack((1 - beyond, beyond), dim=-1) / SAMPLES
    shape = (*low.shape, bins, 2 * SAMPLES)
    return cells.reshape(shape), weights.reshape(shape)
