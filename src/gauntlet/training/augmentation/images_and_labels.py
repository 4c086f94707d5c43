"""Augmentations of an image with its labels; every draw comes from the generator that is passed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from gauntlet.training.augmentation import part_augmentation
from gauntlet.training.config import AugmentationConfig, ColorJitterConfig

Image = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.integer]
Pair = tuple[Image, Labels]
Around = tuple[tuple[int, int], tuple[int, int]]
Window = tuple[slice, slice]

PADDING_COLOR = (127, 127, 127)


@dataclass(frozen=True)
class Augmentation:
    """All augmentations of a recipe, applied in the order of its fields.

    Attributes:
        config: which, and how strong.
        ignore_index: label of pixels that padding and rotation bring in.
    """

    config: AugmentationConfig
    ignore_index: int

    def __call__(self, pair: Pair, rng: np.random.Generator, partner: Callable[[np.random.Generator], Pair]) -> Pair:
        """The augmented pair.

        Args:
            pair: uint8 image (H, W, 3) and labels (H, W).
            rng: the sample's own generator.
            partner: draws another sample with the generator, for cutmix.
        """
        config = self.config
        pair = self.geometric(pair, rng)
        if config.cutmix is not None:
            pair = part_augmentation.cutmix(pair, config.cutmix, rng, lambda: self.geometric(partner(rng), rng))
        image, labels = pair
        image = photometric(image, config, rng)
        if config.cutout is not None:
            image, labels = part_augmentation.cutout((image, labels), config.cutout, rng, self.ignore_index)
        return np.ascontiguousarray(image), np.ascontiguousarray(labels)

    def geometric(self, pair: Pair, rng: np.random.Generator) -> Pair:
        """Scale, rotation, crop and mirror: what moves pixels and labels together."""
        config = self.config
        if config.scale is not None:
            pair = resize(pair, float(rng.uniform(*config.scale)))
        if config.rotation:
            pair = rotate(pair, float(rng.uniform(-config.rotation, config.rotation)), self.ignore_index)
        if config.crop is not None:
            pair = crop(pair, config.crop, rng, self.ignore_index)
        if config.flip and rng.random() < config.flip:
            pair = pair[0][:, ::-1], pair[1][:, ::-1]
        return pair


def photometric(image: Image, config: AugmentationConfig, rng: np.random.Generator) -> Image:
    """Colour, blur and localized corruption: what leaves pixels where they are."""
    if config.color_jitter is not None:
        image = jitter_color(image, config.color_jitter, rng)
    if config.blur and rng.random() < config.blur:
        image = _as_uint8(cv2.GaussianBlur(image, (5, 5), 0))
    if config.localized_corruption is not None:
        image = part_augmentation.corrupt_locally(image, config.localized_corruption, rng)
    return image


def resize(pair: Pair, factor: float) -> Pair:
    """Both by one factor: the image bilinear, the labels nearest."""
    image, labels = resize_image(pair[0], factor), pair[1]
    size = image.shape[1], image.shape[0]
    scaled = cv2.resize(labels.astype(np.int32), size, interpolation=cv2.INTER_NEAREST_EXACT)
    return image, scaled.astype(labels.dtype)


def resize_image(image: Image, factor: float) -> Image:
    """Bilinear, to a whole number of pixels."""
    size = max(1, round(image.shape[1] * factor)), max(1, round(image.shape[0] * factor))
    return _as_uint8(cv2.resize(image, size, interpolation=cv2.INTER_LINEAR))


def rotate(pair: Pair, degrees: float, ignore_index: int) -> Pair:
    """Around the centre, counter-clockwise; what comes in from outside is grey and ignored."""
    image, labels = pair
    height, width = labels.shape
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0)
    turned = cv2.warpAffine(
        image,
        matrix,
        (width, height),
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=PADDING_COLOR,
    )
    turned_labels = cv2.warpAffine(
        labels.astype(np.float32),  # exact for labels below 2**24; OpenCV warps no int32
        matrix,
        (width, height),
        flags=cv2.INTER_NEAREST,
        borderMode=cv2.BORDER_CONSTANT,
        borderValue=float(ignore_index),
    )
    return _as_uint8(turned), turned_labels.astype(labels.dtype)


def crop(pair: Pair, size: tuple[int, int], rng: np.random.Generator, ignore_index: int) -> Pair:
    """A random window of (height, width); smaller images are first padded with grey, ignored pixels around."""
    image, labels = pair
    around, window = draw_crop(labels.shape, size, rng)
    if any(map(any, around)):
        labels = np.pad(labels, around, constant_values=ignore_index)
    return crop_image(image, around, window), labels[window]


def draw_crop(shape: tuple[int, int], size: tuple[int, int], rng: np.random.Generator) -> tuple[Around, Window]:
    """How many pixels an image of (height, width) needs around it, and the window in the padded image."""
    missing_rows, missing_columns = max(0, size[0] - shape[0]), max(0, size[1] - shape[1])
    above, before = missing_rows // 2, missing_columns // 2
    top = int(rng.integers(shape[0] + missing_rows - size[0] + 1))
    left = int(rng.integers(shape[1] + missing_columns - size[1] + 1))
    around = ((above, missing_rows - above), (before, missing_columns - before))
    return around, (slice(top, top + size[0]), slice(left, left + size[1]))


def crop_image(image: Image, around: Around, window: Window) -> Image:
    """The window of an image that is first padded with grey."""
    if any(map(any, around)):
        image = np.pad(image, (*around, (0, 0)), constant_values=PADDING_COLOR[0])
    return image[window]


def jitter_color(image: Image, config: ColorJitterConfig, rng: np.random.Generator) -> Image:
    """Random brightness and contrast (around the mean), then saturation and hue."""
    values = image.astype(np.float32)
    values *= 1.0 + config.brightness * float(rng.uniform(-1, 1))
    mean = float(values.mean())
    values = mean + (values - mean) * (1.0 + config.contrast * float(rng.uniform(-1, 1)))
    jittered = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    if not config.saturation and not config.hue:
        return jittered
    hsv = cv2.cvtColor(jittered, cv2.COLOR_RGB2HSV).astype(np.int16)
    hsv[..., 0] = (hsv[..., 0] + round(180 * config.hue * float(rng.uniform(-1, 1)))) % 180
    factor = 1.0 + config.saturation * float(rng.uniform(-1, 1))
    hsv[..., 1] = np.clip(hsv[..., 1] * factor, 0, 255).astype(np.int16)
    return _as_uint8(cv2.cvtColor(hsv.astype(np.uint8), cv2.COLOR_HSV2RGB))


def _as_uint8(image: object) -> Image:
    return np.asarray(image, dtype=np.uint8)
