"""Pedestrians and bicyclists: flat figures that face the camera."""

from __future__ import annotations

from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.mesh import SPOKES, Color, Mesh, Paint, plain
from gauntlet.datasets.streets.shadows import CIRCLE, Shadows
from gauntlet.datasets.streets.street_classes import BICYCLIST, PEDESTRIAN

_SKIN: tuple[Color, ...] = ((0.86, 0.68, 0.56), (0.72, 0.52, 0.40), (0.50, 0.34, 0.25), (0.32, 0.21, 0.16))
_HAIR: tuple[Color, ...] = ((0.10, 0.08, 0.07), (0.32, 0.20, 0.12), (0.62, 0.50, 0.30), (0.55, 0.55, 0.55))
_CLOTHES: tuple[Color, ...] = (
    (0.12, 0.13, 0.16),
    (0.16, 0.20, 0.36),
    (0.40, 0.40, 0.42),
    (0.70, 0.70, 0.70),
    (0.86, 0.85, 0.82),
    (0.62, 0.14, 0.14),
    (0.18, 0.40, 0.26),
    (0.80, 0.62, 0.18),
    (0.50, 0.36, 0.24),
    (0.36, 0.20, 0.40),
    (0.22, 0.46, 0.62),
    (0.74, 0.66, 0.52),
)
_Outline = list[tuple[float, float]]


def _limb(x0: float, y0: float, x1: float, y1: float, wide0: float, wide1: float) -> _Outline:
    """The outline of a limb between two joints, with its width at both."""
    length = max(1e-6, ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5)
    ax, ay = -(y1 - y0) / length / 2, (x1 - x0) / length / 2
    return [
        (x0 + ax * wide0, y0 + ay * wide0),
        (x1 + ax * wide1, y1 + ay * wide1),
        (x1 - ax * wide1, y1 - ay * wide1),
        (x0 - ax * wide0, y0 - ay * wide0),
    ]


def _disc(x: float, y: float, radius: float, tall: float = 1.0) -> _Outline:
    return [(x + radius * u, y + radius * tall * v) for u, v in CIRCLE]


def _clothes(dice: Dice) -> Paint:
    color = dice.choice(_CLOTHES)
    gain = dice.uniform(0.8, 1.15)
    return plain((color[0] * gain, color[1] * gain, color[2] * gain), 0.45, 9.0)


def add_pedestrian(mesh: Mesh, shadows: Shadows, dice: Dice, x: float, z: float, bordered: bool) -> None:
    """Somebody who stands or walks, in trousers, a skirt or a long coat."""
    instance = mesh.new_instance(PEDESTRIAN, bordered)
    size = dice.uniform(1.5, 1.92)
    stout = size * dice.uniform(0.9, 1.3)
    upper, lower = _clothes(dice), _clothes(dice)
    shoes, skin, hair = plain((0.08, 0.07, 0.07), 0.2), plain(dice.choice(_SKIN), 0.1), plain(dice.choice(_HAIR), 0.3)
    stride = size * dice.choice((0.04, 0.09, 0.16)) * dice.sign()
    swing = stride * dice.uniform(0.4, 1.0)
    profile = abs(stride) > 0.14 * size  # seen from the side
    shoulder = stout * (0.085 if profile else 0.125)

    def part(outline: _Outline, paint: Paint, bias: float) -> None:
        mesh.board(x, z, outline, paint, PEDESTRIAN, instance=instance, bias=bias)

    hip = 0.49 * size
    for side, bias in ((-1, 0.0), (1, 0.001)):
        foot = side * (stride + 0.03 * size)
        part(_limb(side * 0.045 * stout, hip, foot, 0.03 * size, 0.105 * stout, 0.07 * stout), lower, bias)
        part(_limb(foot - 0.02, 0.025, foot + 0.08 * (1 if stride > 0 else -1), 0.025, 0.06, 0.05), shoes, bias)
    if dice.chance(0.25):  # a skirt or a long coat
        hem = size * dice.uniform(0.22, 0.34)
        coat = upper if dice.chance(0.5) else lower
        part(
            [(-0.1 * stout, hip * 1.15), (0.1 * stout, hip * 1.15), (0.15 * stout, hem), (-0.15 * stout, hem)],
            coat,
            0.002,
        )
    waist = 0.085 * stout
    part(
        [
            (-waist, hip - 0.02),
            (waist, hip - 0.02),
            (shoulder, 0.78 * size),
            (shoulder * 0.7, 0.83 * size),
            (-shoulder * 0.7, 0.83 * size),
            (-shoulder, 0.78 * size),
        ],
        upper,
        0.003,
    )
    for side, bias in ((-1, 0.001), (1, 0.004)):
        hand = side * (shoulder + 0.02) * (0.3 if profile else 1.1) - side * swing
        part(_limb(side * shoulder * 0.9, 0.79 * size, hand, 0.47 * size, 0.06 * stout, 0.045 * stout), upper, bias)
        part(_disc(hand, 0.455 * size, 0.028 * size), skin, bias)
    if dice.chance(0.3):  # a bag
        at = dice.sign() * (shoulder + 0.06)
        part([(at - 0.13, 0.4), (at + 0.13, 0.4), (at + 0.11, 0.78), (at - 0.11, 0.78)], _clothes(dice), 0.005)
    part(_limb(0.0, 0.82 * size, 0.0, 0.88 * size, 0.06 * size, 0.06 * size), skin, 0.002)
    part(_disc(0.0, 0.93 * size, 0.052 * size, 1.3), skin, 0.004)
    cap = [(u, v) for u, v in _disc(0.0, 0.94 * size, 0.056 * size, 1.25) if v > 0.925 * size]
    part(cap, hair if dice.chance(0.8) else _clothes(dice), 0.005)
    shadows.post(x, z, 0.45, 0.85 * size)
    shadows.spot(x, z, 0.6 + abs(stride), 0.5)


def add_bicyclist(mesh: Mesh, shadows: Shadows, dice: Dice, x: float, z: float, bordered: bool) -> None:
    """Somebody on a bicycle, seen from the side or from the front or back; both together are the instance."""
    instance = mesh.new_instance(BICYCLIST, bordered)
    upper, lower = _clothes(dice), _clothes(dice)
    skin, shoes = plain(dice.choice(_SKIN), 0.1), plain((0.08, 0.07, 0.07), 0.2)
    head = _clothes(dice) if dice.chance(0.6) else plain(dice.choice(_HAIR), 0.3)
    frame = plain(dice.choice(_CLOTHES), 0.1)
    tyre: Color = (0.06, 0.06, 0.07)
    size = dice.uniform(0.94, 1.08)
    turn = dice.sign()

    def part(outline: _Outline, paint: Paint, bias: float) -> None:
        scaled = [(u * turn * size, v * size) for u, v in outline]
        mesh.board(x, z, scaled, paint, BICYCLIST, instance=instance, bias=bias)

    if dice.chance(0.68):
        for hub in (-0.52, 0.52):
            outline = [(x + turn * size * (hub + 0.35 * u), size * (0.35 + 0.35 * v), z) for u, v in CIRCLE]
            wheel = Paint(SPOKES, tyre, (0.5, 0.5, 0.5), parameters=(0.35 * size, 0.3, 0.78))
            center = (x + turn * size * hub, size * 0.35, z)
            mesh.add(outline, wheel, BICYCLIST, instance, anchor=center)
        for start, end in (
            ((-0.52, 0.35), (-0.2, 0.85)),
            ((-0.52, 0.35), (-0.02, 0.33)),
            ((-0.02, 0.33), (-0.2, 0.85)),
            ((-0.02, 0.33), (0.38, 0.82)),
            ((-0.17, 0.78), (0.38, 0.82)),
            ((0.52, 0.35), (0.34, 1.02)),
        ):
            part(_limb(*start, *end, 0.06, 0.06), frame, 0.002)
        part(_limb(-0.34, 0.92, -0.08, 0.92, 0.08, 0.06), shoes, 0.003)
        part(_limb(0.26, 1.04, 0.46, 1.02, 0.05, 0.05), shoes, 0.003)
        knee, foot = dice.uniform(0.12, 0.3), dice.uniform(0.16, 0.34)
        part(_limb(-0.18, 0.94, knee, 0.72, 0.17, 0.13), lower, 0.004)
        part(_limb(knee, 0.72, 0.02, foot, 0.13, 0.09), lower, 0.004)
        part(_limb(-0.02, foot - 0.02, 0.14, foot - 0.03, 0.08, 0.06), shoes, 0.005)
        lean = dice.uniform(0.1, 0.28)
        part(_limb(-0.2, 0.9, lean, 1.42, 0.24, 0.28), upper, 0.005)
        part(_limb(lean, 1.38, 0.4, 1.06, 0.11, 0.08), upper, 0.006)
        part(_disc(0.4, 1.06, 0.05), skin, 0.007)
        part(_disc(lean + 0.1, 1.6, 0.11, 1.25), skin, 0.006)
        part([(u, v) for u, v in _disc(lean + 0.09, 1.62, 0.125, 1.2) if v > 1.61], head, 0.008)
        shadows.spot(x, z, 1.5 * size, 0.35)
        shadows.post(x, z, 0.8, 1.5)
        return
    # The wheel is wider than a real one and the feet are high, so that a small picture shows that somebody rides.
    part(_disc(0.0, 0.36, 0.075, 4.8), plain(tyre, 0.1), 0.006)
    part(_limb(0.0, 0.62, 0.0, 1.0, 0.1, 0.1), frame, 0.006)
    part(_limb(-0.36, 1.02, 0.36, 1.02, 0.08, 0.08), shoes, 0.006)
    for side in (-1, 1):
        low = 0.26 + (0.14 if side > 0 else 0.0)
        part(_limb(side * 0.11, 0.94, side * 0.24, low + 0.36, 0.17, 0.14), lower, 0.001)
        part(_limb(side * 0.24, low + 0.36, side * 0.15, low, 0.13, 0.1), lower, 0.001)
        part(_limb(side * 0.15, low, side * 0.16, low - 0.08, 0.1, 0.1), shoes, 0.002)
        part(_limb(side * 0.19, 1.4, side * 0.35, 1.06, 0.12, 0.09), upper, 0.004)
    part([(-0.15, 0.86), (0.15, 0.86), (0.22, 1.38), (0.12, 1.47), (-0.12, 1.47), (-0.22, 1.38)], upper, 0.005)
    part(_disc(0.0, 1.6, 0.1, 1.3), skin, 0.006)
    part([(u, v) for u, v in _disc(0.0, 1.62, 0.12, 1.2) if v > 1.6], head, 0.008)
    shadows.spot(x, z, 0.5 * size, 1.6)
    shadows.post(x, z, 0.5, 1.5)
