"""What stands on a pavement: lamp posts, signs, traffic lights, fences and things without a class."""

from __future__ import annotations

from gauntlet.datasets.streets.buildings import varied
from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.mesh import PLANKS, RAILING, ROUND, Color, Mesh, Paint, Point, plain
from gauntlet.datasets.streets.shadows import CIRCLE, Shadows
from gauntlet.datasets.streets.street import Street
from gauntlet.datasets.streets.street_classes import FENCE, POLE, SIGN, VOID

_METAL: tuple[Color, ...] = (
    (0.50, 0.51, 0.52),
    (0.68, 0.69, 0.70),
    (0.20, 0.22, 0.22),
    (0.22, 0.34, 0.28),
    (0.46, 0.36, 0.28),
    (0.82, 0.82, 0.80),
)
_SIGN_COLORS: tuple[Color, ...] = (
    (0.75, 0.10, 0.12),
    (0.10, 0.25, 0.65),
    (0.08, 0.42, 0.25),
    (0.92, 0.75, 0.12),
    (0.90, 0.90, 0.88),
    (0.85, 0.42, 0.10),
)
_WHITE: Color = (0.93, 0.93, 0.91)
_DARK: Color = (0.10, 0.10, 0.11)
_ANGLE_OF_A_THIN_POLE = 0.016  # width over depth: two to three pixels of a picture 128 pixels high


def _add_pole(mesh: Mesh, shadows: Shadows, dice: Dice, x: float, z: float, width: float, height: float) -> float:
    """An upright pole; half its width, which never shrinks below what a small picture can show."""
    half = max(width, _ANGLE_OF_A_THIN_POLE * z) / 2
    paint = Paint(ROUND, varied(dice, dice.choice(_METAL)), parameters=(half, 0.45, 0.2, 8.0))
    outline = [(-half, 0.0), (half, 0.0), (half * 0.85, height), (-half * 0.85, height)]
    mesh.board(x, z, outline, paint, POLE)
    shadows.post(x, z, 2 * half, height)
    shadows.spot(x, z, 4 * half, 4 * half)
    return half


def add_lamp(mesh: Mesh, shadows: Shadows, dice: Dice, x: float, z: float, toward_road: int) -> None:
    """A lamp post with an arm over the road, or a wooden pole with cross-beams."""
    height = dice.uniform(5.0, 8.5)
    half = _add_pole(mesh, shadows, dice, x, z, dice.uniform(0.18, 0.3), height)
    paint = plain(dice.choice(_METAL), 0.1)
    if dice.chance(0.7):
        reach = toward_road * dice.uniform(0.9, 2.0)
        rise = dice.uniform(0.0, 0.6)
        mesh.board(
            x,
            z,
            [(0.0, height - 2 * half), (reach, height + rise - half), (reach, height + rise + half), (0.0, height)],
            paint,
            POLE,
        )
        head = 1.6 * half
        mesh.board(
            x + reach,
            z,
            [(-3 * head, height + rise - head), (2 * head, height + rise - head), (0.0, height + rise + head)],
            paint,
            POLE,
        )
    else:
        for level in (0.92, 0.84):
            beam, y = dice.uniform(0.6, 1.0), height * level
            mesh.board(x, z, [(-beam, y), (beam, y), (beam, y + 1.6 * half), (-beam, y + 1.6 * half)], paint, POLE)


def _disc(radius: float, y: float) -> list[tuple[float, float]]:
    return [(radius * u, y + radius * v) for u, v in CIRCLE]


def add_sign(mesh: Mesh, shadows: Shadows, dice: Dice, x: float, z: float) -> None:
    """A traffic sign on a pole: round, triangular, square or a big board; some are seen from behind."""
    size = dice.uniform(0.4, 0.58)
    y = dice.uniform(2.0, 2.7)
    _add_pole(mesh, shadows, dice, x, z, 0.14, y + 0.3)
    instance = mesh.new_instance(SIGN, bordered=False)
    shape = dice.choice(("round", "round", "triangle", "square", "board"))
    color = varied(dice, dice.choice(_SIGN_COLORS))
    inner = _WHITE if dice.chance(0.6) else varied(dice, dice.choice(_SIGN_COLORS))
    ink = _DARK if sum(inner) > 1.5 else _WHITE
    z -= 0.08
    if shape == "round":
        outline, inside = _disc(size, y), _disc(size * 0.74, y)
    elif shape == "triangle":
        high = size * 1.7
        outline = [(-size * 1.1, y - high / 2), (size * 1.1, y - high / 2), (0.0, y + high / 2)]
        inside = [(0.58 * u, y - 0.06 + 0.58 * (v - y)) for u, v in outline]
    else:
        wide = size * (1.0 if shape == "square" else dice.uniform(1.4, 2.2))
        outline = [(-wide, y - size), (wide, y - size), (wide, y + size), (-wide, y + size)]
        inside = [(0.86 * u, y + 0.84 * (v - y)) for u, v in outline]
    shadows.cast([(x + u, v, z) for u, v in outline])
    if dice.chance(0.12):  # seen from behind
        gray = dice.uniform(0.35, 0.65)
        mesh.board(x, z + 0.16, outline, plain((gray, gray, gray), 0.2), SIGN, instance=instance)
        return
    mesh.board(x, z, outline, plain(color, 0.06), SIGN, instance=instance)
    mesh.board(x, z, inside, plain(inner, 0.06), SIGN, instance=instance, bias=0.003)
    if shape == "board":
        for line in (-0.4, 0.05, 0.5):
            left, right = -size * 1.0, size * dice.uniform(0.2, 1.0)
            low, high = y + size * line, y + size * (line + 0.22)
            mesh.board(
                x,
                z,
                [(left, low), (right, low), (right, high), (left, high)],
                plain(ink, 0.0),
                SIGN,
                instance=instance,
                bias=0.006,
            )
    else:
        w, h = size * dice.uniform(0.1, 0.45), size * dice.uniform(0.12, 0.45)
        mark = [(-w, y - h), (w, y - h), (w, y + h), (-w, y + h)]
        mesh.board(x, z, mark, plain(ink, 0.0), SIGN, instance=instance, bias=0.006)


def add_traffic_light(mesh: Mesh, shadows: Shadows, dice: Dice, x: float, z: float) -> None:
    """A traffic light on a pole; its box is of the class sign_symbol, as in CamVid."""
    y = dice.uniform(2.6, 3.2)
    _add_pole(mesh, shadows, dice, x, z, 0.14, y)
    instance = mesh.new_instance(SIGN, bordered=False)
    z -= 0.1
    half, high = 0.24, 1.05
    case = [(-half, y - 0.2), (half, y - 0.2), (half, y + high), (-half, y + high)]
    mesh.board(
        x, z, case, plain(dice.choice((_DARK, (0.16, 0.2, 0.18), (0.6, 0.55, 0.2))), 0.1), SIGN, instance=instance
    )
    on = dice.integer(0, 2)
    lamps: tuple[Color, ...] = ((0.1, 0.75, 0.35), (0.9, 0.65, 0.1), (0.9, 0.12, 0.1))
    for step, lamp in enumerate(lamps):
        gain = 1.5 if step == on else 0.25
        paint = plain((lamp[0] * gain, lamp[1] * gain, lamp[2] * gain), 0.0)
        mesh.board(x, z, _disc(0.15, y + 0.02 + 0.4 * step), paint, SIGN, instance=instance, bias=0.003)
    shadows.cast([(x + u, v, z) for u, v in case])


def _along(street: Street, lateral: float, near: float, far: float, height: float) -> list[Point]:
    x0, x1 = street.x(lateral, near), street.x(lateral, far)
    return [(x0, 0.0, near), (x1, 0.0, far), (x1, height, far), (x0, height, near)]


def add_fence(
    mesh: Mesh, shadows: Shadows, dice: Dice, street: Street, lateral: float, near: float, far: float
) -> None:
    """A fence along the street: planks, or a railing that one looks through; its whole area is labelled fence."""
    height = dice.uniform(1.0, 1.7)
    z = near
    if dice.chance(0.5):
        color = varied(dice, dice.choice(((0.50, 0.36, 0.24), (0.85, 0.84, 0.80), (0.36, 0.42, 0.34), (0.5, 0.5, 0.5))))
        paint = Paint(PLANKS, color, parameters=(dice.choice((0.16, 0.25, 0.5)), 0.35))
    else:
        color = varied(dice, dice.choice(_METAL))
        paint = Paint(RAILING, color, parameters=(dice.uniform(0.16, 0.3), 0.35, height, 0.09, 0.25))
    while z < far:  # short pieces, so that the fence follows the bend of the street
        end = min(far, z + 6.0)
        points = _along(street, lateral, z, end, height)
        mesh.add(points, paint, FENCE)
        shadows.cast(points)
        z = end


def add_cross_fence(mesh: Mesh, dice: Dice, x0: float, x1: float, z: float) -> None:
    """A fence that faces the camera: a barrier at the end of a plot or works on the pavement."""
    height = dice.uniform(0.9, 1.5)
    color = varied(dice, dice.choice(_METAL))
    kind = dice.choice((PLANKS, RAILING))
    parameters = (0.22, 0.3) if kind == PLANKS else (0.2, 0.35, height, 0.1, 0.25)
    points: list[Point] = [(x0, 0.0, z), (x1, 0.0, z), (x1, height, z), (x0, height, z)]
    mesh.add(points, Paint(kind, color, parameters=parameters), FENCE)


def add_clutter(mesh: Mesh, shadows: Shadows, dice: Dice, x: float, z: float) -> None:
    """A bin, a box or a bench: something that has no class and is labelled void."""
    w, h, d = dice.uniform(0.25, 0.5), dice.uniform(0.6, 1.2), dice.uniform(0.3, 0.7)
    paint = plain((dice.uniform(0.1, 0.7), dice.uniform(0.1, 0.7), dice.uniform(0.1, 0.7)), 0.25)
    mesh.add([(x - w, 0.0, z), (x + w, 0.0, z), (x + w, h, z), (x - w, h, z)], paint, VOID)
    mesh.add([(x - w, h, z), (x + w, h, z), (x + w, h, z + d), (x - w, h, z + d)], paint, VOID)
    for edge in (x - w, x + w):
        mesh.add([(edge, 0.0, z), (edge, 0.0, z + d), (edge, h, z + d), (edge, h, z)], paint, VOID)
    shadows.cast([(x - w, 0.0, z), (x + w, 0.0, z), (x + w, h, z), (x - w, h, z)])
    shadows.spot(x, z + d / 2, 2.6 * w, 1.6 * d)


def add_bonnet(mesh: Mesh, dice: Dice, eye: float, bottom: float) -> None:
    """The bonnet of the car that carries the camera, void; `bottom` is how far the view reaches down at 1 m."""
    z = 1.2
    low = eye - bottom * z - 0.05
    high = eye - bottom * z * dice.uniform(0.80, 0.92)
    edge = low + (high - low) * 0.3
    half = dice.uniform(0.75, 1.1)
    tone = dice.uniform(0.08, 0.6)
    color = (tone * dice.uniform(0.8, 1.2), tone, tone * dice.uniform(0.8, 1.2))
    outline = [(-1.6, low), (1.6, low), (half, edge), (half * 0.6, high - 0.012), (0.0, high)]
    outline += [(-half * 0.6, high - 0.012), (-half, edge)]
    mesh.board(0.0, z, outline, plain(color, 0.35, 4.0), VOID)
