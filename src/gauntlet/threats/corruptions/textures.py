"""Frost textures: procedural ones with the statistics of the reference's photographs, or the user's own pictures.

The recipe and the target figures are those of docs/specs/corruptions.md, 3. A texture is made at the first use, from a
fixed seed, and kept in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image as Picture
from scipy import fft

from gauntlet.compiling import compiled
from gauntlet.errors import GauntletError
from gauntlet.seeding import numpy_generator
from gauntlet.threats.corruptions.catalogue import Image
from gauntlet.threats.corruptions.draws import Draws

Plane = npt.NDArray[np.float64]
Spectrum = npt.NDArray[np.complex128]

BAND_SIGMAS = (0.7, 1.4, 2.8, 5.6, 11.2, 22.4, 44.8)
"""Borders of the difference-of-Gaussian bands, in pixels; the first band lies below 0.7, the last above 44.8."""
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
ORIENTATIONS = 8
PASSES = 4
ENLARGEMENT = 1.1
DRAWN = 5
"""How many textures can be drawn (the reference ships six and never draws the sixth)."""


@dataclass(frozen=True)
class TextureClass:
    """Targets of one texture: the table of section 3.1.

    Attributes:
        shape: height and width in pixels.
        means, deviations: per channel, R, G, B.
        levels: the grey levels at QUANTILES.
        bands: standard deviation of the grey image in each band of BAND_SIGMAS.
        tints: standard deviation of a smooth field of its own in each channel.
    """

    shape: tuple[int, int]
    means: tuple[float, float, float]
    deviations: tuple[float, float, float]
    levels: tuple[float, ...]
    bands: tuple[float, ...]
    tints: tuple[float, float, float] = (0.0, 0.0, 0.0)


CLASSES = {
    "A": TextureClass(
        (600, 900),
        (77.7, 149.1, 165.7),
        (26.9, 16.5, 15.3),
        (81, 95, 102, 116, 128, 141, 163, 177, 220),
        (5.1, 3.5, 2.4, 1.9, 2.1, 2.7, 3.2, 11.2),
        (10.0, 3.0, 5.0),
    ),
    "B": TextureClass(
        (315, 560),
        (200.8, 205.4, 214.5),
        (21.4, 22.1, 22.6),
        (56, 140, 165, 193, 208, 220, 235, 244, 254),
        (5.2, 4.2, 4.0, 3.8, 3.0, 2.5, 2.3, 13.6),
    ),
    "C": TextureClass(
        (350, 527),
        (137.6, 152.8, 165.2),
        (28.5, 28.5, 29.9),
        (22, 81, 102, 132, 150, 167, 196, 231, 254),
        (8.9, 6.8, 5.6, 4.5, 3.3, 2.4, 2.8, 15.6),
    ),
    "D": TextureClass(
        (495, 660),
        (112.4, 123.4, 134.8),
        (44.4, 43.3, 41.7),
        (23, 43, 58, 89, 117, 149, 202, 237, 255),
        (11.6, 8.1, 8.0, 8.0, 7.7, 6.2, 4.6, 24.8),
    ),
}
DRAW_ORDER = ("A", "B", "B", "C", "D")
"""The class behind each of the five equally likely numbers; the reference's second and third picture are the same."""


def draw_frost(draws: Draws, height: int, width: int, folder: str | Path | None = None) -> Image:
    """A random piece (height, width, 3) of a random texture.

    Args:
        folder: where the reference's pictures frost1 .. frost5 are, or None for the procedural textures.
    """
    number = draws.integer(DRAWN)
    texture = _enlarged_texture(None if folder is None else str(folder), number, height, width)
    top = draws.integer(texture.shape[0] - height)
    left = draws.integer(texture.shape[1] - width)
    return texture[top : top + height, left : left + width]


@lru_cache(maxsize=2 * DRAWN)
def _enlarged_texture(folder: str | None, number: int, height: int, width: int) -> Image:
    """The texture at the scale at which an image of that size is cut out of it (section 2.9)."""
    texture = frost_texture(DRAW_ORDER[number]) if folder is None else _read_texture(folder, number + 1)
    scale = ENLARGEMENT * max(1.0, height / texture.shape[0], width / texture.shape[1])
    shape = (math.ceil(texture.shape[0] * scale), math.ceil(texture.shape[1] * scale), 3)
    out = np.empty(shape, np.uint8)
    _enlarge(texture, *_cubic_taps(texture.shape[0], shape[0]), *_cubic_taps(texture.shape[1], shape[1]), out)
    out.setflags(write=False)
    return out


@lru_cache(maxsize=DRAWN)
def _read_texture(folder: str, number: int) -> Image:
    files = sorted(path for path in Path(folder).glob(f"frost{number}.*") if path.suffix.lower() in (".png", ".jpg"))
    if not files:
        raise GauntletError(
            f"the folder '{folder}' has no frost{number}.png or frost{number}.jpg; give the folder with the reference's"
            f" textures frost1 to frost{DRAWN}, or none to use the built-in ones."
        )
    with Picture.open(files[0]) as picture:
        pixels = np.asarray(picture if picture.mode in ("RGB", "RGBA") else picture.convert("RGB"))
    return np.ascontiguousarray(pixels[..., :3])  # transparency is ignored, not blended


@lru_cache(maxsize=len(CLASSES))
def frost_texture(kind: str) -> Image:
    """The procedural texture of a class "A" to "D", uint8 (H, W, 3)."""
    target = CLASSES[kind]
    generator = numpy_generator(ord(kind))
    crystals = _spectrum(_crystals(target.shape, generator))
    grains = _spectrum(generator.standard_normal(target.shape))
    spectrum = np.zeros_like(grains)
    for band, (transfer, deviation) in enumerate(zip(_band_transfers(target.shape), target.bands, strict=True)):
        grain = _unit(grains * transfer, target.shape)
        coarse = band > 4  # needles are small: coarse bands are plain noise
        mixture = grain if coarse else 0.8 * _unit(crystals * transfer, target.shape) + 0.6 * grain
        spectrum += deviation * mixture
    grey = fft.irfft2(spectrum, target.shape)
    for _ in range(PASSES):
        spectrum = _spectrum(_with_levels(grey, target.levels))
        bands = [spectrum * transfer for transfer in _band_transfers(target.shape)]
        spectrum = sum(
            (deviation * _unit(band, target.shape) for band, deviation in zip(bands, target.bands, strict=True)),
            np.zeros_like(spectrum),
        )
        grey = fft.irfft2(spectrum, target.shape)
    return _colored(_with_levels(grey, target.levels), target, generator)


def _crystals(shape: tuple[int, int], generator: np.random.Generator) -> Plane:
    """Thin bright needles in coherent patches: noise stretched along eight directions, one of which wins per patch."""
    vertical = fft.fftfreq(shape[0])[:, None]
    horizontal = fft.rfftfreq(shape[1])[None, :]
    patch = _gaussian_transfer(shape, 20.0)
    needles = np.zeros(shape)
    total = np.zeros(shape)
    for direction in range(ORIENTATIONS):
        angle = math.pi * direction / ORIENTATIONS
        along = horizontal * math.cos(angle) + vertical * math.sin(angle)
        across = -horizontal * math.sin(angle) + vertical * math.cos(angle)
        stretched = np.exp(-2 * math.pi**2 * ((10 * along) ** 2 + across**2))
        noise = _unit(_spectrum(generator.standard_normal(shape)) * stretched, shape)
        choice = _unit(_spectrum(generator.standard_normal(shape)) * patch, shape)
        weight = np.exp(5 * fft.irfft2(choice, shape))
        needles += weight * abs(fft.irfft2(noise, shape))
        total += weight
    return -needles / total


def _colored(grey: Plane, target: TextureClass, generator: np.random.Generator) -> Image:
    """Channels of the target's means and deviations, with smooth tints of their own."""
    common = (grey - grey.mean()) / grey.std()
    out = np.empty((*target.shape, 3), np.uint8)
    for channel in range(3):
        mean, deviation, tint = target.means[channel], target.deviations[channel], target.tints[channel]
        plane = mean + math.sqrt(deviation**2 - tint**2) * common
        if tint:
            smooth = _spectrum(generator.standard_normal(target.shape)) * _gaussian_transfer(target.shape, 8.0)
            plane += tint * fft.irfft2(_unit(smooth, target.shape), target.shape)
        out[..., channel] = np.clip(np.rint(plane), 0, 255)
    return out


def _spectrum(plane: Plane) -> Spectrum:
    """The Fourier transform without the mean."""
    spectrum: Spectrum = fft.rfft2(plane)
    spectrum[0, 0] = 0
    return spectrum


def _unit(spectrum: Spectrum, shape: tuple[int, int]) -> Spectrum:
    """Scaled so that the plane has the standard deviation 1 (Parseval; half of the columns stand for two)."""
    power = (spectrum.real**2 + spectrum.imag**2).sum(axis=0)
    twice = power[1:-1].sum() * 2 if shape[1] % 2 == 0 else power[1:-1].sum() * 2 + power[-1]
    deviation = math.sqrt(power[0] + twice + power[-1]) / (shape[0] * shape[1])
    return spectrum / deviation


def _gaussian_transfer(shape: tuple[int, int], sigma: float) -> Plane:
    vertical = fft.fftfreq(shape[0])[:, None]
    horizontal = fft.rfftfreq(shape[1])[None, :]
    transfer: Plane = np.exp(-2 * math.pi**2 * sigma**2 * vertical**2) * np.exp(
        -2 * math.pi**2 * sigma**2 * horizontal**2
    )
    return transfer


@lru_cache(maxsize=1)
def _band_transfers(shape: tuple[int, int]) -> list[Plane]:
    """Transfer functions of the difference-of-Gaussian bands; they add up to 1."""
    smoother = [np.ones((shape[0], shape[1] // 2 + 1)), *(_gaussian_transfer(shape, sigma) for sigma in BAND_SIGMAS)]
    return [fine - coarse for fine, coarse in zip(smoother, [*smoother[1:], np.zeros_like(smoother[0])], strict=True)]


def _with_levels(plane: Plane, levels: tuple[float, ...]) -> Plane:
    """The plane with its values replaced, rank by rank, by those of the given quantile function."""
    order = np.argsort(plane, axis=None, kind="stable")
    out = np.empty(plane.size)
    out[order] = np.interp((np.arange(plane.size) + 0.5) / plane.size, QUANTILES, levels)
    return out.reshape(plane.shape)


def _cubic_taps(length: int, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions and weights (11-bit fixed point) of cubic interpolation with a = -0.75, borders replicated."""
    a = -0.75
    positions = (np.arange(count) + 0.5) * (length / count) - 0.5
    first = np.floor(positions)
    t = positions - first
    outer = t + 1
    rest = 1 - t
    weights = np.empty((count, 4))
    weights[:, 0] = ((a * outer - 5 * a) * outer + 8 * a) * outer - 4 * a
    weights[:, 1] = ((a + 2) * t - (a + 3)) * t * t + 1
    weights[:, 2] = ((a + 2) * rest - (a + 3)) * rest * rest + 1
    weights[:, 3] = 1 - weights[:, :3].sum(axis=1)
    indices = first.astype(np.int64)[:, None] + np.arange(-1, 3)[None, :]
    return np.clip(indices, 0, length - 1), np.rint(weights * 2048).astype(np.int64)


@compiled
def _enlarge(
    texture: Image,
    rows: npt.NDArray[np.int64],
    row_weights: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    column_weights: npt.NDArray[np.int64],
    out: Image,
) -> None:
    """Bicubic interpolation in whole numbers, along rows first, rounded once."""
    height, width = out.shape[:2]
    wide = np.empty((texture.shape[0], width, 3), np.int32)
    for y in range(texture.shape[0]):
        for x in range(width):
            for channel in range(3):
                total = 0
                for tap in range(4):
                    total += column_weights[x, tap] * texture[y, columns[x, tap], channel]
                wide[y, x, channel] = total
    for y in range(height):
        for x in range(width):
            for channel in range(3):
                total = 1 << 21
                for tap in range(4):
                    total += row_weights[y, tap] * wide[rows[y, tap], x, channel]
                out[y, x, channel] = np.uint8(min(max(total >> 22, 0), 255))
