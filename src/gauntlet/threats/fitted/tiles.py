"""A perturbation as a tile that is repeated over an image, and the gradient of an image brought back to its tile."""

from __future__ import annotations

import torch
from torch.nn import functional


def tiled(tile: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """A tile (3, h, w) repeated from the top left over an image, (3, height, width); the last tiles are cropped."""
    rows, columns = (-(-side // of) for side, of in zip((height, width), tile.shape[1:], strict=True))
    return tile.repeat(1, rows, columns)[:, :height, :width]


def folded(gradient: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """The sum over images and tiles of a gradient (N, 3, H, W), (3, h, w): the adjoint of `tiled`.

    In float64 on the CPU: the sum over many images does not depend on rounding.
    """
    total = gradient.detach().cpu().double().sum(0)
    (height, width), (h, w) = total.shape[1:], size
    rows, columns = -(-height // h), -(-width // w)
    whole = functional.pad(total, (0, columns * w - width, 0, rows * h - height))
    return whole.view(3, rows, h, columns, w).sum((1, 3))


def tiled_length(tile: torch.Tensor, height: int, width: int) -> float:
    """The l2 norm of a tile repeated over an image."""
    return float(torch.linalg.vector_norm(tiled(tile.double(), height, width)))
