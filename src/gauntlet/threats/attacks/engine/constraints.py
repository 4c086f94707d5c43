"""Where an attack may go: a norm ball around the image, the box [0, 1] and a region of pixels, all of them exact."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TypeVar

import torch

from gauntlet.errors import GauntletError
from gauntlet.threats.attacks.engine.norms import image_length

NORMS = ("linf", "l2")


def largest_at_most(value: float, dtype: torch.dtype) -> float:
    """The largest number of a floating-point type that does not exceed a double."""
    rounded = torch.tensor(value, dtype=dtype)
    if rounded.item() > value:
        rounded = torch.nextafter(rounded, torch.tensor(-math.inf, dtype=dtype))
    return rounded.item()


def rounded_towards(target: torch.Tensor, wanted: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """`wanted` in the type of `target`, moved to the neighbouring number where it is further from it than `limit`.

    Args:
        target: the image, (N, 3, H, W), in the working type.
        wanted: where to go, in the working type or in float64.
        limit: how far from the image at most, float64, broadcastable.
    """
    result = wanted.to(target.dtype)
    too_far = (result.double() - target.double()).abs() > limit
    return torch.where(too_far, torch.nextafter(result, target), result)


Shape = TypeVar("Shape", bound="Ball")


class Ball(ABC):
    """A norm ball around each image, cut with the box and a region.

    Args:
        images: (N, 3, H, W), the centres, in [0, 1].
        radius: one per image, float64 (N,).
        region: bool (N, H, W) of pixels that may change, or None for all.
        box: whether the result must stay in [0, 1].
    """

    def __init__(self, images: torch.Tensor, radius: torch.Tensor, region: torch.Tensor | None, box: bool) -> None:
        self.images = images
        self.radius = radius.double().view(-1, 1, 1, 1)
        self.region = None if region is None else region.unsqueeze(1)
        self.box = box

    @abstractmethod
    def project(self, points: torch.Tensor) -> torch.Tensor:
        """The nearest allowed points, up to rounding; what an iterate goes through."""

    @abstractmethod
    def finish(self, points: torch.Tensor) -> torch.Tensor:
        """Allowed points without any rounding error; what the result goes through."""

    @abstractmethod
    def noise(self, draw: torch.Tensor, scaled: bool) -> torch.Tensor:
        """A random start from a uniform draw in [-1, 1], (N, 3, H, W), before projection."""

    def select(self: Shape, rows: torch.Tensor) -> Shape:
        """The ball of some of the images."""
        region = None if self.region is None else self.region[rows].squeeze(1)
        return type(self)(self.images[rows], self.radius.flatten()[rows], region, self.box)

    def _inside(self, points: torch.Tensor) -> torch.Tensor:
        if self.box:
            points = points.clamp(0, 1)
        return points if self.region is None else torch.where(self.region, points, self.images)


class LinfBall(Ball):
    """|x' - x| <= radius in every element, by two clamps against bounds that are exact in the working type."""

    def __init__(self, images: torch.Tensor, radius: torch.Tensor, region: torch.Tensor | None, box: bool) -> None:
        super().__init__(images, radius, region, box)
        kept = torch.tensor([largest_at_most(value, images.dtype) for value in radius.tolist()], dtype=images.dtype)
        reach = kept.to(images.device).view(-1, 1, 1, 1)
        limit = reach.double()
        self.low = self._inside(rounded_towards(images, images - reach, limit))
        self.high = self._inside(rounded_towards(images, images + reach, limit))

    def project(self, points: torch.Tensor) -> torch.Tensor:
        return torch.minimum(torch.maximum(points, self.low), self.high)

    def finish(self, points: torch.Tensor) -> torch.Tensor:
        return self.project(points)

    def noise(self, draw: torch.Tensor, scaled: bool) -> torch.Tensor:
        if scaled:  # AutoAttack: the largest element reaches the radius
            draw = draw / draw.abs().amax(dim=(1, 2, 3), keepdim=True).clamp_min(1e-12)
        return self.images + (draw * self.radius).to(self.images.dtype)


class L2Ball(Ball):
    """|x' - x|_2 <= radius over channels and pixels of one image; the box after the ball (docs/specs/attacks.md, 0)."""

    def project(self, points: torch.Tensor) -> torch.Tensor:
        difference = self._masked(points - self.images)
        length = image_length(difference).clamp_min(1e-12)
        factor = (self.radius.to(length.dtype) / length).clamp(max=1)
        return self._inside(self.images + difference * factor)

    def finish(self, points: torch.Tensor) -> torch.Tensor:
        points = self._inside(points)
        difference = points.double() - self.images.double()
        length = image_length(difference)
        # A few units in the last place of slack: whoever sums the squares in the working type rounds differently.
        allowed = self.radius * (1 - 8 * torch.finfo(points.dtype).eps)
        shrunk = difference * (allowed / length.clamp_min(1e-300)).clamp(max=1)
        rounded = rounded_towards(self.images, self.images.double() + shrunk, shrunk.abs())
        return torch.where(length > allowed, rounded, points)

    def noise(self, draw: torch.Tensor, scaled: bool) -> torch.Tensor:
        difference = self._masked(draw)
        length = image_length(difference).clamp_min(1e-12)
        return self.images + (difference * (self.radius / length)).to(self.images.dtype)

    def _masked(self, difference: torch.Tensor) -> torch.Tensor:
        return difference if self.region is None else difference * self.region


def ball(norm: str, images: torch.Tensor, radius: torch.Tensor, region: torch.Tensor | None, box: bool = True) -> Ball:
    """The ball of a norm by its name, "linf" or "l2"."""
    if norm == "linf":
        return LinfBall(images, radius, region, box)
    if norm == "l2":
        return L2Ball(images, radius, region, box)
    raise GauntletError(f"norm must be one of {', '.join(NORMS)}, not '{norm}'.")
