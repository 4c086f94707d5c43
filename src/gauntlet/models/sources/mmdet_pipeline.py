"""mmdet's test pipeline inside a model: images in, a padded canvas out, differentiably, with the library's own sizes.

The steps of the configuration are the library's objects. They are run once for every size of images, on an image of
zeros, to learn what they do to it; images are then resized and padded by torch to exactly these sizes. OpenCV's
linear resizing, which mmdet uses, does not average where an image shrinks, and neither does torch's here; Pillow's,
which some configurations ask for, does. What the library rounds to whole grey levels after resizing is not rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from gauntlet.errors import GauntletError

# What brings images and annotations in, and what hands them on.
_AROUND = ("Load", "Pack", "InferencerLoader", "mmdet.Load", "mmdet.Pack")
_RESAMPLING = ("bilinear", "bicubic")
# What post-processing and losses ask a data sample for.
_FACTS: tuple[str, ...] = ("img_shape", "ori_shape", "scale_factor", "border")


@dataclass(frozen=True)
class Placed:
    """Where an image of a size lies on its canvas.

    Attributes:
        size: (height, width) of the image after resizing.
        margins: rows above and below, columns left and right of it.
        fill: the colour of the margins, RGB in [0, 1].
        scale: (x, y), the resized image's size over the image's.
        facts: what the library's data sample says of it.
        mode: of resampling.
        antialias: whether resizing averages where an image shrinks.
    """

    size: tuple[int, int]
    scale: tuple[float, float] = (1.0, 1.0)
    margins: tuple[int, int, int, int] = (0, 0, 0, 0)
    fill: tuple[float, float, float] = (0.0, 0.0, 0.0)
    mode: str = "bilinear"
    antialias: bool = False
    facts: dict[str, Any] | None = None

    def place(self, images: torch.Tensor) -> torch.Tensor:
        """Images (N, 3, H, W) on their canvas (N, 3, h, w)."""
        if tuple(images.shape[-2:]) != self.size:
            images = functional.interpolate(
                images, self.size, mode=self.mode, align_corners=False, antialias=self.antialias
            )
            if self.mode == "bicubic":  # throws values beyond black and white, which the library cuts off
                images = images.clamp(0, 1)
        above, below, left, right = self.margins
        if not any(self.margins):
            return images
        fill = images.new_tensor(self.fill)[None, :, None, None]
        return functional.pad(images - fill, (left, right, above, below)) + fill

    def to_canvas(self, boxes: torch.Tensor) -> torch.Tensor:
        """Corners (..., 4) in the image's pixels as corners on the canvas."""
        return boxes * boxes.new_tensor(self.scale * 2) + self._origin(boxes)

    def to_image(self, boxes: torch.Tensor) -> torch.Tensor:
        """Corners (..., 4) on the canvas as corners in the image's pixels."""
        return (boxes - self._origin(boxes)) / boxes.new_tensor(self.scale * 2)

    def _origin(self, boxes: torch.Tensor) -> torch.Tensor:
        above, _, left, _ = self.margins
        return boxes.new_tensor([left, above, left, above])


class Pipeline:
    """The pipeline that a configuration has for tests.

    Args:
        steps: as the configuration has them.
    """

    def __init__(self, steps: Sequence[Any]) -> None:
        from mmdet.registry import TRANSFORMS

        # The type is a class in configurations of the newest kind.
        kinds = [str(getattr(step["type"], "__name__", step["type"])) for step in steps]
        loading = [step for kind, step in zip(kinds, steps, strict=True) if kind.startswith(_AROUND)]
        self.floating = any(step.get("to_float32") for step in loading)
        self.steps = [
            TRANSFORMS.build(dict(step))
            for kind, step in zip(kinds, steps, strict=True)
            if not kind.startswith(_AROUND)
        ]
        for step in self.steps:
            if _kind(step) not in ("resize", "pad", "centre"):
                raise GauntletError(
                    f"the test pipeline of the configuration has the step {type(step).__name__}, which is not known "
                    "here; known are Resize, FixScaleResize, Pad and RandomCenterCropPad in test mode."
                )
        self._placed: dict[tuple[int, int], Placed] = {}

    def __call__(self, height: int, width: int) -> Placed:
        """What the steps do to images of a size."""
        if (height, width) not in self._placed:
            self._placed[height, width] = self._run(height, width)
        return self._placed[height, width]

    def _run(self, height: int, width: int) -> Placed:
        pixels = np.zeros((height, width, 3), np.float32 if self.floating else np.uint8)
        results: dict[str, Any] = {"img": pixels, "img_shape": (height, width), "ori_shape": (height, width)}
        placed = Placed((height, width))
        for step in self.steps:
            results = step(results)
            placed = self._followed(placed, step, results)
        facts = {key: results[key] for key in _FACTS if key in results}
        return replace(placed, facts={"scale_factor": (1.0, 1.0), "flip": False, "flip_direction": None, **facts})

    @staticmethod
    def _followed(placed: Placed, step: Any, results: dict[str, Any]) -> Placed:
        """What a step has added to the steps before it."""
        rows, columns = results["img"].shape[:2]
        if _kind(step) == "resize":
            if any(placed.margins):
                raise GauntletError(
                    "the test pipeline of the configuration resizes after padding; that is not known here."
                )
            if step.interpolation not in _RESAMPLING:
                raise GauntletError(
                    f"the test pipeline of the configuration resizes by '{step.interpolation}'; known are "
                    f"{' and '.join(_RESAMPLING)}."
                )
            across, down = (float(each) for each in results["scale_factor"])
            pillow = step.backend == "pillow"
            return replace(
                placed, size=(rows, columns), scale=(across, down), mode=step.interpolation, antialias=pillow
            )
        if _kind(step) == "pad":
            colour = step.pad_val.get("img", 0)
            above, _, left, _ = placed.margins
            below, right = rows - placed.size[0] - above, columns - placed.size[1] - left
            return replace(placed, margins=(above, below, left, right), fill=_rgb(colour))
        top, bottom, start, end = (int(each) for each in results["border"])
        return replace(placed, margins=(top, rows - bottom, start, columns - end), fill=_rgb(step.mean))


def _kind(step: Any) -> str:
    from mmdet.datasets.transforms import Pad, RandomCenterCropPad, Resize

    if isinstance(step, Resize):
        return "resize"
    if isinstance(step, Pad):
        return "pad" if step.padding_mode == "constant" else "other"
    return "centre" if isinstance(step, RandomCenterCropPad) and step.test_mode else "other"


def _rgb(colour: Any) -> tuple[float, float, float]:
    """A colour of OpenCV's, blue first, or a grey level, as RGB in [0, 1]."""
    blue, green, red = (float(each) / 255 for each in np.broadcast_to(np.asarray(colour, dtype=float), 3))
    return red, green, blue
