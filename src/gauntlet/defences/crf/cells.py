"""The bilateral kernel of a large image: pixels hear cells of similar pixels, and only cells that are near.

Features f = (p / theta_alpha, I / theta_beta) are cut into cells of a side, cell = floor(f / side + 1/2). A pixel hears
every occupied cell c within a radius as if all its pixels stood at their centroid:

    message_i = sum over c of exp(-|f_i - centroid_c|² / 2) * (sum of the values of the pixels in c)

Which pixel belongs to which cell and which cells are near are constants; features and centroids are differentiated, so
the gradient is that of what is computed. For side -> 0 and radius -> infinity this is the exact kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.defences.crf.blocks import Block, balanced, run
from gauntlet.defences.crf.messages import answer, hear
from gauntlet.defences.crf.neighbours import bins_in_reach, keys_of, near_cells

RADIUS = 3.5
"""How far a pixel hears, from centroid to centroid, in standard deviations."""

ISOLATED = 1e-5
"""Smallest sum of weights: what is left when a pixel's own weight is taken away again is known to that only."""

CLASSES_AT_ONCE = 32
FORWARD_BLOCKS, BACKWARD_BLOCKS = 16, 4
"""More blocks share the work better; on the way back every block adds up in memory of its own."""

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Partition:
    """Cells of an image and their neighbours.

    Attributes:
        cell: of every pixel, (P,).
        pixels: sorted by cell, (P,).
        begins: where the pixels of each cell begin, (C + 1,).
        starts: where the neighbours of each cell begin, (C + 1,).
        near: the neighbours of all cells.
    """

    cell: torch.Tensor
    pixels: Whole
    begins: Whole
    starts: Whole
    near: npt.NDArray[np.uint32]

    def blocks(self, count: int) -> list[Block]:
        """Cells in blocks with about the same number of pairs of a pixel and a cell."""
        return balanced(np.diff(self.begins) * np.diff(self.starts), count)


class CellKernel:
    """The kernel of features (P, 5), applied to values (P, K); differentiable in both.

    Attributes:
        own: with how much of itself a pixel hears itself, exp(-|f_i - its centroid|² / 2), (P, 1), where it is to be
            taken away again; else None.
    """

    floor = ISOLATED

    def __init__(self, features: torch.Tensor, side: float, radius: float = RADIUS, *, self_term: bool = True) -> None:
        self.features = features
        self.pixels = len(features)
        self.own: torch.Tensor | None = None
        self.partition, self.centroids = _cut(features, side, radius)
        if not self_term:
            apart = features - self.centroids[self.partition.cell]
            self.own = torch.exp(-apart.square().sum(dim=1, keepdim=True) / 2)

    def __call__(self, values: torch.Tensor) -> torch.Tensor:
        """What every pixel hears, (P, K)."""
        sums = values.new_zeros(len(self.centroids), values.shape[1]).index_add(0, self.partition.cell, values)
        parts = [
            _Hear.apply(part, self.features, self.centroids, self.partition)  # type: ignore[no-untyped-call]
            for part in torch.split(sums, CLASSES_AT_ONCE, dim=1)
        ]
        heard = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return heard if self.own is None else heard - self.own * values


def _cut(features: torch.Tensor, side: float, radius: float) -> tuple[Partition, torch.Tensor]:
    """The partition of pixels into cells, and the centroids of the cells, (C, 5)."""
    places = torch.floor(features.detach() / side + 0.5).long().cpu().numpy()
    places -= places.min(axis=0)
    _, first, cell = np.unique(keys_of(places)[0], return_index=True, return_inverse=True)
    width = max(1, round(radius / side / 2))  # cells of a bin: neighbours lie at most two bins or so away
    bins, strides = keys_of(places[first] // width, margin=bins_in_reach(radius, width * side))
    order = np.argsort(bins, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    index = torch.from_numpy(rank[cell]).to(features.device)  # (P,), cells numbered by bin
    counts = torch.bincount(index, minlength=len(first))
    sums = features.new_zeros(len(first), features.shape[1]).index_add(0, index, features)
    centroids = sums / counts[:, None]
    starts, near = near_cells(_columns(centroids), bins[order], strides, width * side, radius)
    begins = np.append(0, np.cumsum(counts.cpu().numpy()))
    pixels = np.argsort(rank[cell], kind="stable")
    return Partition(index, pixels, begins, starts, near), centroids


class _Hear(torch.autograd.Function):
    """What pixels hear: sums of cells (C, K), features (P, 5) and centroids (C, 5) to messages (P, K)."""

    @staticmethod
    def forward(
        ctx: Any, sums: torch.Tensor, features: torch.Tensor, centroids: torch.Tensor, partition: Partition
    ) -> torch.Tensor:
        ctx.save_for_backward(sums, features, centroids)
        ctx.partition = partition
        heard = np.empty((len(features), sums.shape[1]), dtype=_array(features).dtype)
        work: Callable[..., None] = partial(hear, *_arguments(sums, features, centroids, partition))
        run(lambda block: work(*block, heard), partition.blocks(FORWARD_BLOCKS))
        return torch.from_numpy(heard).to(sums.device)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        sums, features, centroids = ctx.saved_tensors
        wanted = any(ctx.needs_input_grad[1:3])
        added: Callable[..., None] = partial(answer, *_arguments(sums, features, centroids, ctx.partition))
        above = _array(gradient)
        blocks = ctx.partition.blocks(BACKWARD_BLOCKS)
        kind = above.dtype
        to_sums = np.zeros((len(blocks), sums.shape[1], len(sums)), kind)
        to_centroids = np.zeros((len(blocks), centroids.shape[1], len(centroids)), kind)
        to_features = np.zeros(features.shape, kind)

        def work(numbered: Block) -> None:
            """Blocks write to the same features never, to the same cells often."""
            number, _ = numbered
            added(*blocks[number], above, wanted, to_sums[number], to_features, to_centroids[number])

        run(work, [(number, number + 1) for number in range(len(blocks))])
        back = [
            torch.from_numpy(each).to(sums.device) for each in (to_sums.sum(0).T, to_features, to_centroids.sum(0).T)
        ]
        return back[0], back[1] if wanted else None, back[2] if wanted else None, None


def _arguments(
    sums: torch.Tensor, features: torch.Tensor, centroids: torch.Tensor, partition: Partition
) -> tuple[Any, ...]:
    """The arguments that both loops begin with."""
    array = _array(features)
    lists = (partition.pixels, partition.begins, partition.starts, partition.near)
    return array, _columns(centroids), _columns(sums), *lists, array.dtype.type(0.5)


def _array(values: torch.Tensor) -> npt.NDArray[np.floating]:
    return np.ascontiguousarray(values.detach().cpu().numpy())


def _columns(values: torch.Tensor) -> npt.NDArray[np.floating]:
    """(N, D) as (D, N), row by row in memory."""
    return np.ascontiguousarray(values.detach().cpu().numpy().T)
