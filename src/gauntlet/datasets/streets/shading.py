"""Colours of the samples, and pixels from samples. All kernels that call each other for it live in this file."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from gauntlet.datasets.streets.camera import SUPERSAMPLING, Camera
from gauntlet.datasets.streets.classes import PAVEMENT, ROAD, SKY, VOID
from gauntlet.datasets.streets.compiled import compiled
from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.light import CONTACT, SUN_BLOCKED, Light
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
from gauntlet.datasets.streets.street import Street

Floats = npt.NDArray[np.float64]
Tile = npt.NDArray[np.float32]
RGB = tuple[float, float, float]

TILE = 256  # the noise tiles are this many cells wide and high, and wrap around


@functools.cache
def noise_tiles() -> tuple[Tile, Tile]:
    """Two tiles in [0, 1] that wrap around: fractal noise (cells of all sizes) and white noise."""
    dice = Dice("streets|noise tiles")
    total, weight = np.zeros((TILE, TILE)), 1.0
    for octave in range(2, 9):
        cells = 2**octave
        grid = dice.bytes(cells * cells).reshape(cells, cells).astype(np.float64)
        position = np.arange(TILE) * (cells / TILE)
        low = position.astype(np.int64)
        part = position - low
        part = part * part * (3 - 2 * part)
        high = (low + 1) % cells
        rows = grid[low] * (1 - part)[:, None] + grid[high] * part[:, None]
        total += (rows[:, low] * (1 - part) + rows[:, high] * part) * weight
        weight *= 0.6
    total = (total - total.min()) / (total.max() - total.min())
    white = dice.bytes(TILE * TILE).reshape(TILE, TILE) / 255
    return total.astype(np.float32), white.astype(np.float32)


@compiled
def smooth(tile: Tile, u: float, v: float) -> float:
    """A tile at a place between its cells."""
    column, row = np.floor(u), np.floor(v)
    s, t = u - column, v - row
    x0, y0 = int(column) & (TILE - 1), int(row) & (TILE - 1)
    x1, y1 = (x0 + 1) & (TILE - 1), (y0 + 1) & (TILE - 1)
    top = tile[y0, x0] * (1.0 - s) + tile[y0, x1] * s
    bottom = tile[y1, x0] * (1.0 - s) + tile[y1, x1] * s
    return float(top * (1.0 - t) + bottom * t)


@compiled
def cell(tile: Tile, u: float, v: float) -> float:
    """The value of the cell that a place lies in."""
    return float(tile[int(np.floor(v)) & (TILE - 1), int(np.floor(u)) & (TILE - 1)])


@compiled
def mix(first: RGB, second: RGB, share: float) -> RGB:
    """From the first colour (share 0) to the second one (share 1)."""
    rest = 1.0 - share
    return (
        first[0] * rest + second[0] * share,
        first[1] * rest + second[1] * share,
        first[2] * rest + second[2] * share,
    )


@compiled
def scaled(color: RGB, gain: float) -> RGB:
    """A colour, brighter or darker."""
    return color[0] * gain, color[1] * gain, color[2] * gain


@compiled
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


@compiled
def ground_label(street: Street, lateral: float, z: float) -> int:
    """Road or pavement."""
    if abs(lateral) < street.half_width:
        return ROAD
    is_open = street.cross_left if lateral < 0.0 else street.cross_right
    if is_open > 0.0 and street.cross_near < z < street.cross_far:
        return ROAD
    return PAVEMENT


@compiled
def is_marked(street: Street, lateral: float, z: float) -> bool:
    """Whether paint lies on the road."""
    if street.cross_near < z < street.cross_far:
        return False
    across = abs(lateral)
    if street.zebra_near < z < street.zebra_far:
        return (lateral + 50.0) % 1.0 < 0.5
    thin = 0.07 + 0.002 * z
    if across < thin:
        return street.dash == 0.0 or z % (2.5 * street.dash) < street.dash
    if abs(across - street.lane) < thin and street.half_width > 1.5 * street.lane:
        return z % 6.0 < 2.0
    return street.edge_line > 0.0 and abs(across - street.half_width + 0.35) < thin


@compiled
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
        joint = 0.75 if z % 1.0 < 0.05 * (1.0 + z * 0.1) else 1.0
        return scaled(street.kerb, (1.0 + fine) * joint)
    color = scaled(street.pavement, 1.0 + fine + 0.35 * broad)
    slab_u, slab_v = across / street.slab, z / street.slab
    tone = cell(grain, slab_u + street.shift, slab_v + street.shift) - 0.5
    width = 0.05 + 0.004 * z
    joint = slab_u % 1.0 < width / street.slab or slab_v % 1.0 < width / street.slab
    return scaled(color, (1.0 + 0.16 * tone) * (1.0 - 0.22 * fade if joint else 1.0))


@compiled
def facade_color(row: Floats, u: float, v: float, fractal: Tile, grain: Tile, dusk: float) -> tuple[RGB, float]:
    """Reflectance of a house front and how much it glows.

    Parameters: width of a bay, height of a storey, share of the window in both, height of the ground floor (0 for
    none), where in the noise it is taken from, height of the front, style (0 windows, 1 bands of glass, 2 blind wall).
    """
    bay, storey = row[PARAMETERS], row[PARAMETERS + 1]
    wide, high = row[PARAMETERS + 2] * 0.5, row[PARAMETERS + 3] * 0.5
    ground_floor, shift = row[PARAMETERS + 4], row[PARAMETERS + 5]
    top, style = row[PARAMETERS + 6], row[PARAMETERS + 7]
    wall = (row[COLOR_A], row[COLOR_A + 1], row[COLOR_A + 2])
    glass = (row[COLOR_B], row[COLOR_B + 1], row[COLOR_B + 2])
    trim = (row[COLOR_C], row[COLOR_C + 1], row[COLOR_C + 2])
    rough = 1.0 + 0.35 * (smooth(fractal, u * 6.0 + shift, v * 6.0) - 0.5)
    rough += 0.18 * (cell(grain, u * 4.0 + shift, v * 13.0) - 0.5)
    wall = scaled(wall, rough)
    if v > top - 0.35:
        return scaled(trim, rough), 0.0
    if v < ground_floor:
        shop = u / (2.0 * bay)
        part, pick = shop % 1.0, cell(grain, shop + shift, shift)
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
    across, along = abs(column % 1.0 - 0.5), abs(line % 1.0 - 0.5)
    if style == 1.0:
        across = across * 0.6
    if across < wide and along < high:
        pick = cell(grain, column + shift, line + shift)
        if across > wide - 0.07 or along > high - 0.05 or (style == 0.0 and across < 0.03):
            return scaled(trim, 0.95), 0.0
        if dusk > 0.0 and pick < 0.45 * dusk:
            return (1.0, 0.84 + 0.1 * pick, 0.5 + 0.3 * pick), 0.9 * dusk
        reflection = 0.7 + 0.7 * smooth(fractal, u * 9.0 + pick * 99.0, v * 7.0)
        if pick > 0.75 and line % 1.0 > 0.5:  # a curtain
            return scaled(trim, 0.8), 0.0
        return scaled(glass, reflection * (0.8 + 0.4 * pick)), 0.0
    if across < wide + 0.06 and 0.0 < 0.5 - line % 1.0 - high < 0.07:  # the sill
        return scaled(trim, 0.85), 0.0
    if along > 0.47:
        return scaled(wall, 0.86), 0.0
    return wall, 0.0


@compiled
def face_color(
    row: Floats, normal: Floats, x: float, y: float, z: float, fractal: Tile, grain: Tile, light: Light
) -> tuple[RGB, float]:
    """Reflectance of a face at a point of it and how much it glows. Parameters by kind:

    plain, glass:   strength of the noise, cells per metre; glass also the height over which it turns to `second`
    round:          radius, darkening of the rim, strength of the noise, cells per metre
    leaf:           radius, raggedness, cells per metre
    planks:         width of a plank, strength of the noise
    railing:        distance of the bars, share of a bar, height, thickness of the rails, cover between the bars
    spokes:         radius, cover between the spokes, share of the radius inside the tyre
    """
    kind = int(row[KIND])
    color = (row[COLOR_A], row[COLOR_A + 1], row[COLOR_A + 2])
    second = (row[COLOR_B], row[COLOR_B + 1], row[COLOR_B + 2])
    dx, dy, dz = x - row[ANCHOR], y - row[ANCHOR + 1], z - row[ANCHOR + 2]
    flat = np.sqrt(normal[0] * normal[0] + normal[2] * normal[2])
    if flat > 0.3:
        u, v = (dz * normal[0] - dx * normal[2]) / flat, dy
    else:
        u, v = dx, dz
    p0, p1, p2 = row[PARAMETERS], row[PARAMETERS + 1], row[PARAMETERS + 2]
    if kind == FACADE:
        return facade_color(row, u, v, fractal, grain, light.dusk)
    if kind == LEAF:
        clump = smooth(fractal, (x + z) * p2 * 0.6, y * p2 * 0.6)
        fine = cell(grain, (x + 7.0 * row[ANCHOR + 2]) * p2, y * p2)
        bulge = 0.85 + 0.28 * v / p0 + 0.25 * light.sun_color[0] * light.sun[0] * u / p0
        return scaled(mix(color, second, fine), bulge * (0.45 + 0.9 * clump)), 0.0
    if kind == ROUND:
        side = u / p0
        turn = 1.0 - p1 * side * side + 0.7 * p1 * side * light.sun[0] * light.sun_color[0]
        turn += p2 * (smooth(fractal, u * row[PARAMETERS + 3], v * row[PARAMETERS + 3] * 0.25) - 0.5)
        return scaled(color, turn), 0.0
    if kind == PLANKS:
        gap = 0.6 if (u / p0) % 1.0 < 0.12 else 1.0
        tone = 1.0 + 0.2 * (cell(grain, u / p0 + row[ANCHOR], 3.0) - 0.5)
        tone += p1 * (smooth(fractal, u * 30.0, v * 4.0) - 0.5)
        return scaled(color, gap * tone), 0.0
    if kind == GLASS:
        rise = min(1.0, max(0.0, v / p2))
        streak = smooth(fractal, u * p1 + row[ANCHOR] * 9.0, v * p1)
        return scaled(mix(color, second, rise * streak * 1.4), 1.0 + p0 * (streak - 0.5)), 0.0
    if kind == SPOKES:
        return (color if dx * dx + dy * dy > p0 * p0 * p2 * p2 else second), 0.0
    fade = min(1.0, 12.0 / z)
    return scaled(color, 1.0 + fade * p0 * (smooth(fractal, u * p1 + row[ANCHOR] * 7.0, v * p1) - 0.5)), 0.0


@compiled
def screen_cover(row: Floats, normal: Floats, x: float, y: float, z: float) -> float:
    """How much of what is behind a railing or a wheel is covered at a point of it, 0 to 1."""
    dx, dy, dz = x - row[ANCHOR], y - row[ANCHOR + 1], z - row[ANCHOR + 2]
    p0, p1, p2 = row[PARAMETERS], row[PARAMETERS + 1], row[PARAMETERS + 2]
    if int(row[KIND]) == SPOKES:
        return 1.0 if dx * dx + dy * dy > p0 * p0 * p2 * p2 else p1
    u = dz * normal[0] - dx * normal[2]
    rail, between = row[PARAMETERS + 3], row[PARAMETERS + 4]
    if dy > p2 - rail or abs(dy - 0.2) < rail * 0.5 or abs(dy - 0.55 * p2) < rail * 0.4:
        return 1.0
    if (u / 2.4) % 1.0 < 0.05:  # a post
        return 1.0
    return 1.0 if (u / p0) % 1.0 < p1 else between


@compiled
def lit(color: RGB, glow: float, received: RGB, z: float, light: Light) -> RGB:
    """A reflectance under the light that its surface receives, seen through z metres of haze."""
    rest = 1.0 - glow
    shown = (
        color[0] * (received[0] * rest + glow),
        color[1] * (received[1] * rest + glow),
        color[2] * (received[2] * rest + glow),
    )
    return mix(shown, light.horizon, z / (z + light.haze_distance))


@compiled
def develop(value: float, light: Light, gain: float, noise: float) -> int:
    """A grey level from an amount of light: contrast, shoulder, noise, rounding."""
    shown = 0.45 + (value * gain - 0.45) * light.contrast
    if shown > 0.8:
        shown = 0.8 + (shown - 0.8) / (1.0 + 2.5 * (shown - 0.8))
    level = np.floor(shown * 255.0 + noise + 0.5)
    return int(min(255.0, max(0.0, level)))


@compiled
def resolve(
    camera: Camera,
    street: Street,
    light: Light,
    faces: Floats,
    normals: Floats,
    planes: Floats,
    received: Floats,
    nearness: Floats,
    seen: npt.NDArray[np.int32],
    screen_nearness: Floats,
    screen: npt.NDArray[np.int32],
    shadow: npt.NDArray[np.uint8],
    fractal: Tile,
    grain: Tile,
    static: npt.NDArray[np.uint8],
    image: npt.NDArray[np.uint8],
    labels: npt.NDArray[np.uint8],
    instances: npt.NDArray[np.int32],
    depth: npt.NDArray[np.float32],
) -> None:
    """Pixels from samples: the mean of the colours; label, instance and depth of the surface most samples see.

    Args:
        camera, street, light: the scene.
        faces, normals, planes: the face table and what `orient` made of it.
        received: (F, 3) light that every face receives.
        nearness, seen, screen_nearness, screen, shadow: from `fill_faces` and `fill_shadows`.
        fractal, grain: the noise tiles.
        static: (H, W, 3, 2) random bytes for the camera's noise.
        image, labels, instances, depth: what is filled; a tie between surfaces goes to the nearest one.
    """
    height, width = labels.shape
    samples = SUPERSAMPLING * SUPERSAMPLING
    keys, depths = np.empty(samples, np.int64), np.empty(samples)
    sunny = (
        light.ambient[0] + light.sun_color[0] * light.sun[1],
        light.ambient[1] + light.sun_color[1] * light.sun[1],
        light.ambient[2] + light.sun_color[2] * light.sun[1],
    )
    for row in range(height):
        for column in range(width):
            red, green, blue = 0.0, 0.0, 0.0
            for sample in range(samples):
                r = row * SUPERSAMPLING + sample // SUPERSAMPLING
                c = column * SUPERSAMPLING + sample % SUPERSAMPLING
                right = (c + 0.5 - camera.center_x) / camera.focal
                down = (r + 0.5 - camera.center_y) / camera.focal
                face = seen[r, c]
                if face >= 0:
                    z = 1.0 / (planes[face, 0] * (c + 0.5) + planes[face, 1] * (r + 0.5) + planes[face, 2])
                    tone, glow = face_color(
                        faces[face], normals[face], right * z, camera.eye - down * z, z, fractal, grain, light
                    )
                    color = lit(
                        tone, glow, (received[face, 0], received[face, 1], received[face, 2]), z, light
                    )
                    key = int(faces[face, LABEL]) + 16 * int(faces[face, INSTANCE])
                elif down > 0.0:
                    z = camera.eye / down
                    x = right * z
                    lateral = x - street.offset - street.slope * z - street.bend * z * z
                    tone = ground_color(street, lateral, x, z, fractal, grain)
                    if shadow[r, c] == CONTACT:
                        color = lit(tone, 0.0, scaled(light.ambient, 0.42), z, light)
                    elif shadow[r, c] == SUN_BLOCKED:
                        color = lit(tone, 0.0, light.ambient, z, light)
                    else:
                        color = lit(tone, 0.0, sunny, z, light)
                    key = ground_label(street, lateral, z)
                else:
                    z = np.inf
                    color = sky_color(light, right, -down, fractal)
                    key = SKY
                front = screen[r, c]
                if front >= 0 and screen_nearness[r, c] > nearness[r, c]:
                    z = 1.0 / (planes[front, 0] * (c + 0.5) + planes[front, 1] * (r + 0.5) + planes[front, 2])
                    x, y = right * z, camera.eye - down * z
                    cover = screen_cover(faces[front], normals[front], x, y, z)
                    tone, glow = face_color(faces[front], normals[front], x, y, z, fractal, grain, light)
                    shown = lit(
                        tone, glow, (received[front, 0], received[front, 1], received[front, 2]), z, light
                    )
                    color = mix(color, shown, cover)
                    key = int(faces[front, LABEL]) + 16 * int(faces[front, INSTANCE])
                red, green, blue = red + color[0], green + color[1], blue + color[2]
                keys[sample], depths[sample] = key, z
            best, best_votes = 0, 0
            for sample in range(samples):
                votes = 0
                for other in range(samples):
                    votes += keys[other] == keys[sample]
                if votes > best_votes or (votes == best_votes and depths[sample] < depths[best]):
                    best, best_votes = sample, votes
            labels[row, column] = keys[best] % 16
            instances[row, column] = keys[best] // 16
            depth[row, column] = depths[best]
            dx, dy = (column + 0.5) / width - 0.5, (row + 0.5) / height - 0.5
            gain = light.exposure * (1.0 - light.vignette * 2.0 * (dx * dx + dy * dy)) / samples
            # The sum of two uniform bytes has a standard deviation of 104.5.
            strength = light.noise / 104.5
            noise = static[row, column]
            image[row, column, 0] = develop(
                red * light.balance[0], light, gain, strength * (float(noise[0, 0]) + float(noise[0, 1]) - 255.0)
            )
            image[row, column, 1] = develop(
                green * light.balance[1], light, gain, strength * (float(noise[1, 0]) + float(noise[1, 1]) - 255.0)
            )
            image[row, column, 2] = develop(
                blue * light.balance[2], light, gain, strength * (float(noise[2, 0]) + float(noise[2, 1]) - 255.0)
            )


@compiled
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
