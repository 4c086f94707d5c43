"""Moves of an image about its centre: where the content of every output pixel comes from, and where a point goes to.

Points are (x, y) in pixels from the centre (W/2, H/2) of the image, x to the right, y down; the pixel in row r and
column q has its centre at (q + 1/2 - W/2, r + 1/2 - H/2). docs/specs/beyond.md, section 8.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError

Coordinates = npt.NDArray[np.float64]
Point = tuple[Coordinates, Coordinates]
Size = tuple[int, int]
"""Height and width of the image in pixels."""

_QUARTERS = {0: (1.0, 0.0), 1: (0.0, 1.0), 2: (-1.0, 0.0), 3: (0.0, -1.0)}
"""Cosine and sine of whole quarter turns, exactly."""
_NEWTON_STEPS = 50


class Move(ABC):
    """One move; `source` and `target` undo each other."""

    @abstractmethod
    def source(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        """Where the content at an output point comes from."""

    @abstractmethod
    def target(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        """Where the content at an input point goes to."""

    @property
    def straight(self) -> bool:
        """Whether straight lines stay straight, so that the corners of a box say where it goes."""
        return True

    @property
    def magnification(self) -> float:
        """How much larger things appear, by which their distance shrinks; 1 unless the move is a zoom."""
        return 1.0


@dataclass(frozen=True)
class Rotation(Move):
    """A turn of the content, counter-clockwise on screen: 90 degrees are `numpy.rot90`."""

    degrees: float

    def _turn(self, x: Coordinates, y: Coordinates, sign: int) -> Point:
        quarters, rest = divmod(self.degrees, 90)
        cosine, sine = math.cos(math.radians(self.degrees)), math.sin(math.radians(self.degrees))
        if rest == 0:
            cosine, sine = _QUARTERS[int(quarters) % 4]
        return cosine * x - sign * sine * y, sign * sine * x + cosine * y

    def source(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        return self._turn(x, y, 1)

    def target(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        return self._turn(x, y, -1)


@dataclass(frozen=True)
class Translation(Move):
    """A shift of the content by dx to the right and dy down, in pixels."""

    dx: float = 0.0
    dy: float = 0.0

    def source(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        return x - self.dx, y - self.dy

    def target(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        return x + self.dx, y + self.dy


@dataclass(frozen=True)
class Scale(Move):
    """A zoom: things appear `factor` times as large."""

    factor: float

    def __post_init__(self) -> None:
        if self.factor <= 0:
            raise GauntletError(f"the factor of a scale must be positive, not {self.factor:g}.")

    def source(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        return x / self.factor, y / self.factor

    def target(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        return x * self.factor, y * self.factor

    @property
    def magnification(self) -> float:
        return self.factor


@dataclass(frozen=True)
class Shear(Move):
    """Rows pushed sideways, by `slope` pixels to the right per pixel below the centre (rolling shutter)."""

    slope: float

    def source(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        return x - self.slope * y, y

    def target(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        return x + self.slope * y, y


@dataclass(frozen=True)
class Radial(Move):
    """Distortion of a lens: the source of radius rho is rho (1 + k1 rho^2 + k2 rho^4), rho being 1 in the corners.

    k1 > 0 is a barrel: content shrinks towards the centre. Beyond the corners the function goes on along its tangent:
    what comes from there is outside of the image in any case.
    """

    k1: float
    k2: float = 0.0

    def __post_init__(self) -> None:
        ends = (0.0, 1.0, min(max(-3 * self.k1 / (10 * self.k2), 0.0), 1.0) if self.k2 else 0.0)
        if min(map(self._slope, ends)) <= 0:
            raise GauntletError(
                f"radial distortion with k1 {self.k1:g} and k2 {self.k2:g} would fold the image; rho (1 + k1 rho^2 + "
                "k2 rho^4) must increase up to rho 1, so k1 must be above -1/3 where k2 is 0."
            )

    @property
    def straight(self) -> bool:
        return False

    def _slope(self, squared: float) -> float:
        """The derivative of the source radius, at rho^2."""
        return 1 + 3 * self.k1 * squared + 5 * self.k2 * squared**2

    def source(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        squared = (x**2 + y**2) / _corner(size) ** 2
        inside = np.minimum(squared, 1)
        stretch = 1 + self.k1 * inside + self.k2 * inside**2
        beyond = squared > 1
        if beyond.any():
            rho = np.sqrt(squared[beyond])
            stretch[beyond] = (1 + self.k1 + self.k2 + (rho - 1) * self._slope(1.0)) / rho
        return x * stretch, y * stretch

    def target(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        corner = _corner(size)
        wanted = np.hypot(x, y) / corner  # the source radius; rho is sought
        edge, slope = 1 + self.k1 + self.k2, self._slope(1.0)
        rho = np.minimum(wanted / edge, 1)
        for _ in range(_NEWTON_STEPS):
            squared = rho**2
            excess = rho * (1 + self.k1 * squared + self.k2 * squared**2) - wanted
            step = excess / (1 + 3 * self.k1 * squared + 5 * self.k2 * squared**2)
            rho = np.clip(rho - step, 0, 1)
            if np.abs(step).max(initial=0.0) < 1e-15:
                break
        rho = np.where(wanted > edge, 1 + (wanted - edge) / slope, rho)
        stretch = np.divide(rho, wanted, out=np.ones_like(wanted), where=wanted > 0)
        return x * stretch, y * stretch


@dataclass(frozen=True)
class Perspective(Move):
    """The keystone of a camera turned to the side and tilted: the source is (x, y) / (1 + turn x' + tilt y').

    x' and y' run from -1 to 1 over the image. At turn 0.2 what is seen at the right edge comes from 1 / 1.2 of the way
    there, what is seen at the left edge from 1 / 0.8.
    """

    turn: float = 0.0
    tilt: float = 0.0

    def __post_init__(self) -> None:
        if abs(self.turn) + abs(self.tilt) >= 1:
            raise GauntletError(
                f"a perspective with turn {self.turn:g} and tilt {self.tilt:g} has its horizon inside the image; their "
                "sizes must add up to less than 1."
            )

    def _divide(self, x: Coordinates, y: Coordinates, size: Size, sign: int) -> Point:
        height, width = size
        depth = 1 + sign * (self.turn * x / (width / 2) + self.tilt * y / (height / 2))
        return x / depth, y / depth

    def source(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        return self._divide(x, y, size, 1)

    def target(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        return self._divide(x, y, size, -1)


@dataclass(frozen=True)
class Chain(Move):
    """Moves one after the other, the first one first; images are resampled once."""

    moves: tuple[Move, ...]

    def source(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        for move in reversed(self.moves):
            x, y = move.source(x, y, size)
        return x, y

    def target(self, x: Coordinates, y: Coordinates, size: Size) -> Point:
        for move in self.moves:
            x, y = move.target(x, y, size)
        return x, y

    @property
    def straight(self) -> bool:
        return all(move.straight for move in self.moves)

    @property
    def magnification(self) -> float:
        return math.prod(move.magnification for move in self.moves)


def _corner(size: Size) -> float:
    """The distance of a corner from the centre."""
    return math.hypot(*size) / 2
