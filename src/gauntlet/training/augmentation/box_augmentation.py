"""Augmentations of an image with its boxes, and their way into a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes
from gauntlet.training.augmentation.images_and_labels import Image, crop_image, draw_crop, photometric, resize_image
from gauntlet.training.config import AugmentationConfig

BoxPair = tuple[Image, Boxes]

LEAST_VISIBLE = 0.3
LEAST_SIDE = 2.0
"""What is left of an object in the crop is learnt when it is more than this share of its area and so many pixels."""

UNFIT = ("rotation", "cutmix", "cutout")


@dataclass(frozen=True)
class BoxAugmentation:
    """The augmentations of a recipe that fit boxes: scale, crop, mirror, colour, blur, localized corruption."""

    config: AugmentationConfig

    def __post_init__(self) -> None:
        for name in UNFIT:
            if getattr(self.config, name):
                raise GauntletError(f"augmentation.{name} does not fit boxes; remove it from a recipe for a detector.")

    def __call__(
        self, pair: BoxPair, rng: np.random.Generator, partner: Callable[[np.random.Generator], BoxPair]
    ) -> BoxPair:
        """The augmented pair; `rng` is the sample's own generator, nothing is taken from a partner."""
        config = self.config
        image, boxes = pair
        if config.scale is not None:
            image, boxes = resize((image, boxes), float(rng.uniform(*config.scale)))
        if config.crop is not None:
            image, boxes = crop((image, boxes), config.crop, rng)
        if config.flip and rng.random() < config.flip:
            image, boxes = mirror((image, boxes))
        return np.ascontiguousarray(photometric(image, config, rng)), boxes


def resize(pair: BoxPair, factor: float) -> BoxPair:
    """Both by one factor, up to the rounding of the image's size."""
    image = resize_image(pair[0], factor)
    factors = [image.shape[1] / pair[0].shape[1], image.shape[0] / pair[0].shape[0]]
    return image, moved(pair[1], pair[1].xyxy * np.array(factors * 2, dtype=np.float32))


def crop(pair: BoxPair, size: tuple[int, int], rng: np.random.Generator) -> BoxPair:
    """A random window of (height, width); of objects that are hardly in it, an ignored region stays."""
    image, boxes = pair
    around, window = draw_crop((image.shape[0], image.shape[1]), size, rng)
    shift = np.array([around[1][0] - window[1].start, around[0][0] - window[0].start] * 2, dtype=np.float32)
    limits = np.array([size[1], size[0]] * 2, dtype=np.float32)
    shifted = boxes.xyxy + shift
    clipped = np.clip(shifted, 0, limits)
    sides = clipped[:, 2:] - clipped[:, :2]
    whole = np.prod(shifted[:, 2:] - shifted[:, :2], axis=1)
    learnt = (np.prod(sides, axis=1) > LEAST_VISIBLE * whole) & (sides.min(axis=1, initial=np.inf) >= LEAST_SIDE)
    crowd = ~learnt if boxes.crowd is None else boxes.crowd | ~learnt
    seen = (sides > 0).all(axis=1)
    difficult = None if boxes.difficult is None else boxes.difficult[seen]
    cropped = Boxes(clipped[seen], boxes.classes[seen], crowd=crowd[seen], difficult=difficult)
    return crop_image(image, around, window), cropped


def mirror(pair: BoxPair) -> BoxPair:
    """Left and right change places."""
    image, boxes = pair
    xyxy = boxes.xyxy.copy()
    xyxy[:, [0, 2]] = image.shape[1] - boxes.xyxy[:, [2, 0]]
    return image[:, ::-1], moved(boxes, xyxy)


def moved(boxes: Boxes, xyxy: npt.NDArray[np.float32]) -> Boxes:
    """The same objects at other places."""
    return Boxes(xyxy, boxes.classes, crowd=boxes.crowd, difficult=boxes.difficult)
