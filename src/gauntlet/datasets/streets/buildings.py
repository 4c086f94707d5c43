"""Houses along the street and the skyline that closes it."""

from __future__ import annotations

from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.mesh import FACADE, Color, Mesh, Paint, Point, plain
from gauntlet.datasets.streets.shadows import Shadows
from gauntlet.datasets.streets.street import Street
from gauntlet.datasets.streets.street_classes import BUILDING

_WALLS: tuple[Color, ...] = (
    (0.62, 0.36, 0.28),  # brick
    (0.50, 0.30, 0.24),
    (0.78, 0.70, 0.56),  # sandstone
    (0.88, 0.85, 0.78),  # white render
    (0.55, 0.56, 0.58),  # concrete
    (0.38, 0.39, 0.42),
    (0.45, 0.55, 0.66),  # glass
    (0.80, 0.62, 0.42),
    (0.58, 0.64, 0.50),  # green render
    (0.72, 0.55, 0.55),
    (0.86, 0.76, 0.45),
)
_GLASS: tuple[Color, ...] = ((0.16, 0.19, 0.23), (0.28, 0.34, 0.42), (0.10, 0.11, 0.13), (0.45, 0.55, 0.66))
_TRIMS: tuple[Color, ...] = ((0.88, 0.87, 0.84), (0.35, 0.32, 0.30), (0.60, 0.56, 0.50), (0.25, 0.33, 0.30))
_ROOFS: tuple[Color, ...] = ((0.50, 0.28, 0.22), (0.30, 0.30, 0.33), (0.40, 0.34, 0.30), (0.24, 0.26, 0.30))

DEPTH = 9.0  # metres from the front of a house to its back


def varied(dice: Dice, color: Color, amount: float = 0.12) -> Color:
    """A colour near another one."""
    gain = dice.uniform(1 - amount, 1 + amount)
    return (
        min(1.0, color[0] * gain * dice.uniform(1 - amount / 2, 1 + amount / 2)),
        min(1.0, color[1] * gain),
        min(1.0, color[2] * gain * dice.uniform(1 - amount / 2, 1 + amount / 2)),
    )


def _front(dice: Dice, height: float) -> Paint:
    style = dice.choice((0.0, 0.0, 0.0, 1.0))
    ground_floor = dice.uniform(3.0, 3.8) if dice.chance(0.45) else 0.3
    storey = dice.uniform(2.7, 3.4)
    parameters = (
        dice.uniform(1.6, 3.2),
        storey,
        dice.uniform(0.4, 0.65),
        dice.uniform(0.45, 0.65),
        ground_floor,
        float(dice.integer(0, 255)),
        height,
        style,
    )
    wall = varied(dice, dice.choice(_WALLS))
    return Paint(FACADE, wall, varied(dice, dice.choice(_GLASS)), varied(dice, dice.choice(_TRIMS)), parameters)


def _blind(front: Paint) -> Paint:
    """The same wall without windows."""
    return front._replace(parameters=(*front.parameters[:4], 0.0, *front.parameters[5:7], 2.0))


def add_house(
    mesh: Mesh, shadows: Shadows, dice: Dice, street: Street, side: int, near: float, far: float, lateral: float
) -> None:
    """A house along the street between two depths; its front stands `lateral` metres from the middle of the road."""
    height = dice.uniform(4.5, 8.0) if dice.chance(0.5) else dice.uniform(7.0, 19.0)
    paint = _front(dice, height)
    x0, x1 = street.x(side * lateral, near), street.x(side * lateral, far)
    back = side * DEPTH
    front: list[Point] = [(x0, 0.0, near), (x1, 0.0, far), (x1, height, far), (x0, height, near)]
    gable: list[Point] = [(x0, 0.0, near), (x0 + back, 0.0, near), (x0 + back, height, near), (x0, height, near)]
    mesh.add(front, paint, BUILDING)
    if height < 9.5 and dice.chance(0.65):
        ridge = height + dice.uniform(1.5, 3.2)
        roof = plain(varied(dice, dice.choice(_ROOFS)), 0.3, 5.0)
        mesh.add(
            [
                (x0, height, near),
                (x1, height, far),
                (x1 + back / 2, ridge, far),
                (x0 + back / 2, ridge, near),
            ],
            roof,
            BUILDING,
        )
        gable.insert(3, (x0 + back / 2, ridge, near))
        if dice.chance(0.5):
            _add_chimney(mesh, dice, street.x(side * (lateral + DEPTH / 2), (near + far) / 2), ridge, (near + far) / 2)
    wall = _blind(paint)
    wall = wall._replace(parameters=(*wall.parameters[:6], 99.0, 2.0)) if dice.chance(0.6) else paint
    mesh.add(gable, wall, BUILDING)
    mesh.add([(x1, 0.0, far), (x1 + back, 0.0, far), (x1 + back, height, far), (x1, height, far)], wall, BUILDING)
    shadows.cast(front)
    shadows.cast(gable)
    if dice.chance(0.35):
        _add_awning(mesh, dice, street, side, near, far, lateral)


def _add_chimney(mesh: Mesh, dice: Dice, x: float, y: float, z: float) -> None:
    half, top = dice.uniform(0.3, 0.5), y + dice.uniform(0.6, 1.2)
    paint = plain(varied(dice, dice.choice(_WALLS)), 0.3)
    mesh.board(x, z, [(-half, y - 1.5), (half, y - 1.5), (half, top), (-half, top)], paint, BUILDING)


def _add_awning(mesh: Mesh, dice: Dice, street: Street, side: int, near: float, far: float, lateral: float) -> None:
    """A coloured awning or poster on a front: a bright patch that is no sign."""
    z0 = dice.uniform(near, far - 1.5)
    z1 = min(far, z0 + dice.uniform(1.5, 4.0))
    color = (dice.uniform(0.1, 0.95), dice.uniform(0.1, 0.95), dice.uniform(0.1, 0.95))
    y0 = dice.uniform(2.3, 3.0)
    y1 = y0 + dice.uniform(0.5, 1.4)
    out = lateral - dice.choice((0.05, 0.9))
    a, b = street.x(side * lateral, z0), street.x(side * lateral, z1)
    c, d = street.x(side * out, z0), street.x(side * out, z1)
    mesh.add([(c, y0, z0), (d, y0, z1), (b, y1, z1), (a, y1, z0)], plain(color, 0.2), BUILDING, bias=0.01)


def add_skyline(mesh: Mesh, dice: Dice, street: Street, depth: float, reach: float) -> None:
    """A row of distant houses across the whole view, from -reach to reach metres around the street's far end."""
    middle = street.x(0.0, depth)
    x = -reach
    while x < reach:
        width, height = dice.uniform(8.0, 22.0), dice.uniform(6.0, 17.0)
        z = depth + dice.uniform(0.0, 6.0)
        paint = _front(dice, height)
        left = middle + x
        outline = [(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)]
        if dice.chance(0.4):
            outline.insert(3, (width / 2, height + dice.uniform(2.0, 4.0)))
            paint = paint._replace(parameters=(*paint.parameters[:6], 99.0, paint.parameters[7]))
        mesh.board(left, z, outline, paint, BUILDING)
        x += width + (dice.uniform(1.0, 9.0) if dice.chance(0.3) else 0.0)
