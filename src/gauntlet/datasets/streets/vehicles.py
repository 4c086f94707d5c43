"""Cars, vans and lorries (all of the class car), built from a side profile."""

from __future__ import annotations

import math
from typing import NamedTuple

from gauntlet.datasets.streets.classes import CAR
from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.mesh import GLASS, Color, Mesh, Paint, Point, plain
from gauntlet.datasets.streets.shadows import CIRCLE, Shadows

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
_TYRE: Color = (0.07, 0.07, 0.08)
_HUB: Color = (0.55, 0.56, 0.58)
_GLASS_DARK: Color = (0.10, 0.12, 0.14)


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


class _Frame:
    """Places points of a vehicle (forward, right, height) in the scene."""

    def __init__(self, x: float, z: float, heading: float) -> None:
        self.x, self.z = x, z
        self.sin, self.cos = round(math.sin(heading), 9), round(math.cos(heading), 9)

    def __call__(self, forward: float, right: float, height: float) -> Point:
        return (
            self.x + forward * self.sin + right * self.cos,
            height,
            self.z + forward * self.cos - right * self.sin,
        )


def choose_shape(dice: Dice) -> Shape:
    """Mostly cars; sometimes a lorry."""
    return _SHAPES["lorry"] if dice.chance(0.04) else _SHAPES[dice.choice(_COMMON)]


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
    at = _Frame(x, z, heading)
    instance = mesh.new_instance(CAR, bordered)
    body = dice.choice(_PAINTS)
    gain = dice.uniform(0.85, 1.1)
    paint = plain((body[0] * gain, body[1] * gain, body[2] * gain), 0.12, 3.0)
    dark = plain(_TYRE, 0.1)
    sheen = dice.uniform(0.45, 0.8)
    glass = Paint(GLASS, _GLASS_DARK, (sheen, sheen * 1.04, sheen * 1.1), parameters=(0.3, 6.0, shape.roof - shape.belt))

    nose, half, floor = shape.length / 2, shape.width / 2, 0.28 * shape.wheel / 0.33
    top = half * 0.84

    def face(corners: list[Point], with_paint: Paint, bias: float = 0.0) -> None:
        mesh.add(corners, with_paint, CAR, instance, bias)

    # The profile from the tail's bottom over the roof to the nose's bottom: forward, height, half width.
    profile = (
        (-nose + 0.05, floor, half * 0.94),
        (-nose, floor + 0.3, half),
        (-nose + 0.04, shape.boot, half * 0.97),
        (shape.tail, shape.belt, half * 0.97),
        (shape.rear_top, shape.roof, top),
        (shape.front_top, shape.roof, top),
        (shape.scuttle, shape.belt, half * 0.97),
        (nose - 0.12, shape.bonnet, half * 0.95),
        (nose, floor + 0.28, half * 0.97),
        (nose - 0.05, floor, half * 0.92),
    )
    boxy = shape.windows < 1.0
    for step in range(len(profile) - 1):
        (f0, y0, w0), (f1, y1, w1) = profile[step], profile[step + 1]
        is_glass = step == 5 or (step == 3 and not boxy)
        corners = [at(f0, -w0, y0), at(f0, w0, y0), at(f1, w1, y1), at(f1, -w1, y1)]
        face(corners, paint)
        if is_glass:
            inset = [
                at(f0 + (f1 - f0) * s, w * (w0 + (w1 - w0) * s), y0 + (y1 - y0) * s)
                for s, w in ((0.1, -0.86), (0.1, 0.86), (0.9, 0.86), (0.9, -0.86))
            ]
            face(inset, glass, 0.004)
    for side in (-1, 1):
        lower = [(f, y) for f, y, _ in profile if y <= shape.belt]
        face([at(f, side * half, y) for f, y in lower], paint)
        pillars = [(shape.tail, shape.belt, half * 0.97), (shape.rear_top, shape.roof, top)]
        pillars += [(shape.front_top, shape.roof, top), (shape.scuttle, shape.belt, half * 0.97)]
        face([at(f, side * w, y) for f, y, w in pillars], paint)
        _add_side_windows(shape, at, side, half, top, face, glass)
        for axle in (-nose + 0.2 * shape.length, nose - 0.18 * shape.length):
            wheel = [at(axle + shape.wheel * u, side * half, shape.wheel * (1 + v)) for u, v in CIRCLE]
            face(wheel, dark, 0.006)
            hub = [at(axle + 0.6 * shape.wheel * u, side * half, shape.wheel * (1 + 0.6 * v)) for u, v in CIRCLE]
            face(hub, plain(_HUB, 0.3, 9.0), 0.009)
            inner = side * half * 0.66
            tyre = [at(axle, inner, 0.0), at(axle, side * half, 0.0)]
            tyre += [at(axle, side * half, floor + 0.1), at(axle, inner, floor + 0.1)]
            face(tyre, dark)
    _add_ends(dice, at, shape, nose, half, floor, face)
    _add_shadow(shadows, at, shape, nose, half)


def _add_side_windows(shape: Shape, at: _Frame, side: int, half: float, top: float, face, glass: Paint) -> None:  # type: ignore[no-untyped-def]
    """The windows of one side, between belt and roof."""
    low, high = 0.12, 0.86
    rear_low = shape.tail + (shape.rear_top - shape.tail) * low + 0.12
    rear_high = shape.tail + (shape.rear_top - shape.tail) * high + 0.12
    front_low = shape.scuttle + (shape.front_top - shape.scuttle) * low - 0.1
    front_high = shape.scuttle + (shape.front_top - shape.scuttle) * high - 0.1
    rear_low = front_low - (front_low - rear_low) * shape.windows
    rear_high = front_high - (front_high - rear_high) * shape.windows
    y0, y1 = shape.belt + (shape.roof - shape.belt) * low, shape.belt + (shape.roof - shape.belt) * high
    w0, w1 = half * 0.97 + (top - half * 0.97) * low, half * 0.97 + (top - half * 0.97) * high
    middle = (rear_low + front_low) / 2
    panes = [(rear_low, rear_high, middle - 0.05, middle - 0.05), (middle + 0.05, middle + 0.05, front_low, front_high)]
    for back_low, back_high, fore_low, fore_high in panes:
        corners = [at(back_low, side * w0, y0), at(fore_low, side * w0, y0)]
        corners += [at(fore_high, side * w1, y1), at(back_high, side * w1, y1)]
        face(corners, glass, 0.004)


def _add_ends(dice: Dice, at: _Frame, shape: Shape, nose: float, half: float, floor: float, face) -> None:  # type: ignore[no-untyped-def]
    """Lamps, plates, grille and bumpers."""
    plate = plain(dice.choice(((0.9, 0.9, 0.88), (0.9, 0.8, 0.25))), 0.1)
    red, white = plain((0.72, 0.08, 0.08), 0.1), plain((0.95, 0.94, 0.88), 0.1)
    bumper = plain((0.16, 0.16, 0.17), 0.15)

    def quad(forward: float, left: float, right: float, low: float, high: float, paint: Paint) -> None:
        corners = [at(forward, left, low), at(forward, right, low), at(forward, right, high), at(forward, left, high)]
        face(corners, paint, 0.004)

    lamp_low, lamp_high = floor + 0.36, max(floor + 0.5, shape.boot - 0.08)
    for side in (-1, 1):
        quad(-nose - 0.01, side * half * 0.72, side * half * 0.96, lamp_low, lamp_high, red)
        quad(nose + 0.01, side * half * 0.6, side * half * 0.94, floor + 0.26, floor + 0.42, white)
    quad(-nose - 0.01, -half * 0.3, half * 0.3, floor + 0.34, floor + 0.46, plate)
    quad(nose + 0.01, -half * 0.3, half * 0.3, floor + 0.08, floor + 0.2, plate)
    quad(nose + 0.01, -half * 0.5, half * 0.5, floor + 0.24, floor + 0.38, bumper)
    quad(-nose - 0.01, -half * 0.95, half * 0.95, floor, floor + 0.14, bumper)


def _add_shadow(shadows: Shadows, at: _Frame, shape: Shape, nose: float, half: float) -> None:
    """The dark place under the car and the shadow of its box."""
    corners = ((-nose, -half), (-nose, half), (nose, half), (nose, -half))
    shadows.contact([at(f * 0.99, w * 1.04, 0.0) for f, w in corners])
    for step in range(4):
        (f0, w0), (f1, w1) = corners[step], corners[(step + 1) % 4]
        shadows.cast([at(f0, w0, 0.1), at(f1, w1, 0.1), at(f1, w1, shape.belt), at(f0, w0, shape.belt)])
    shadows.cast([at(f, w, shape.belt) for f, w in corners])
    ends = (shape.tail + 0.3, shape.front_top + 0.2)
    shadows.cast([at(ends[0], -half * 0.85, shape.roof), at(ends[1], -half * 0.85, shape.roof),
                  at(ends[1], half * 0.85, shape.roof), at(ends[0], half * 0.85, shape.roof)])
    for w in (-half, half):
        shadows.cast([at(ends[0], w * 0.9, shape.belt), at(ends[1], w * 0.9, shape.belt),
                      at(ends[1], w * 0.85, shape.roof), at(ends[0], w * 0.85, shape.roof)])
