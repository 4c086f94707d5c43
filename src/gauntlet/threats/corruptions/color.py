"""Brightness, contrast, saturation and fewer colours (docs/specs/corruptions.md, sections 2.11, 2.12, 2.19 and 4.4)."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.compiling import compiled
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws

BRIGHTNESS_SHIFTS = (0.1, 0.2, 0.3, 0.4, 0.5)
CONTRAST_FACTORS = (0.4, 0.3, 0.2, 0.1, 0.05)
SATURATE = ((0.3, 0.0), (0.1, 0.0), (2.0, 0.0), (5.0, 0.1), (20.0, 0.2))


def brightness(image: Image, severity: int, draws: Draws) -> Image:
    """Raises the value of HSV."""
    return _hsv_map(image, 1.0, 0.0, BRIGHTNESS_SHIFTS[severity - 1])


def saturate(image: Image, severity: int, draws: Draws) -> Image:
    """Scales the saturation of HSV."""
    factor, shift = SATURATE[severity - 1]
    return _hsv_map(image, factor, shift, 0.0)


def contrast(image: Image, severity: int, draws: Draws) -> Image:
    """Draws every channel towards its mean."""
    factor = CONTRAST_FACTORS[severity - 1]
    levels = np.arange(256) / 255.0
    table = np.empty((1, 256, 3), np.uint8)
    for channel, histogram in enumerate(_histograms(image)):
        mean = int(histogram @ np.arange(256)) / (255.0 * image.shape[0] * image.shape[1])
        table[0, :, channel] = (np.clip((levels - mean) * factor + mean, 0, 1) * 255).astype(np.uint8)
    return np.asarray(cv2.LUT(image, table), np.uint8)


def color_quant(image: Image, severity: int, draws: Draws) -> Image:
    """Keeps the 6 - severity most significant bits of every sample."""
    return image & np.uint8(0xFF << (2 + severity) & 0xFF)


def _histograms(image: Image) -> npt.NDArray[np.int64]:
    """How often every level occurs, per channel."""
    counts = np.zeros((3, 256), np.int64)
    _count_levels(image.reshape(-1), counts)
    return counts


@compiled
def _count_levels(samples: npt.NDArray[np.uint8], counts: npt.NDArray[np.int64]) -> None:
    for pixel in range(samples.size // 3):
        for channel in range(3):
            counts[channel, samples[3 * pixel + channel]] += 1


def _hsv_map(image: Image, saturation_factor: float, saturation_shift: float, value_shift: float) -> Image:
    out = np.empty_like(image)
    _map_hsv(image.reshape(-1), saturation_factor, saturation_shift, value_shift, out.reshape(-1))
    return out


@compiled
def _map_hsv(
    samples: npt.NDArray[np.uint8],
    saturation_factor: float,
    saturation_shift: float,
    value_shift: float,
    out: npt.NDArray[np.uint8],
) -> None:
    """RGB to HSV (hexcone), S <- clip(a S + b), V <- clip(V + c), and back, in the reference's order of operations."""
    for start in range(0, samples.size, 3):
        red = samples[start] / 255.0
        green = samples[start + 1] / 255.0
        blue = samples[start + 2] / 255.0
        value = max(red, green, blue)
        delta = value - min(red, green, blue)
        hue = 0.0
        saturation = 0.0
        if delta > 0.0:
            saturation = delta / value
            if blue == value:
                hue = 4.0 + (red - green) / delta
            elif green == value:
                hue = 2.0 + (blue - red) / delta
            else:
                hue = (green - blue) / delta
            hue = hue / 6.0 if hue >= 0.0 else hue / 6.0 + 1.0
        saturation = min(max(saturation * saturation_factor + saturation_shift, 0.0), 1.0)
        value = min(max(value + value_shift, 0.0), 1.0)
        sector = np.floor(hue * 6.0)
        fraction = hue * 6.0 - sector
        low = value * (1.0 - saturation)
        falling = value * (1.0 - fraction * saturation)
        rising = value * (1.0 - (1.0 - fraction) * saturation)
        if sector == 0.0:
            red, green, blue = value, rising, low
        elif sector == 1.0:
            red, green, blue = falling, value, low
        elif sector == 2.0:
            red, green, blue = low, value, rising
        elif sector == 3.0:
            red, green, blue = low, falling, value
        elif sector == 4.0:
            red, green, blue = rising, low, value
        else:
            red, green, blue = value, low, falling
        out[start] = np.uint8(np.int32(red * 255.0))
        out[start + 1] = np.uint8(np.int32(green * 255.0))
        out[start + 2] = np.uint8(np.int32(blue * 255.0))
