"""Trees, hedges and bushes; all of the class tree."""

from __future__ import annotations

from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.mesh import LEAF, ROUND, Color, Mesh, Paint
from gauntlet.datasets.streets.shadows import Shadows
from gauntlet.datasets.streets.street import Street
from gauntlet.datasets.streets.street_classes import TREE

_LEAVES: tuple[tuple[Color, Color], ...] = (
    ((0.22, 0.36, 0.14), (0.40, 0.52, 0.20)),
    ((0.18, 0.30, 0.14), (0.30, 0.42, 0.20)),
    ((0.30, 0.42, 0.16), (0.55, 0.62, 0.26)),
    ((0.16, 0.26, 0.18), (0.26, 0.38, 0.28)),
    ((0.52, 0.40, 0.14), (0.72, 0.56, 0.22)),  # autumn
    ((0.50, 0.26, 0.14), (0.66, 0.36, 0.18)),
    ((0.30, 0.16, 0.18), (0.44, 0.26, 0.26)),  # copper beech
    ((0.70, 0.52, 0.58), (0.88, 0.74, 0.78)),  # blossom
)
_BARK: tuple[Color, ...] = ((0.30, 0.24, 0.18), (0.40, 0.36, 0.31), (0.22, 0.18, 0.15), (0.58, 0.56, 0.52))


def leaf_colors(dice: Dice) -> tuple[Color, Color]:
    """A dark and a bright colour of leaves; mostly green."""
    return _LEAVES[dice.integer(0, 3)] if dice.chance(0.75) else dice.choice(_LEAVES)


def _add_clump(mesh: Mesh, x: float, y: float, z: float, radius: float, colors: tuple[Color, Color]) -> None:
    paint = Paint(LEAF, colors[0], colors[1], parameters=(radius, 0.8, 10.0))
    points = [
        (x - radius, y - radius, z),
        (x + radius, y - radius, z),
        (x + radius, y + radius, z),
        (x - radius, y + radius, z),
    ]
    mesh.add(points, paint, TREE, anchor=(x, y, z))


def add_tree(mesh: Mesh, shadows: Shadows, dice: Dice, x: float, z: float, height: float) -> None:
    """A tree of clumps of leaves on a trunk; now and then a conifer."""
    colors = leaf_colors(dice)
    conifer = dice.chance(0.18)
    trunk = (0.03 if conifer else 0.04) * height * dice.uniform(0.7, 1.1) + 0.004 * z
    base = height * (0.12 if conifer else dice.uniform(0.28, 0.4))
    bark = Paint(ROUND, dice.choice(_BARK), parameters=(trunk, 0.4, 0.5, 18.0))
    lean = dice.uniform(-0.1, 0.1) * base
    top = base + 0.3 * height
    mesh.board(x, z, [(-trunk, 0.0), (trunk, 0.0), (lean + trunk * 0.6, top), (lean - trunk * 0.6, top)], bark, TREE)
    shadows.post(x, z, 2 * trunk, base + 1.0)
    shadows.spot(x, z, 5 * trunk, 5 * trunk)
    if conifer:
        for step in range(6):
            share = step / 6
            radius = 0.24 * height * (1.0 - share) + 0.1
            _add_clump(mesh, x, base + (height - base) * share + radius * 0.6, z - 0.2 * radius, radius, colors)
        shadows.ball(x, 0.45 * height, z, 0.2 * height)
        return
    crown = (height - base) / 2
    middle = base + crown
    spread = crown * dice.uniform(0.8, 1.05)
    _add_clump(mesh, x + lean, middle, z, crown * 0.8, colors)
    shadows.ball(x, middle, z, crown * 0.8)
    for _ in range(9):
        u, v, w = dice.uniform(-1, 1), dice.uniform(-1, 1), dice.uniform(-1, 1)
        shrink = 0.62 / max(0.62, (u * u + v * v) ** 0.5)
        radius = crown * dice.uniform(0.3, 0.52)
        _add_clump(
            mesh, x + lean + u * shrink * spread, middle + v * shrink * crown, z + w * 0.5 * spread, radius, colors
        )


def add_hedge(mesh: Mesh, dice: Dice, street: Street, lateral: float, near: float, far: float, height: float) -> None:
    """A row of bushes along the street."""
    colors = leaf_colors(dice)
    z = near
    while z < far:
        radius = height * dice.uniform(0.5, 0.62)
        x = street.x(lateral, z)
        _add_clump(mesh, x, height * 0.28, z, radius, colors)
        _add_clump(mesh, x + dice.uniform(-0.2, 0.2), height * 0.62, z + 0.2, radius * 0.95, colors)
        z += radius * (0.75 + 0.012 * z)
