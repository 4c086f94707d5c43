"""Light and weather of a scene: sun, sky, haze and what the camera makes of them."""

from __future__ import annotations

import math
from typing import NamedTuple

from gauntlet.datasets.streets.dice import Dice
from gauntlet.datasets.streets.mesh import Color, Point

# Strengths of a shadow: no sun; less of the sky's light as well; hardly any light at all.
SUN_BLOCKED, SPOT, CONTACT = 1, 2, 3
SPOT_SHARE, CONTACT_SHARE = 0.7, 0.42  # of the sky's light


class Light(NamedTuple):
    """What lights the scene and how it is developed.

    Attributes:
        sun: unit vector towards the sun.
        sun_color: light of the sun on a surface that faces it, RGB.
        ambient: light of the sky, RGB.
        zenith, horizon: colours of the sky.
        cloud: colour of the clouds.
        cover: share of the sky that clouds cover, in [0, 1].
        cloud_shift: where in the noise the clouds are taken from.
        haze_distance: metres at which half of the contrast is lost.
        dusk: 0 by day to 1 when windows and lamps are lit.
        exposure, contrast: of the camera.
        balance: the camera's white balance, RGB gains.
        vignette: darkening in the corners.
        noise: standard deviation of the camera's noise in grey levels.
    """

    sun: Point
    sun_color: Color
    ambient: Color
    zenith: Color
    horizon: Color
    cloud: Color
    cover: float
    cloud_shift: float
    haze_distance: float
    dusk: float
    exposure: float
    contrast: float
    balance: Color
    vignette: float
    noise: float


def _direction(azimuth: float, elevation: float) -> Point:
    """Rounded, so that machines whose sin and cos differ in the last bit agree."""
    flat = math.cos(elevation)
    x, y, z = flat * math.sin(azimuth), math.sin(elevation), flat * math.cos(azimuth)
    return round(x, 9), round(y, 9), round(z, 9)


def _scaled(color: Color, gain: float) -> Color:
    return color[0] * gain, color[1] * gain, color[2] * gain


def sample_light(dice: Dice) -> Light:
    """Draws weather and time of day: clear, cloudy, overcast, golden hour or dusk."""
    weather = dice.uniform()
    azimuth = dice.uniform(-math.pi, math.pi)
    if weather < 0.38:  # clear
        sun, ambient = dice.uniform(0.5, 0.7), dice.uniform(0.42, 0.55)
        elevation, cover, dusk = dice.uniform(0.5, 1.1), dice.uniform(0.0, 0.35), 0.0
        tint, sky_tint = (1.0, 0.96, 0.88), (0.92, 1.0, 1.12)
        zenith, horizon = (0.28, 0.50, 0.86), (0.74, 0.85, 0.96)
    elif weather < 0.60:  # cloudy
        sun, ambient = dice.uniform(0.25, 0.45), dice.uniform(0.52, 0.66)
        elevation, cover, dusk = dice.uniform(0.45, 1.0), dice.uniform(0.4, 0.75), 0.0
        tint, sky_tint = (1.0, 0.98, 0.95), (0.97, 1.0, 1.04)
        zenith, horizon = (0.40, 0.56, 0.80), (0.80, 0.85, 0.90)
    elif weather < 0.80:  # overcast
        sun, ambient = dice.uniform(0.03, 0.12), dice.uniform(0.68, 0.85)
        elevation, cover, dusk = dice.uniform(0.6, 1.2), dice.uniform(0.9, 1.0), 0.0
        tint, sky_tint = (1.0, 1.0, 1.0), (0.98, 1.0, 1.02)
        zenith, horizon = (0.62, 0.66, 0.70), (0.76, 0.78, 0.80)
    elif weather < 0.92:  # golden hour
        sun, ambient = dice.uniform(0.5, 0.75), dice.uniform(0.38, 0.5)
        elevation, cover, dusk = dice.uniform(0.18, 0.4), dice.uniform(0.0, 0.6), dice.uniform(0.0, 0.3)
        tint, sky_tint = (1.15, 0.88, 0.6), (0.98, 0.96, 1.08)
        zenith, horizon = (0.38, 0.48, 0.74), (0.98, 0.82, 0.62)
    else:  # dusk
        sun, ambient = dice.uniform(0.02, 0.1), dice.uniform(0.42, 0.58)
        elevation, cover, dusk = dice.uniform(0.12, 0.3), dice.uniform(0.1, 0.8), dice.uniform(0.6, 1.0)
        tint, sky_tint = (1.1, 0.8, 0.7), (0.9, 0.95, 1.2)
        zenith, horizon = (0.20, 0.26, 0.46), (0.72, 0.58, 0.58)
    gray = dice.uniform(0.55, 0.98) * (0.55 if dusk > 0.5 else 1.0)
    warmth = dice.uniform(-0.07, 0.07)
    brightness = dice.uniform(0.85, 1.1)
    return Light(
        sun=_direction(azimuth, elevation),
        sun_color=_scaled(tint, sun),
        ambient=_scaled(sky_tint, ambient),
        zenith=_scaled(zenith, brightness),
        horizon=_scaled(horizon, brightness),
        cloud=(gray, gray * (0.99 + warmth * 0.1), gray * (1.0 - warmth * 0.5)),
        cover=cover,
        cloud_shift=dice.uniform(0.0, 256.0),
        haze_distance=dice.choice((140.0, 250.0, 400.0, 800.0)) * dice.uniform(0.8, 1.3),
        dusk=dusk,
        exposure=dice.uniform(0.98, 1.32),
        contrast=dice.uniform(0.85, 1.15),
        balance=(1.0 + warmth, 1.0, 1.0 - warmth),
        vignette=dice.uniform(0.0, 0.22),
        noise=dice.uniform(0.6, 4.5),
    )
