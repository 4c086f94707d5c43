"""The random moves of the Square Attack on one image (docs/specs/beyond.md, 5.1).

Squares lie in the bounding box of the region that may change; (h, w) is its size.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.threats.attacks.asking.query_attack import Stream, Window, bounding_box

FALLS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Of 10000 steps, after which the share of pixels in a square halves."""
TINY = 1e-12


def square_share(first: float, step: int, steps: int) -> float:
    """The share of the image that the square of a step (from 0) covers."""
    at = int(step / steps * 10000)
    halvings = sum(at > fall for fall in FALLS)
    return first * 0.5**halvings


def linf_side(share: float, height: int, width: int) -> int:
    """The side of a square that covers a share of the image."""
    return min(max(round(math.sqrt(share * height * width)), 1), height, width)


def l2_side(share: float, height: int, width: int) -> int:
    """As `linf_side`, at least 3 and odd where the image is large enough."""
    side = max(linf_side(share, height, width), 3)
    return min(side + (side % 2 == 0), height, width)


@lru_cache(maxsize=256)
def bump(rows: int, columns: int) -> npt.NDArray[np.float64]:
    """Rectangles around the middle, the k-th of height 1 / (k + 1)^2, (rows, columns), of unit norm."""
    field = np.zeros((rows, columns))
    middle, centre = rows // 2, columns // 2
    for k in range(max(middle, centre) + 1):
        field[max(middle - k, 0) : middle + k + 1, max(centre - k, 0) : centre + k + 1] += 1 / (k + 1) ** 2
    return field / max(float(np.linalg.norm(field)), TINY)


@lru_cache(maxsize=256)
def double_bump(side: int) -> npt.NDArray[np.float64]:
    """A bump above its negative, (side, side), of unit norm."""
    field = np.concatenate([bump(side // 2, side), -bump(side - side // 2, side)])
    return field / float(np.linalg.norm(field))


class Moves(ABC):
    """Where one image goes next.

    Args:
        image: (C, H, W), clean.
        region: bool (H, W) of pixels that may change, or None for all.
        epsilon: the radius.
        stream: the draws of this image.
    """

    def __init__(self, image: torch.Tensor, region: torch.Tensor | None, epsilon: float, stream: Stream) -> None:
        self.box = bounding_box(image, region)
        self.image, self.epsilon, self.stream = image, epsilon, stream
        self.free = None if region is None else region[self.box[1:]]  # (h, w)
        self.height, self.width = image[self.box].shape[1:]

    @abstractmethod
    def start(self) -> torch.Tensor:
        """The first point, (C, H, W), before the ball and the box."""

    @abstractmethod
    def step(self, point: torch.Tensor, share: float) -> torch.Tensor:
        """The next candidate from the best point, likewise; `share` is that of the pixels in the square."""

    def signs(self, count: int) -> torch.Tensor:
        """`count` draws of 1 or -1 in the type of the image."""
        return torch.from_numpy(np.where(2 * self.stream(count) - 1 > 0, 1.0, -1.0)).to(self.image)

    def window(self, side: int) -> Window:
        """A random square inside (C, h, w); the last row and column stay out of reach, as in the reference."""
        row, column = (int(u * (length - side)) for u, length in zip(self.stream(2), self.size, strict=True))
        return slice(None), slice(row, row + side), slice(column, column + side)

    @property
    def size(self) -> tuple[int, int]:
        """(h, w)."""
        return self.height, self.width


class LinfMoves(Moves):
    """Vertical stripes of ±epsilon, then squares of ±2 epsilon, one sign per channel."""

    def start(self) -> torch.Tensor:
        channels = len(self.image)
        signs = self.signs(channels * self.width).view(channels, 1, self.width)
        point = self.image.clone()
        point[self.box] += self.epsilon * signs
        return point

    def step(self, point: torch.Tensor, share: float) -> torch.Tensor:
        window = self.window(linf_side(share, *self.size))
        point = point.clone()
        point[self.box][window] += 2 * self.epsilon * self.signs(len(point)).view(-1, 1, 1)
        return point


class L2Moves(Moves):
    """Tiles of double bumps, then the budget of one window moved to another, on the sphere of radius epsilon."""

    def start(self) -> torch.Tensor:
        height, width = self.size
        side = max(1, min(height, width) // 5)
        down, across = height // side, width // side
        top, left = (height - side * down) // 2, (width - side * across) // 2
        shift = torch.zeros_like(self.image[self.box], dtype=torch.float64)
        for row in range(down):
            for column in range(across):
                rows = slice(top + row * side, top + (row + 1) * side)
                columns = slice(left + column * side, left + (column + 1) * side)
                shift[:, rows, columns] += self.bumps(side)
        return self.moved(shift)

    def step(self, point: torch.Tensor, share: float) -> torch.Tensor:
        side = l2_side(share, *self.size)
        first, second = self.window(side), self.window(side)
        shift = (point - self.image)[self.box].double()  # (C, h, w)
        both = torch.zeros_like(shift, dtype=torch.bool)
        both[first], both[second] = True, True
        own = shift[first]
        wave = self.bumps(side) + own / (_lengths(own) + TINY)
        if self.free is not None:
            wave = wave * self.free[first[1:]]
        spare = max(self.epsilon**2 - float(shift.square().sum().sqrt()) ** 2, 0.0) / len(shift)
        budget = (spare + _lengths(shift * both).square()).sqrt()
        shift[second] = 0
        shift[first] = wave / (_lengths(wave) + TINY) * budget
        return self.moved(shift)

    def bumps(self, side: int) -> torch.Tensor:
        """A double bump, upright or lying, with a sign per channel, (C, side, side)."""
        field = double_bump(side)
        field = field.T if self.stream(1)[0] > 0.5 else field
        upright = torch.from_numpy(field.copy()).to(self.image.device)
        return upright * self.signs(len(self.image)).double().view(-1, 1, 1)

    def moved(self, shift: torch.Tensor) -> torch.Tensor:
        """The image with a shift of its box, (C, h, w), scaled to the length epsilon."""
        if self.free is not None:
            shift = shift * self.free
        point = self.image.clone()
        # The constant leaves a spare budget of about 1e-12 for windows without any shift, as in the reference.
        point[self.box] += (shift / (shift.square().sum().sqrt() + TINY) * self.epsilon).to(point)
        return point


def _lengths(values: torch.Tensor) -> torch.Tensor:
    """Euclidean length of every channel, (C, 1, 1)."""
    return values.square().sum((1, 2), keepdim=True).sqrt()
