"""What a patch on a segmentation model maximises, and what makes it printable (docs/specs/beyond.md, 7).

Nesti et al. 2022 and Rossolini et al. 2023 for the direction; Sharif et al. 2016 for printability.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from gauntlet.errors import GauntletError

PLAIN, DYNAMIC = "plain", "dynamic"
Gamma = float | str
"""Weight of the pixels that are still right: a number in [0, 1]; "dynamic" for their share; "plain" for no division."""


@dataclass(frozen=True)
class PixelTerms:
    """Sums of the cross-entropy over the pixels that count.

    Attributes:
        right: over pixels that are still right, or over all that count where gamma is "plain".
        wrong: over pixels that are wrong already.
        gamma: weight of the first term.
    """

    right: torch.Tensor
    wrong: torch.Tensor
    gamma: float


def pixel_terms(logits: torch.Tensor, labels: torch.Tensor, counted: torch.Tensor, gamma: Gamma) -> PixelTerms:
    """The two terms of a batch.

    Args:
        logits: (N, K, H, W).
        labels: int64 (N, H, W), classes wherever counted.
        counted: bool (N, H, W), valid pixels outside the patch.
        gamma: see `Gamma`.
    """
    entropy = functional.cross_entropy(logits, labels.masked_fill(~counted, 0), reduction="none")
    right = (logits.detach().argmax(1) == labels) & counted
    wrong = counted & ~right
    lost = (entropy * wrong).sum()
    if gamma == PLAIN:
        return PixelTerms((entropy * counted).sum(), lost, 1.0)
    share = float(right.sum()) / max(1, int(counted.sum()))
    return PixelTerms((entropy * right).sum(), lost, share if gamma == DYNAMIC else float(gamma))


def composed_direction(terms: PixelTerms, patch: torch.Tensor) -> torch.Tensor:
    """norm(gamma norm(grad L_r) + (1 - gamma) norm(grad L_w)), in the shape of the patch; unit l2 norms."""
    (still,) = torch.autograd.grad(terms.right, patch, retain_graph=True)
    if terms.gamma == 1:
        return unit(still)
    (lost,) = torch.autograd.grad(terms.wrong, patch)
    return unit(terms.gamma * unit(still) + (1 - terms.gamma) * unit(lost))


def unit(gradient: torch.Tensor) -> torch.Tensor:
    """A gradient with l2 norm 1; a zero gradient stays zero."""
    length = torch.linalg.vector_norm(gradient)
    return gradient / length if length > 0 else gradient


def smoothness(patch: torch.Tensor) -> torch.Tensor:
    """The sum of squared differences of neighbouring pixels, across and down."""
    across, down = patch[:, :, 1:] - patch[:, :, :-1], patch[:, 1:] - patch[:, :-1]
    return across.square().sum() + down.square().sum()


def printability(patch: torch.Tensor, colors: torch.Tensor) -> torch.Tensor:
    """The sum over pixels of the product over printable colours (n, 3) of the distance to them."""
    difference = patch[None] - colors.to(patch)[:, :, None, None]  # (n, 3, a, b)
    distances: torch.Tensor = torch.linalg.vector_norm(difference, dim=1)
    return distances.prod(0).sum()


def default_colors() -> torch.Tensor:
    """A coarse set of printable colours, (27, 3): three levels per channel, neither black nor full."""
    levels = torch.tensor([0.1, 0.5, 0.9])
    return torch.cartesian_prod(levels, levels, levels)


def read_colors(path: Path) -> tuple[tuple[float, float, float], ...]:
    """Printable colours from a text file, three numbers in [0, 1] per line."""
    try:
        rows = [[float(each) for each in line.replace(",", " ").split()] for line in path.read_text().splitlines()]
    except (OSError, ValueError, UnicodeDecodeError):
        rows = []
    colors = [(row[0], row[1], row[2]) for row in rows if len(row) == 3 and all(0 <= each <= 1 for each in row)]
    if not colors or len(colors) < sum(bool(row) for row in rows):
        raise GauntletError(f"{path} must hold printable colours, three numbers from 0 to 1 per line.")
    return tuple(colors)
