"""Colours of the samples, and pixels from samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gauntlet.compiling import inlined
from gauntlet.datasets.streets.camera import SUPERSAMPLING, Camera
from gauntlet.datasets.streets.light import CONTACT, CONTACT_SHARE, SPOT, SPOT_SHARE, SUN_BLOCKED, Light
from gauntlet.datasets.streets.mesh import (
    ANCHOR,
    COLOR_A,
    COLOR_B,
    COLOR_C,
    FACADE,
    GLASS,
    INSTANCE,
    KIND,
    LABEL,
    LEAF,
    PARAMETERS,
    PLANKS,
    RAILING,
    ROUND,
    SPOKES,
)
from gauntlet.datasets.streets.noise_tiles import Tile, cell, fraction, smooth
from gauntlet.datasets.streets.raster import Buffers
from gauntlet.datasets.streets.street import Street
from gauntlet.datasets.streets.street_classes import PAVEMENT, ROAD, SKY, VOID

Floats = npt.NDArray[np.float64]
RGB = tuple[float, float, float]

SAMPLES = SUPERSAMPLING * SUPERSAMPLING


class Scenery(NamedTuple):
    """What the colour of a sample depends on besides its place and the buffers.

    Attributes:
        camera, street, light: of the scene.
        faces: the mesh's table, one row per face.
        normals, planes: (F, 3) each, from `raster.orient`.
        received: (F, 3) light that every face receives.
        fractal, grain: the noise tiles.
    """

    camera: Camera
    street: Street
    light: Light
    faces: Floats
    normals: Floats
    planes: Floats
    received: Floats
    fractal: Tile
    grain: Tile


@inlined
def mix(first: RGB, second: RGB, share: float) -> RGB:
    """From the first colour (share 0) to the second one (share 1)."""
    rest = 1.0 - share
    return (
        first[0] * rest + second[0] * share,
        first[1] * rest + second[1] * share,
        first[2] * rest + second[2] * share,
    )


@inlined
def scaled(color: RGB, gain: float) -> RGB:
    """A colour, brighter or darker."""
    return color[0] * gain, color[1] * gain, color[2] * gain


@inlined
def sky_color(light: Light, right: float, up: float, fractal: Tile) -> RGB:
    """The sky in the direction (right, up, 1)."""
    rise = min(1.0, up / 0.55)
    color = mix(light.horizon, light.zenith, rise * (2.0 - rise))
    stretch = 22.0 / (up + 0.12)
    u, v = right * stretch + light.cloud_shift, stretch * 1.7 + light.cloud_shift
    density = 0.75 * smooth(fractal, u, v) + 0.25 * smooth(fractal, u * 3.1, v * 3.1)
    edge = 1.0 - light.cover
    amount = (density - 0.25 - 0.5 * edge) / 0.18
    amount = min(1.0, max(0.0, amount))
    bright = 0.82 + 0.36 * smooth(fractal, u + 5.0, v + 9.0)
    color = mix(color, scaled(light.cloud, bright), amount * min(1.0, 0.35 + up * 6.0))
    if light.sun[2] > 0.05:
        dx, dy = right - light.sun[0] / light.sun[2], up - light.sun[1] / light.sun[2]
        glow = light.sun_color[0] * 0.05 / (0.06 + dx * dx + dy * dy)
        color = mix(color, (1.15, 1.1, 0.98), min(1.0, glow * (1.0 - 0.7 * amount)))
    return color


@inlined
def ground_label(street: Street, lateral: float, z: float) -> int:
    """Road or pavement."""
    if abs(lateral) < street.half_width:
        return ROAD
    is_open = street.cross_left if lateral < 0.0 else street.cross_right
    if is_open > 0.0 and street.cross_near < z < street.cross_far:
        return ROAD
    return PAVEMENT


@inlined
def is_marked(street: Street, lateral: float, z: float) -> bool:
    """Whether paint lies on the road."""
    if street.cross_near < z < street.cross_far:
        return False
    across = abs(lateral)
    if street.zebra_near < z < street.zebra_far:
        return fraction(lateral) < 0.5
    thin = 0.07 + 0.002 * z
    if across < thin:
        return street.dash == 0.0 or fraction(z / (2.5 * street.dash)) < 0.4
    if abs(across - street.lane) < thin and street.half_width > 1.5 * street.lane:
        return fraction(z / 6.0) < 0.35
    return street.edge_line > 0.0 and abs(across - street.half_width + 0.35) < thin


@inlined
def ground_color(street: Street, lateral: float, x: float, z: float, fractal: Tile, grain: Tile) -> RGB:
    """Reflectance of the ground."""
    fade = min(1.0, 9.0 / z)
    fine = (cell(grain, x * 40.0, z * 40.0) - 0.5) * 0.22 * fade
    broad = smooth(fractal, x * 5.0 + street.shift, z * 2.2 + street.shift) - 0.5
    if ground_label(street, lateral, z) == ROAD:
        track = smooth(fractal, lateral * 9.0 + street.shift, z * 0.3) - 0.5
        color = scaled(street.road, 1.0 + fine + street.patches * (broad + 0.6 * track))
        if smooth(fractal, x * 1.7 + 91.0, z * 0.8 + street.shift) > 0.72:  # a repaired patch
            color = scaled(color, 0.8)
        if is_marked(street, lateral, z) and smooth(fractal, x * 31.0, z * 31.0) > street.wear * 0.8:
            color = mix(color, scaled(street.marking, 1.0 + fine), 0.85)
        return color
    across = abs(lateral) - street.half_width
    if 0.0 < across < 0.22:
        joint = 0.75 if fraction(z) < 0.05 + z * 0.005 else 1.0
        return scaled(street.kerb, (1.0 + fine) * joint)
    color = scaled(street.pavement, 1.0 + fine + 0.35 * broad)
    slab_u, slab_v = across / street.slab, z / street.slab
    tone = cell(grain, slab_u + street.shift, slab_v + street.shift) - 0.5
    width = 0.05 + 0.004 * z
    joint = min(fraction(slab_u), fraction(slab_v)) < width / street.slab
    return scaled(color, (1.0 + 0.16 * tone) * (1.0 - 0.22 * fade if joint else 1.0))


@inlined
def facade_color(
    faces: Floats, face: int, u: float, v: float, fractal: Tile, grain: Tile, dusk: float
) -> tuple[RGB, float]:
    """Reflectance of a house front and how much it glows.

    Parameters: width of a bay, height of a storey, share of the window in both, height of the ground floor (0 for
    none), where in the noise it is taken from, height of the front, style (0 windows, 1 bands of glass, 2 blind wall).
    """
    bay, storey = faces[face, PARAMETERS], faces[face, PARAMETERS + 1]
    wide, high = faces[face, PARAMETERS + 2] * 0.5, faces[face, PARAMETERS + 3] * 0.5
    ground_floor, shift = faces[face, PARAMETERS + 4], faces[face, PARAMETERS + 5]
    top, style = faces[face, PARAMETERS + 6], faces[face, PARAMETERS + 7]
    wall = (faces[face, COLOR_A], faces[face, COLOR_A + 1], faces[face, COLOR_A + 2])
    glass = (faces[face, COLOR_B], faces[face, COLOR_B + 1], faces[face, COLOR_B + 2])
    trim = (faces[face, COLOR_C], faces[face, COLOR_C + 1], faces[face, COLOR_C + 2])
    rough = 1.0 + 0.35 * (smooth(fractal, u * 6.0 + shift, v * 6.0) - 0.5)
    rough += 0.18 * (cell(grain, u * 4.0 + shift, v * 13.0) - 0.5)
    wall = scaled(wall, rough)
    if v > top - 0.35:
        return scaled(trim, rough), 0.0
    if v < ground_floor:
        shop = u / (2.0 * bay)
        part, pick = fraction(shop), cell(grain, shop + shift, shift)
        if v > ground_floor - 0.7:
            return mix(trim, (pick, 1.0 - pick, cell(grain, shop + shift, shift + 3.0)), 0.5), 0.25 * dusk
        if 0.1 < part < 0.9 and v > 0.5 - 0.4 * pick:
            if abs(part - 0.5) < 0.02:
                return trim, 0.0
            inside = 0.6 + 0.8 * smooth(fractal, u * 20.0 + shift, v * 20.0)
            return mix(scaled(glass, inside), (1.0, 0.85, 0.55), 0.5 * dusk), dusk
        return wall, 0.0
    if style == 2.0:
        return wall, 0.0
    column, line = u / bay, (v - ground_floor) / storey
    above = fraction(line)
    across, along = abs(fraction(column) - 0.5), abs(above - 0.5)
    if style == 1.0:
        across = across * 0.6
    if across < wide and along < high:
        pick = cell(grain, column + shift, line + shift)
        if across > wide - 0.07 or along > high - 0.05 or (style == 0.0 and across < 0.03):
            return scaled(trim, 0.95), 0.0
        if dusk > 0.0 and pick < 0.45 * dusk:
            return (1.0, 0.84 + 0.1 * pick, 0.5 + 0.3 * pick), 0.9 * dusk
        reflection = 0.7 + 0.7 * smooth(fractal, u * 9.0 + pick * 99.0, v * 7.0)
        if pick > 0.75 and above > 0.5:  # a curtain
            return scaled(trim, 0.8), 0.0
        return scaled(glass, reflection * (0.8 + 0.4 * pick)), 0.0
    if across < wide + 0.06 and 0.0 < 0.5 - above - high < 0.07:  # the sill
        return scaled(trim, 0.85), 0.0
    if along > 0.47:
        return scaled(wall, 0.86), 0.0
    return wall, 0.0


@inlined
def face_color(
    faces: Floats, normals: Floats, face: int, x: float, y: float, z: float, fractal: Tile, grain: Tile, light: Light
) -> tuple[RGB, float]:
    """Reflectance of a face at a point of it and how much it glows. Parameters by kind:

    plain, glass:   strength of the noise, cells per metre; glass also the height over which it turns to `second`
    round:          radius, darkening of the rim, strength of the noise, cells per metre
    leaf:           radius, raggedness, cells per metre
    planks:         width of a plank, strength of the noise
    railing:        distance of the bars, share of a bar, height, thickness of the rails, cover between the bars
    spokes:         radius, cover between the spokes, share of the radius inside the tyre
    """
    kind = int(faces[face, KIND])
    color = (faces[face, COLOR_A], faces[face, COLOR_A + 1], faces[face, COLOR_A + 2])
    second = (faces[face, COLOR_B], faces[face, COLOR_B + 1], faces[face, COLOR_B + 2])
    dx, dy, dz = x - faces[face, ANCHOR], y - faces[face, ANCHOR + 1], z - faces[face, ANCHOR + 2]
    flat = np.sqrt(normals[face, 0] * normals[face, 0] + normals[face, 2] * normals[face, 2])
    if flat > 0.3:
        u, v = (dz * normals[face, 0] - dx * normals[face, 2]) / flat, dy
    else:
        u, v = dx, dz
    p0, p1, p2 = faces[face, PARAMETERS], faces[face, PARAMETERS + 1], faces[face, PARAMETERS + 2]
    if kind == FACADE:
        return facade_color(faces, face, u, v, fractal, grain, light.dusk)
    if kind == LEAF:
        clump = smooth(fractal, (x + z) * p2 * 0.6, y * p2 * 0.6)
        fine = smooth(grain, (x + 7.0 * faces[face, ANCHOR + 2]) * p2, y * p2)
        bulge = 0.85 + 0.28 * v / p0 + 0.25 * light.sun_color[0] * light.sun[0] * u / p0
        return scaled(mix(color, second, fine), bulge * (0.45 + 0.9 * clump)), 0.0
    if kind == ROUND:
        side = u / p0
        turn = 1.0 - p1 * side * side + 0.7 * p1 * side * light.sun[0] * light.sun_color[0]
        turn += p2 * (smooth(fractal, u * faces[face, PARAMETERS + 3], v * faces[face, PARAMETERS + 3] * 0.25) - 0.5)
        return scaled(color, turn), 0.0
    if kind == PLANKS:
        gap = 0.6 if fraction(u / p0) < 0.12 else 1.0
        tone = 1.0 + 0.2 * (cell(grain, u / p0 + faces[face, ANCHOR], 3.0) - 0.5)
        tone += p1 * (smooth(fractal, u * 30.0, v * 4.0) - 0.5)
        return scaled(color, gap * tone), 0.0
    if kind == GLASS:
        rise = min(1.0, max(0.0, v / p2))
        streak = smooth(fractal, u * p1 + faces[face, ANCHOR] * 9.0, v * p1)
        return scaled(mix(color, second, rise * streak * 1.4), 1.0 + p0 * (streak - 0.5)), 0.0
    if kind == SPOKES:
        return (color if dx * dx + dy * dy > p0 * p0 * p2 * p2 else second), 0.0
    fade = min(1.0, 12.0 / z)
    return scaled(color, 1.0 + fade * p0 * (smooth(fractal, u * p1 + faces[face, ANCHOR] * 7.0, v * p1) - 0.5)), 0.0


@inlined
def screen_cover(faces: Floats, normals: Floats, face: int, x: float, y: float, z: float) -> float:
    """How much of what is behind a face is covered at a point of it, 0 to 1; less than 1 in railings and wheels."""
    kind = int(faces[face, KIND])
    if kind not in (RAILING, SPOKES):
        return 1.0
    dx, dy, dz = x - faces[face, ANCHOR], y - faces[face, ANCHOR + 1], z - faces[face, ANCHOR + 2]
    p0, p1, p2 = faces[face, PARAMETERS], faces[face, PARAMETERS + 1], faces[face, PARAMETERS + 2]
    if kind == SPOKES:
        return 1.0 if dx * dx + dy * dy > p0 * p0 * p2 * p2 else p1
    u = dz * normals[face, 0] - dx * normals[face, 2]
    rail, between = faces[face, PARAMETERS + 3], faces[face, PARAMETERS + 4]
    if dy > p2 - rail or abs(dy - 0.2) < rail * 0.5 or abs(dy - 0.55 * p2) < rail * 0.4:
        return 1.0
    if fraction(u / 2.4) < 0.05:  # a post
        return 1.0
    return 1.0 if fraction(u / p0) < p1 else between


@inlined
def lit(color: RGB, glow: float, received: RGB, z: float, light: Light) -> RGB:
    """A reflectance under the light that its surface receives, seen through z metres of haze."""
    rest = 1.0 - glow
    shown = (
        color[0] * (received[0] * rest + glow),
        color[1] * (received[1] * rest + glow),
        color[2] * (received[2] * rest + glow),
    )
    return mix(shown, light.horizon, z / (z + light.haze_distance))


@inlined
def develop(value: float, light: Light, gain: float, noise: float) -> int:
    """A grey level from an amount of light: contrast, shoulder, noise, rounding."""
    shown = 0.45 + (value * gain - 0.45) * light.contrast
    if shown > 0.8:
        shown = 0.8 + (shown - 0.8) / (1.0 + 2.5 * (shown - 0.8))
    level = np.floor(shown * 255.0 + noise + 0.5)
    return int(min(255.0, max(0.0, level)))


@inlined
def surface(
    front: int,
    right: float,
    down: float,
    row: float,
    column: float,
    camera: Camera,
    light: Light,
    fractal: Tile,
    grain: Tile,
    faces: Floats,
    normals: Floats,
    planes: Floats,
    received: Floats,
) -> tuple[RGB, int, float, float]:
    """A face as one sample sees it: its colour, its key (label + 16 instance), its depth and how much it covers."""
    z = 1.0 / (planes[front, 0] * column + planes[front, 1] * row + planes[front, 2])
    x, y = right * z, camera.eye - down * z
    tone, glow = face_color(faces, normals, front, x, y, z, fractal, grain, light)
    color = lit(tone, glow, (received[front, 0], received[front, 1], received[front, 2]), z, light)
    key = int(faces[front, LABEL]) + 16 * int(faces[front, INSTANCE])
    return color, key, z, screen_cover(faces, normals, front, x, y, z)


@inlined
def ground(
    right: float, down: float, shade: int, camera: Camera, street: Street, light: Light, fractal: Tile, grain: Tile
) -> tuple[RGB, int, float]:
    """The ground as one sample sees it: its colour, its label and its depth."""
    z = camera.eye / down
    x = right * z
    lateral = x - street.offset - street.slope * z - street.bend * z * z
    received = light.ambient
    if shade == CONTACT:
        received = scaled(received, CONTACT_SHARE)
    elif shade == SPOT:
        received = scaled(received, SPOT_SHARE)
    elif shade != SUN_BLOCKED:
        sun = scaled(light.sun_color, light.sun[1])
        received = (received[0] + sun[0], received[1] + sun[1], received[2] + sun[2])
    color = lit(ground_color(street, lateral, x, z, fractal, grain), 0.0, received, z, light)
    return color, ground_label(street, lateral, z), z


@inlined
def look(
    seen: int,
    screen: int,
    shade: int,
    row: float,
    column: float,
    camera: Camera,
    street: Street,
    light: Light,
    faces: Floats,
    normals: Floats,
    planes: Floats,
    received: Floats,
    fractal: Tile,
    grain: Tile,
) -> tuple[RGB, int, float]:
    """What one sample sees: colour, key (label + 16 instance) and depth of the nearest thing.

    Args:
        seen: the nearest opaque face, -1 for the ground or the sky.
        screen: the face that one looks through to see it, -1 for none.
        shade: strength of the shadow on the ground.
        row, column: place of the sample.
        camera, street, light, faces, normals, planes, received, fractal, grain: of `Scenery`, one by one, since taking
            arrays out of a tuple at every sample is slower.
    """
    right, down = (column - camera.center_x) / camera.focal, (row - camera.center_y) / camera.focal
    if seen >= 0:
        color, key, z, _ = surface(
            seen, right, down, row, column, camera, light, fractal, grain, faces, normals, planes, received
        )
    elif down > 0.0:
        color, key, z = ground(right, down, shade, camera, street, light, fractal, grain)
    else:
        color, key, z = sky_color(light, right, -down, fractal), SKY, np.inf
    if screen >= 0:
        shown, key, z, cover = surface(
            screen, right, down, row, column, camera, light, fractal, grain, faces, normals, planes, received
        )
        color = mix(color, shown, cover)
    return color, key, z


@inlined
def elect(keys: npt.NDArray[np.int64], depths: Floats, count: int) -> int:
    """The sample whose key most samples share; a tie goes to the nearest one."""
    best, best_votes = 0, 0
    for sample in range(count):
        votes = 0
        for other in range(count):
            votes += keys[other] == keys[sample]
        if votes > best_votes or (votes == best_votes and depths[sample] < depths[best]):
            best, best_votes = sample, votes
    return best


@inlined
def sees_one_face(seen: npt.NDArray[np.int32], screen: npt.NDArray[np.int32], top: int, left: int) -> bool:
    """Whether all samples of a pixel see the same opaque face (or none) and nothing that one looks through."""
    same = True
    for sample in range(SAMPLES):
        r, c = top + sample // SUPERSAMPLING, left + sample % SUPERSAMPLING
        same = same and seen[r, c] == seen[top, left] and screen[r, c] < 0
    return same


@inlined
def resolve(
    scenery: Scenery,
    buffers: Buffers,
    static: npt.NDArray[np.uint8],
    image: npt.NDArray[np.uint8],
    labels: npt.NDArray[np.uint8],
    instances: npt.NDArray[np.int32],
    depth: npt.NDArray[np.float32],
) -> None:
    """Pixels from samples: the mean of the colours; label, instance and depth of the surface most samples see.

    Where the four samples of a pixel see one face, the two on the diagonal stand for all: it halves the time.

    Args:
        scenery: what is shown.
        buffers: from `fill_faces` and `fill_shadows`.
        static: (H, W, 3, 2) random bytes for the camera's noise.
        image, labels, instances, depth: what is filled.
    """
    camera, street, light, faces, normals, planes, received, fractal, grain = scenery
    nearness, seen, screen_nearness, screen, shadow = buffers
    height, width = labels.shape
    keys, depths = np.empty(SAMPLES, np.int64), np.empty(SAMPLES)
    strength = light.noise / 104.5  # the standard deviation of the sum of two uniform bytes
    for row in range(height):
        for column in range(width):
            top, left = row * SUPERSAMPLING, column * SUPERSAMPLING
            red, green, blue, count = 0.0, 0.0, 0.0, 0
            for sample in range(0, SAMPLES, SAMPLES - 1 if sees_one_face(seen, screen, top, left) else 1):
                r, c = top + sample // SUPERSAMPLING, left + sample % SUPERSAMPLING
                before = screen[r, c] if screen_nearness[r, c] > nearness[r, c] else -1
                # One integer type for both faces: `surface` is compiled once, not twice (2 of 12 s in a fresh clone).
                color, key, z = look(
                    np.int64(seen[r, c]), before,  # type: ignore[arg-type]
                    shadow[r, c], r + 0.5, c + 0.5,
                    camera, street, light, faces, normals, planes, received, fractal, grain,
                )  # fmt: skip
                keys[count], depths[count] = key, z
                red, green, blue = red + color[0], green + color[1], blue + color[2]
                count += 1
            best = elect(keys, depths, count)
            labels[row, column] = keys[best] & 15
            instances[row, column] = keys[best] >> 4
            depth[row, column] = depths[best]
            dx, dy = (column + 0.5) / width - 0.5, (row + 0.5) / height - 0.5
            gain = light.exposure * (1.0 - light.vignette * 2.0 * (dx * dx + dy * dy)) / count
            balanced = (red * light.balance[0], green * light.balance[1], blue * light.balance[2])
            for channel in range(3):
                noise = float(static[row, column, channel, 0]) + float(static[row, column, channel, 1]) - 255.0
                image[row, column, channel] = develop(balanced[channel], light, gain, strength * noise)


@inlined
def draw_borders(
    labels: npt.NDArray[np.uint8],
    instances: npt.NDArray[np.int32],
    bordered: npt.NDArray[np.bool_],
    reach: int,
) -> None:
    """Turns background within `reach` pixels (left, right, above, below) of a bordered instance into void."""
    height, width = labels.shape
    for row in range(height):
        for column in range(width):
            if instances[row, column] != 0:
                continue
            for step in range(1, reach + 1):
                if (
                    (row >= step and bordered[instances[row - step, column]])
                    or (row + step < height and bordered[instances[row + step, column]])
                    or (column >= step and bordered[instances[row, column - step]])
                    or (column + step < width and bordered[instances[row, column + step]])
                ):
                    labels[row, column] = VOID
                    break
