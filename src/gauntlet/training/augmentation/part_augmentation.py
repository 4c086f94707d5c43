"""Augmentations of a part of an image: cutout, cutmix, a common corruption inside a rectangle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gauntlet.training.config import CutmixConfig, CutoutConfig, LocalizedCorruptionConfig

Image = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.integer]
Pair = tuple[Image, Labels]
Window = tuple[slice, slice]

CUTOUT_COLOR = 127


def draw_window(shape: tuple[int, int], ratio: tuple[float, float], rng: np.random.Generator) -> Window:
    """A rectangle inside (height, width) whose area is a share of it between both ratios, sides 1:2 to 2:1 of it."""
    share = float(rng.uniform(*ratio))
    stretch = float(np.exp(rng.uniform(-np.log(2) / 2, np.log(2) / 2)))
    height = min(shape[0], max(1, round(shape[0] * np.sqrt(share) * stretch)))
    width = min(shape[1], max(1, round(shape[0] * shape[1] * share / height)))
    top = int(rng.integers(shape[0] - height + 1))
    left = int(rng.integers(shape[1] - width + 1))
    return slice(top, top + height), slice(left, left + width)


def cutout(pair: Pair, config: CutoutConfig, rng: np.random.Generator, ignore_index: int) -> Pair:
    """A grey rectangle, ignored by the loss where the recipe says so."""
    if rng.random() >= config.probability:
        return pair
    image, labels = pair[0].copy(), pair[1].copy()
    window = draw_window(labels.shape, config.ratio, rng)
    image[window] = CUTOUT_COLOR
    if config.ignore:
        labels[window] = ignore_index
    return image, labels


def cutmix(pair: Pair, config: CutmixConfig, rng: np.random.Generator, partner: Callable[[], Pair]) -> Pair:
    """A rectangle of another sample at its own place, image and labels; samples of another size are left alone."""
    if rng.random() >= config.probability:
        return pair
    other_image, other_labels = partner()
    if other_labels.shape != pair[1].shape:
        return pair
    image, labels = pair[0].copy(), pair[1].copy()
    window = draw_window(labels.shape, config.ratio, rng)
    image[window] = other_image[window]
    labels[window] = other_labels[window]
    return image, labels


def corrupt_locally(image: Image, config: LocalizedCorruptionConfig, rng: np.random.Generator) -> Image:
    """A common corruption of the whole image, kept inside a rectangle."""
    if rng.random() >= config.probability:
        return image
    from gauntlet.threats.corruptions import COMMON, corrupt

    choices = config.names if config.names is not None else COMMON
    name = choices[int(rng.integers(len(choices)))]
    severity = config.severities[int(rng.integers(len(config.severities)))]
    corrupted = corrupt(np.ascontiguousarray(image), name, severity=severity, seed=int(rng.integers(2**31)))
    window = draw_window(image.shape[:2], config.ratio, rng)
    result = image.copy()
    result[window] = corrupted[window]
    return result
