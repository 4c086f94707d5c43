"""Cars, vans and lorries (all of the class car), built from a side profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.mesh import GLASS, Color, Mesh, Paint, Point, plain
from gauntlet.datasets.streets.shadows import CIRCLE, Shadows
from gauntlet.datasets.streets.street_classes import CAR

_PAINTS: tuple[Color, ...] = (
    (0.82, 0.83, 0.84),
    (0.62, 0.63, 0.65),
    (0.42, 0.43, 0.45),
    (0.14, 0.14, 0.16),
    (0.28, 0.30, 0.34),
    (0.62, 0.10, 0.10),
    (0.12, 0.22, 0.46),
    (0.20, 0.36, 0.28),
    (0.78, 0.66, 0.20),
    (0.48, 0.36, 0.26),
    (0.74, 0.68, 0.58),
    (0.80, 0.40, 0.12),
    (0.40, 0.56, 0.70),
)
_DARK = plain((0.07, 0.07, 0.08), 0.1)
_HUB = plain((0.55, 0.56, 0.58), 0.3, 9.0)
_RED, _WHITE = plain((0.72, 0.08, 0.08), 0.1), plain((0.95, 0.94, 0.88), 0.1)
_BUMPER = plain((0.16, 0.16, 0.17), 0.15)
_PLATES = (plain((0.9, 0.9, 0.88), 0.1), plain((0.9, 0.8, 0.25), 0.1))


class Shape(NamedTuple):
    """A car in profile; distances in metres, forward of its middle and above the ground.

    Attributes:
        length, width: overall.
        belt: height of the lower edge of the windows.
        roof: height of the roof.
        tail, rear_top, front_top, scuttle: where rear window and windscreen start and end, from the tail to the nose.
        bonnet: height of the nose's upper edge.
        boot: height of the tail's upper edge.
        windows: share of the side, from the front, that has windows.
        wheel: radius of a wheel.
    """

    length: float
    width: float
    belt: float
    roof: float
    tail: float
    rear_top: float
    front_top: float
    scuttle: float
    bonnet: float
    boot: float
    windows: float
    wheel: float


_SHAPES = {
    "saloon": Shape(4.5, 1.78, 0.95, 1.44, -1.75, -0.95, 0.35, 1.15, 0.74, 0.92, 1.0, 0.33),
    "hatchback": Shape(3.9, 1.72, 0.95, 1.50, -1.92, -1.55, 0.30, 1.05, 0.76, 0.94, 1.0, 0.31),
    "estate": Shape(4.6, 1.80, 1.00, 1.55, -2.25, -1.95, 0.40, 1.20, 0.80, 0.98, 1.0, 0.34),
    "off-roader": Shape(4.5, 1.88, 1.12, 1.78, -2.20, -1.98, 0.45, 1.05, 0.98, 1.10, 1.0, 0.39),
    "van": Shape(5.2, 2.00, 1.25, 2.30, -2.58, -2.52, 1.25, 2.05, 1.05, 1.24, 0.33, 0.36),
    "lorry": Shape(7.2, 2.35, 1.50, 3.10, -3.58, -3.56, 2.75, 3.40, 1.40, 1.49, 0.16, 0.48),
}
_COMMON = ("saloon", "hatchback", "estate", "off-roader", "saloon", "hatchback", "van")


def choose_shape(dice: Dice) -> Shape:
    """Mostly cars; sometimes a lorry."""
    return _SHAPES["lorry"] if dice.chance(0.04) else _SHAPES[dice.choice(_COMMON)]


class _Car:
    """A vehicle that is being built; its own coordinates are forward of and right of its middle, and height."""

    def __init__(self, mesh: Mesh, shape: Shape, instance: int, x: float, z: float, heading: float) -> None:
        self.mesh, self.shape, self.instance = mesh, shape, instance
        self.x, self.z = x, z
        # Rounded, so that machines whose sin and cos differ in the last bit agree.
        self.sin, self.cos = round(math.sin(heading), 9), round(math.cos(heading), 9)
        self.nose, self.half = shape.length / 2, shape.width / 2
        self.floor = 0.85 * shape.wheel
        self.belt_half, self.roof_half = 0.97 * self.half, 0.84 * self.half

    def at(self, forward: float, right: float, height: float) -> Point:
        """A point of the vehicle in the scene."""
        return (
            self.x + forward * self.sin + right * self.cos,
            height,
            self.z + forward * self.cos - right * self.sin,
        )

    def face(self, corners: Sequence[Point], paint: Paint, bias: float = 0.0) -> None:
        """Adds a face of the vehicle."""
        self.mesh.add(corners, paint, CAR, self.instance, bias)

    def body(self, paint: Paint, glass: Paint) -> None:
        """The hull: strips across from tail to nose, and both sides."""
        shape, nose, floor, half = self.shape, self.nose, self.floor, self.half
        profile = (  # forward, height, half width; from the tail's bottom over the roof to the nose's bottom
            (-nose + 0.05, floor, half * 0.94),
            (-nose, floor + 0.3, half),
            (-nose + 0.04, shape.boot, self.belt_half),
            (shape.tail, shape.belt, self.belt_half),
            (shape.rear_top, shape.roof, self.roof_half),
            (shape.front_top, shape.roof, self.roof_half),
            (shape.scuttle, shape.belt, self.belt_half),
            (nose - 0.12, shape.bonnet, half * 0.95),
            (nose, floor + 0.28, half * 0.97),
            (nose - 0.05, floor, half * 0.92),
        )
        rear_window, windscreen = 3, 5
        for step in range(len(profile) - 1):
            (f0, y0, w0), (f1, y1, w1) = profile[step], profile[step + 1]
            self.face([self.at(f0, -w0, y0), self.at(f0, w0, y0), self.at(f1, w1, y1), self.at(f1, -w1, y1)], paint)
            if step == windscreen or (step == rear_window and shape.windows == 1.0):
                inset = [
                    self.at(f0 + (f1 - f0) * s, w * (w0 + (w1 - w0) * s), y0 + (y1 - y0) * s)
                    for s, w in ((0.1, -0.86), (0.1, 0.86), (0.9, 0.86), (0.9, -0.86))
                ]
                self.face(inset, glass, 0.004)
        lower = [(f, y) for f, y, _ in profile if y <= shape.belt]
        for side in (-1, 1):
            self.face([self.at(f, side * half, y) for f, y in lower], paint)
            self.face([self.at(f, side * w, y) for f, y, w in profile[3:7]], paint)

    def side_windows(self, side: int, glass: Paint) -> None:
        """Two panes between belt and roof."""
        shape = self.shape
        low, high = 0.12, 0.86
        edges = []
        for share in (low, high):
            rear = shape.tail + (shape.rear_top - shape.tail) * share + 0.12
            front = shape.scuttle + (shape.front_top - shape.scuttle) * share - 0.1
            rear = front - (front - rear) * shape.windows
            height = shape.belt + (shape.roof - shape.belt) * share
            width = side * (self.belt_half + (self.roof_half - self.belt_half) * share)
            edges.append((rear, front, width, height))
        (rear_low, front_low, w0, y0), (rear_high, front_high, w1, y1) = edges
        pillar = (rear_low + front_low) / 2
        for back_low, back_high, fore_low, fore_high in (
            (rear_low, rear_high, pillar - 0.05, pillar - 0.05),
            (pillar + 0.05, pillar + 0.05, front_low, front_high),
        ):
            corners = [self.at(back_low, w0, y0), self.at(fore_low, w0, y0)]
            self.face([*corners, self.at(fore_high, w1, y1), self.at(back_high, w1, y1)], glass, 0.004)

    def wheels(self, side: int) -> None:
        """Tyres and hubs of one side, and the tyres as seen from ahead or behind."""
        radius, right = self.shape.wheel, side * self.half
        for axle in (-self.nose + 0.2 * self.shape.length, self.nose - 0.18 * self.shape.length):
            self.face([self.at(axle + radius * u, right, radius * (1 + v)) for u, v in CIRCLE], _DARK, 0.006)
            hub = [self.at(axle + 0.6 * radius * u, right, radius * (1 + 0.6 * v)) for u, v in CIRCLE]
            self.face(hub, _HUB, 0.009)
            inner, top = right * 0.66, self.floor + 0.1
            tread = [self.at(axle, inner, 0.0), self.at(axle, right, 0.0)]
            self.face([*tread, self.at(axle, right, top), self.at(axle, inner, top)], _DARK)

    def ends(self, plate: Paint) -> None:
        """Lamps, plates, grille and bumpers."""
        half, floor = self.half, self.floor
        back, front = -self.nose - 0.01, self.nose + 0.01
        tail_lamp = max(floor + 0.5, self.shape.boot - 0.08)
        for forward, left, right, low, high, paint in (
            (back, -half * 0.96, -half * 0.72, floor + 0.36, tail_lamp, _RED),
            (back, half * 0.72, half * 0.96, floor + 0.36, tail_lamp, _RED),
            (back, -half * 0.3, half * 0.3, floor + 0.34, floor + 0.46, plate),
            (back, -half * 0.95, half * 0.95, floor, floor + 0.14, _BUMPER),
            (front, -half * 0.94, -half * 0.6, floor + 0.26, floor + 0.42, _WHITE),
            (front, half * 0.6, half * 0.94, floor + 0.26, floor + 0.42, _WHITE),
            (front, -half * 0.3, half * 0.3, floor + 0.08, floor + 0.2, plate),
            (front, -half * 0.5, half * 0.5, floor + 0.24, floor + 0.38, _BUMPER),
        ):
            corners = [self.at(forward, left, low), self.at(forward, right, low)]
            self.face([*corners, self.at(forward, right, high), self.at(forward, left, high)], paint, 0.004)

    def shadow(self, shadows: Shadows) -> None:
        """The dark place under the vehicle and the shadows of two boxes, up to the belt and up to the roof."""
        shape, half = self.shape, self.half
        under = ((-self.nose, -half), (-self.nose, half), (self.nose, half), (self.nose, -half))
        shadows.contact([self.at(f * 0.99, w * 1.04, 0.0) for f, w in under])
        rear, front, w = shape.tail + 0.3, shape.front_top + 0.2, half * 0.87
        cabin = ((rear, -w), (rear, w), (front, w), (front, -w))
        for outline, low, high in ((under, 0.1, shape.belt), (cabin, shape.belt, shape.roof)):
            for step in range(4):
                (f0, w0), (f1, w1) = outline[step], outline[(step + 1) % 4]
                shadows.cast([self.at(f0, w0, low), self.at(f1, w1, low), self.at(f1, w1, high), self.at(f0, w0, high)])
            shadows.cast([self.at(f, w, high) for f, w in outline])


def add_car(
    mesh: Mesh, shadows: Shadows, dice: Dice, shape: Shape, x: float, z: float, heading: float, bordered: bool
) -> None:
    """A vehicle.

    Args:
        mesh, shadows: what it is added to.
        dice: draws its colours.
        shape: its profile.
        x, z: its middle.
        heading: where its nose points, radians from +z (away from the camera) to +x (right).
        bordered: whether it gets a void border in the label map.
    """
    color, gain, sheen = dice.choice(_PAINTS), dice.uniform(0.85, 1.1), dice.uniform(0.45, 0.8)
    paint = plain((color[0] * gain, color[1] * gain, color[2] * gain), 0.12, 3.0)
    reflection = (sheen, sheen * 1.04, sheen * 1.1)
    glass = Paint(GLASS, (0.10, 0.12, 0.14), reflection, parameters=(0.3, 6.0, shape.roof - shape.belt))
    car = _Car(mesh, shape, mesh.new_instance(CAR, bordered), x, z, heading)
    car.body(paint, glass)
    for side in (-1, 1):
        car.side_windows(side, glass)
        car.wheels(side)
    car.ends(dice.choice(_PLATES))
    car.shadow(shadows)
