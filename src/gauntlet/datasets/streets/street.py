"""The ground: where the road runs, what its surface is and how it is painted."""

from __future__ import annotations

from typing import NamedTuple

from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.mesh import Color

FARTHEST = 90.0  # metres; the street is built up to here, then the backdrop closes it


class Street(NamedTuple):
    """A road along z between two pavements; lateral positions are metres right of its middle line.

    Attributes:
        half_width: from the middle of the road to the kerb.
        pavement_width: from the kerb to the building line.
        offset, slope, bend: the middle of the road lies at x = offset + slope z + bend z^2.
        traffic_side: 1 where one drives on the right, -1 where on the left.
        cross_near, cross_far: where a side street meets the road (equal when there is none).
        cross_left, cross_right: 1 where the side street leaves on that side, else 0.
        zebra_near, zebra_far: a zebra crossing (equal when there is none).
        lane: width of a lane; lines are painted between lanes.
        dash: length of a dash of the middle line; 0 for a solid line.
        edge_line: 1 when lines run along the kerb, else 0.
        wear: share of the paint that has gone.
        slab: size of the pavement's slabs.
        shift: where in the noise the ground's texture is taken from.
        road, pavement, kerb, marking: colours.
        patches: strength of the road's repairs and stains.
    """

    half_width: float
    pavement_width: float
    offset: float
    slope: float
    bend: float
    traffic_side: float
    cross_near: float
    cross_far: float
    cross_left: float
    cross_right: float
    zebra_near: float
    zebra_far: float
    lane: float
    dash: float
    edge_line: float
    wear: float
    slab: float
    shift: float
    road: Color
    pavement: Color
    kerb: Color
    marking: Color
    patches: float

    def x(self, lateral: float, z: float) -> float:
        """The x of a lateral position at depth z."""
        return lateral + self.offset + self.slope * z + self.bend * z * z

    def is_crossed(self, side: float, near: float, far: float) -> bool:
        """Whether the side street leaves on this side (-1 left, 1 right) between two depths."""
        is_open = self.cross_left if side < 0 else self.cross_right
        return bool(is_open) and near < self.cross_far and far > self.cross_near


def _gray(dice: Dice, low: float, high: float, tint: float) -> Color:
    """A grey of some brightness, a little towards some hue."""
    level = dice.uniform(low, high)
    return (
        level * (1 + dice.uniform(-tint, tint)),
        level * (1 + dice.uniform(-tint, tint) / 2),
        level * (1 + dice.uniform(-tint, tint)),
    )


def sample_street(dice: Dice) -> Street:
    """Draws a street. Road and pavement draw from overlapping colours, so that only their place tells them apart."""
    lanes = 1 if dice.chance(0.65) else 2
    lane = dice.uniform(2.9, 3.5)
    half_width = lanes * lane + dice.choice((0.0, 0.4, 2.0))
    side = 1.0 if dice.chance(0.7) else -1.0
    own = side * lane * (0.5 if lanes == 1 or dice.chance(0.5) else 1.4) + dice.uniform(-0.3, 0.3)
    cross = dice.uniform(14.0, 42.0)
    crossed = dice.chance(0.45)
    zebra = dice.uniform(8.0, 24.0) if not crossed else cross - dice.uniform(4.5, 6.0)
    road = _gray(dice, 0.26, 0.58, 0.06)
    pavement = dice.choice(
        (
            _gray(dice, 0.45, 0.80, 0.08),
            _gray(dice, 0.30, 0.60, 0.06),
            (dice.uniform(0.5, 0.7), dice.uniform(0.38, 0.48), dice.uniform(0.30, 0.40)),
        )
    )
    return Street(
        half_width=half_width,
        pavement_width=dice.uniform(2.6, 5.0),
        offset=-own,
        slope=dice.uniform(-0.05, 0.05),
        bend=dice.uniform(-0.0016, 0.0016) * (1.0 if dice.chance(0.6) else 0.0),
        traffic_side=side,
        cross_near=cross,
        cross_far=cross + (dice.uniform(7.0, 11.0) if crossed else 0.0),
        cross_left=1.0 if dice.chance(0.65) else 0.0,
        cross_right=1.0 if dice.chance(0.65) else 0.0,
        zebra_near=zebra,
        zebra_far=zebra + (3.5 if dice.chance(0.4) else 0.0),
        lane=lane,
        dash=dice.choice((0.0, 2.0, 3.0, 4.0)),
        edge_line=1.0 if dice.chance(0.4) else 0.0,
        wear=dice.uniform(0.0, 0.6),
        slab=dice.choice((0.4, 0.6, 1.0, 1.8)),
        shift=dice.uniform(0.0, 256.0),
        road=road,
        pavement=pavement,
        kerb=_gray(dice, 0.5, 0.85, 0.04),
        marking=dice.choice(((0.92, 0.92, 0.9), (0.92, 0.92, 0.9), (0.9, 0.74, 0.3))),
        patches=dice.uniform(0.1, 0.45),
    )
