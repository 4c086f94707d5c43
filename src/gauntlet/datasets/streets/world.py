"""What stands where: a scene drawn from dice, in metres, without any notion of pixels."""

from __future__ import annotations

import math
from typing import NamedTuple

from gauntlet.datasets.streets import buildings, furniture, people, plants, vehicles
from gauntlet.datasets.streets.camera import Lens
from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.light import Light, sample_light
from gauntlet.datasets.streets.mesh import Mesh
from gauntlet.datasets.streets.shadows import Shadows
from gauntlet.datasets.streets.street import FARTHEST, Street, sample_street

_NEAREST = 4.8  # metres; nobody stands nearer
_IN_VIEW = 0.75  # a person is placed where |x| is less than this share of z


class Scene(NamedTuple):
    """Everything a picture is made from."""

    lens: Lens
    street: Street
    light: Light
    mesh: Mesh
    shadows: Shadows


class _Plot:
    """Keeps objects from standing inside each other."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float, float]] = []

    def take(self, x: float, z: float, radius: float) -> bool:
        """Whether a place was free; it is taken from now on."""
        for other_x, other_z, other_radius in self._taken:
            reach = radius + other_radius
            if (x - other_x) ** 2 + (z - other_z) ** 2 < reach * reach:
                return False
        self._taken.append((x, z, radius))
        return True


class _Builder:
    """Draws one scene, step by step."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.light = sample_light(dice)
        self.street = sample_street(dice)
        self.lens = Lens(dice.uniform(1.35, 1.9), dice.uniform(1.2, 1.5), dice.uniform(0.42, 0.55))
        self.mesh = Mesh()
        self.shadows = Shadows(self.light.sun)
        self.plot = _Plot()
        self.kerb = self.street.half_width
        self.wall = self.kerb + self.street.pavement_width

    def scene(self) -> Scene:
        """The whole scene."""
        self.backdrop()
        for side in (-1, 1):
            self.side(side)
        self.riders()
        self.traffic()
        self.walkers()
        if self.dice.chance(0.6):
            bottom = (1.0 - self.lens.horizon) / self.lens.focal
            furniture.add_bonnet(self.mesh, self.dice, self.lens.eye, bottom)
        return Scene(self.lens, self.street, self.light, self.mesh, self.shadows)

    def backdrop(self) -> None:
        """Distant houses and trees that close the view."""
        dice = self.dice
        buildings.add_skyline(self.mesh, dice, self.street, FARTHEST + 8.0, 130.0)
        for _ in range(dice.integer(1, 6)):
            x = self.street.x(dice.uniform(-40.0, 40.0), FARTHEST)
            plants.add_tree(self.mesh, self.shadows, dice, x, FARTHEST + dice.uniform(0, 6), dice.uniform(7.0, 13.0))

    def side(self, side: int) -> None:
        """One side of the street: houses or a park, fences and hedges, trees, lamps, signs, clutter."""
        dice, street = self.dice, self.street
        z = -3.0
        built = dice.chance(0.85)
        setback = dice.choice((0.0, 0.0, 1.5, 3.5))
        while z < FARTHEST:
            length = dice.uniform(6.0, 15.0)
            far = min(FARTHEST, z + length)
            if street.is_crossed(side, z, far):
                if z < street.cross_near - 3.0:
                    far = street.cross_near - 0.5
                else:
                    z = street.cross_far + 0.5
                    continue
            if dice.chance(0.12):
                built = not built
            depth = setback + dice.choice((0.0, 0.0, 0.6))
            if built:
                buildings.add_house(self.mesh, self.shadows, dice, street, side, z, far, self.wall + depth)
            else:
                for _ in range(2):
                    at = dice.uniform(max(4.0, z), max(5.0, far))
                    x = street.x(side * (self.wall + dice.uniform(2.0, 7.0)), at)
                    plants.add_tree(
                        self.mesh,
                        self.shadows,
                        dice,
                        x,
                        at,
                        dice.uniform(5.0, 9.0),
                    )
            self.boundary(side, z, far, built, depth)
            z = far + (dice.uniform(1.0, 4.0) if dice.chance(0.25) else 0.0)
        self.pavement(side)

    def boundary(self, side: int, near: float, far: float, built: bool, depth: float) -> None:
        """What runs along the edge of a plot: a fence, a hedge or nothing."""
        dice = self.dice
        if far > 55.0:
            return
        edge = side * (self.wall - 0.1)
        pick = dice.uniform()
        if pick < (0.30 if depth < 1.0 else 0.55) or (not built and pick < 0.75):
            furniture.add_fence(self.mesh, self.shadows, dice, self.street, edge, max(near, 0.8), far)
        elif pick > 0.88 or (not built and pick > 0.75):
            plants.add_hedge(self.mesh, dice, self.street, edge, max(near, 3.0), far, dice.uniform(0.8, 1.6))

    def pavement(self, side: int) -> None:
        """Trees, lamps, signs, traffic lights, railings and clutter near the kerb."""
        dice, street = self.dice, self.street
        near_kerb = self.kerb + 0.7

        def place(low: float, high: float, radius: float, lateral: float | None = None) -> tuple[float, float] | None:
            for _ in range(4):
                # More of them near the camera, where they can be seen.
                share = dice.uniform()
                z = low + (high - low) * share * (0.4 + 0.6 * share)
                if street.is_crossed(side, z - 0.5, z + 0.5):
                    continue
                x = street.x(side * (near_kerb if lateral is None else lateral), z)
                if self.plot.take(x, z, radius):
                    return x, z
            return None

        for _ in range(dice.integer(0, 4)):
            if spot := place(6.5, 45.0, 1.0):
                plants.add_tree(self.mesh, self.shadows, dice, *spot, dice.uniform(3.6, 7.5))
        for _ in range(dice.integer(1, 3)):
            if spot := place(5.5, 28.0, 0.5):
                furniture.add_lamp(self.mesh, self.shadows, dice, *spot, -side)
        for _ in range(dice.integer(1, 3)):
            if spot := place(6.0, 21.0, 0.6):
                if dice.chance(0.25):
                    furniture.add_traffic_light(self.mesh, self.shadows, dice, *spot)
                else:
                    furniture.add_sign(self.mesh, self.shadows, dice, *spot)
        if dice.chance(0.3):
            start = dice.uniform(4.0, 14.0)
            end = start + dice.uniform(4.0, 10.0)
            if not street.is_crossed(side, start, end):
                lateral = side * (self.kerb + 0.35)
                furniture.add_fence(self.mesh, self.shadows, dice, street, lateral, start, end)
        if dice.chance(0.4) and (spot := place(8.0, 22.0, 1.2, self.wall - 1.2)):
            half = dice.uniform(0.8, 1.3)
            furniture.add_cross_fence(self.mesh, dice, spot[0] - half, spot[0] + half, spot[1])
        if dice.chance(0.35) and (spot := place(6.0, 20.0, 0.7, self.wall - 0.8)):
            furniture.add_clutter(self.mesh, self.shadows, dice, *spot)

    def traffic(self) -> None:
        """Parked, driving, oncoming and crossing vehicles."""
        dice, street = self.dice, self.street
        drives = street.traffic_side

        def put(lateral: float, z: float, heading: float) -> None:
            shape = vehicles.choose_shape(dice)
            center = z + shape.length / 2
            x = street.x(lateral, center)
            if self.plot.take(x, center, shape.length * 0.4):
                turn = math.atan(street.slope + 2.0 * street.bend * center)
                border = dice.chance(0.5)
                vehicles.add_car(self.mesh, self.shadows, dice, shape, x, center, heading + turn, border)

        for side in (-1, 1):
            if dice.chance(0.7):
                z = dice.uniform(2.5, 9.0)
                while z < 40.0:
                    if not street.is_crossed(side, z - 1.0, z + 6.0):
                        heading = 0.0 if side == drives else math.pi
                        put(side * (self.kerb - 1.05), z, heading + dice.uniform(-0.05, 0.05))
                    z += dice.uniform(5.2, 12.0)
        own = -street.offset
        if dice.chance(0.65):
            put(own + dice.uniform(-0.3, 0.3), dice.uniform(6.5, 26.0), dice.uniform(-0.04, 0.04))
        for _ in range(dice.integer(0, 3)):
            put(-drives * street.lane * dice.uniform(0.45, 0.6), dice.uniform(6.0, 38.0), math.pi)
        if street.cross_far > street.cross_near and dice.chance(0.5):
            lateral = dice.uniform(-6.0, 6.0)
            put(lateral, (street.cross_near + street.cross_far) / 2 - 2.0, dice.sign() * math.pi / 2)

    def walkers(self) -> None:
        """Pedestrians on the pavements and some on the road."""
        dice, street = self.dice, self.street
        for _ in range(dice.integer(5, 12)):
            z = _NEAREST + 12.0 * dice.uniform() * dice.uniform(0.4, 1.0)
            if dice.chance(0.82):
                lateral = dice.sign() * dice.uniform(self.kerb + 0.5, self.wall - 0.5)
            else:
                lateral = dice.uniform(-self.kerb, self.kerb)
            x = street.x(lateral, z)
            if abs(x) < _IN_VIEW * z and self.plot.take(x, z, 0.35):
                people.add_pedestrian(self.mesh, self.shadows, dice, x, z, dice.chance(0.35))

    def riders(self) -> None:
        """Bicyclists at the edge of the road, crossing it, or on the pavement."""
        dice, street = self.dice, self.street
        for _ in range(dice.integer(1, 4)):
            z = _NEAREST + 12.0 * dice.uniform() * dice.uniform(0.4, 1.0)
            lateral = dice.choice(
                (
                    dice.sign() * (self.kerb - dice.uniform(0.4, 1.2)),
                    dice.uniform(-self.kerb, self.kerb),
                    dice.sign() * dice.uniform(self.kerb + 0.6, self.wall - 0.8),
                )
            )
            x = street.x(lateral, z)
            if abs(x) < _IN_VIEW * z and self.plot.take(x, z, 0.7):
                people.add_bicyclist(self.mesh, self.shadows, dice, x, z, dice.chance(0.35))


def sample_scene(dice: Dice) -> Scene:
    """Draws a scene."""
    return _Builder(dice).scene()
