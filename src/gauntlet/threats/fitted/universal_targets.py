"""What a universal perturbation wants of label maps: one map for all images, or a class hidden behind its surroundings.

Metzen et al. 2017; docs/specs/beyond.md, 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy import ndimage

from gauntlet.threats.attacks.engine.pixels import Pixels
from gauntlet.threats.attacks.engine.problem import Problem


def without_class(labels: npt.NDArray[np.integer], hidden: int) -> npt.NDArray[np.integer] | None:
    """A label map whose pixels of one class take the label of the nearest other pixel; None where there is no other.

    Nearest by Euclid; of equally near pixels the one with the smallest row, then the smallest column.
    """
    own = labels == hidden
    if own.all():
        return None
    filled = labels.copy()
    if not own.any():
        return filled
    reach = np.rint(ndimage.distance_transform_edt(own) ** 2).astype(np.int64)  # squared distances are whole numbers
    rows, columns = np.nonzero(own)
    height, width = labels.shape
    undecided: npt.NDArray[np.bool_] = np.ones(len(rows), np.bool_)
    # Row by row from the top: the first row that has another class at the right distance decides.
    longest = int(np.sqrt(reach.max())) + 1
    for down in range(-longest, longest + 1):
        across_squared = reach[rows, columns] - down * down
        across = np.rint(np.sqrt(np.maximum(across_squared, 0))).astype(np.int64)
        possible = undecided & (across * across == across_squared) & (rows + down >= 0) & (rows + down < height)
        for sign in (-1, 1):  # the smaller column first
            column = columns + sign * across
            here = possible & undecided & (column >= 0) & (column < width)
            found = np.flatnonzero(here)
            found = found[~own[rows[found] + down, column[found]]]
            filled[rows[found], columns[found]] = labels[rows[found] + down, column[found]]
            undecided[found] = False
    return filled


@dataclass(frozen=True)
class PixelAim:
    """What a perturbation wants of the pixels of a batch, as a gradient.

    Attributes:
        problem: the images; its labels are the truth to leave, or the target to reach.
        towards: whether the labels are the target.
        weights: (N, H, W) of the pixels, or None for equal ones.
        sure: pixels whose target has more probability than this are left out.
    """

    problem: Problem
    towards: bool
    weights: torch.Tensor | None = None
    sure: float = 1.0

    @property
    def images(self) -> torch.Tensor:
        return self.problem.images

    def gradient(self, points: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Of what is maximised, the mean over the pixels of an image, (N, 3, H, W); and its sum over the images."""
        value = 0.0

        def visit(pixels: Pixels, part: slice) -> torch.Tensor:
            nonlocal value
            entropy = pixels.cross_entropy
            weights = self.problem.counted[part].to(entropy.dtype) / entropy[0].numel()
            if self.weights is not None:
                weights = weights * self.weights[part]
            if self.towards:
                weights = -weights * (torch.exp(-entropy.detach()) <= self.sure)
            values = entropy * weights
            value += float(values.detach().sum())
            return values

        slope = self.problem.sweep(points, visit)
        return slope, value
