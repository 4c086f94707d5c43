"""Tiled inference: a model sees windows of an image, with overlap and optionally mirrored; what it says is averaged.

The settings that published figures were obtained with, among them OpenMMLab's "slide" mode (logits averaged) and
PSPNet's evaluation (windows a third apart, mirrored, probabilities averaged). Everything is differentiable, so attacks
see the same model that is evaluated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.models.contract import ModelIdentity, SegmentationModel
from gauntlet.numbers import Number, parse_number

AVERAGES = ("logits", "probabilities")

Window = tuple[int, int]


class TiledModel(SegmentationModel):
    """A model applied to windows.

    Windows begin every `size - overlap` pixels; the last of a row or column is moved back to end with the image, as in
    OpenMMLab. An image that is smaller than a window is one window.

    Args:
        model: what is applied to every window.
        size: (height, width) of a window, in pixels.
        overlap: of neighbouring windows: a fraction of the window in [0, 1) ("1/3"), or pixels (1 or more).
        mirror: also apply the model to every window mirrored left to right.
        average: of what: "logits" (OpenMMLab), or "probabilities" (PSPNet's evaluation); then the result is the
            logarithm of the averaged probabilities.
    """

    def __init__(
        self,
        model: SegmentationModel,
        size: int | Sequence[int],
        *,
        overlap: Number | Sequence[Number] = "1/3",
        mirror: bool = False,
        average: str = "logits",
    ) -> None:
        self.settings = tile_settings(size, overlap=overlap, mirror=mirror, average=average)
        super().__init__(
            num_classes=model.num_classes,
            class_names=model.class_names,
            ignore_index=model.ignore_index,
            identity=tiled_identity(model.identity, self.settings),
        )
        self.model = model
        self.freeze()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        settings = self.settings
        height, width = images.shape[-2:]
        total = images.new_zeros(len(images), self.num_classes, height, width)
        counts = images.new_zeros(height, width)
        for rows in _spans(height, settings.size[0], settings.step[0]):
            for columns in _spans(width, settings.size[1], settings.step[1]):
                window = (slice(*rows), slice(*columns))
                total[(..., *window)] += self._see(images[(..., *window)])
                counts[window] += 1
        mean = total / counts
        # A probability may round to 0, whose logarithm has no gradient; the smallest number there is stands for it.
        return mean.clamp(min=torch.finfo(mean.dtype).tiny).log() if self.settings.average == "probabilities" else mean

    def _see(self, window: torch.Tensor) -> torch.Tensor:
        """What the model says of a window, averaged with what it says of the mirrored one."""
        seen = self._values(window)
        return (seen + self._values(window.flip(-1)).flip(-1)) / 2 if self.settings.mirror else seen

    def _values(self, window: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(window)
        return logits.softmax(dim=1) if self.settings.average == "probabilities" else logits


@dataclass(frozen=True)
class TileSettings:
    """The settings of `TiledModel`, checked, with the step between windows in pixels."""

    size: Window
    step: Window
    mirror: bool
    average: str

    @property
    def words(self) -> str:
        """For the name of a model."""
        step = "x".join(map(str, self.step))
        more = ["mirrored"] * self.mirror + ["probabilities"] * (self.average == "probabilities")
        return " ".join([f"tiled {'x'.join(map(str, self.size))} every {step}", *more])


def tile_settings(
    size: int | Sequence[int],
    *,
    overlap: Number | Sequence[Number] = "1/3",
    mirror: bool = False,
    average: str = "logits",
) -> TileSettings:
    """Settings as users write them, for `TiledModel`."""
    sides = [size, size] if isinstance(size, int) else list(size)
    if len(sides) != 2 or any(not isinstance(side, int) or side < 1 for side in sides):
        raise GauntletError(f"the size of a tile must be a height and a width in pixels, not {size!r}.")
    overlaps = [overlap, overlap] if isinstance(overlap, (int, float, str)) else list(overlap)
    if len(overlaps) != 2:
        raise GauntletError(f"the overlap of tiles is one number, or one for each side, not {overlap!r}.")
    if average not in AVERAGES:
        raise unknown_name("average of tiles", average, AVERAGES)
    steps = [_step(side, each) for side, each in zip(sides, overlaps, strict=True)]
    return TileSettings((sides[0], sides[1]), (steps[0], steps[1]), bool(mirror), average)


def tiled_identity(identity: ModelIdentity, settings: TileSettings) -> ModelIdentity:
    """The identity of a model in tiles."""
    digest = hashlib.sha256(f"{identity.digest}|{settings.words}".encode()).hexdigest()[:16]
    names = [f"{name} {settings.words}" for name in (identity.name, identity.key_name)]
    return ModelIdentity(names[0], digest, names[1], identity.code)


def _step(side: int, overlap: Number) -> int:
    value = parse_number(overlap, "the overlap of tiles")
    pixels = value * side if value < 1 else value
    step = round(side - pixels)
    if value < 0 or step < 1:
        raise GauntletError(f"the overlap of tiles of {side} pixels must lie in [0, {side}), not {overlap}.")
    return step


def _spans(length: int, size: int, step: int) -> Iterator[Window]:
    """Where windows begin and end along a side; the last ends with the image."""
    count = max(0, -(-(length - size) // step)) + 1
    for index in range(count):
        end = min(index * step + size, length)
        yield max(0, end - size), end
