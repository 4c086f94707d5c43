"""A camera that moved: {"geometric": {"name": "rotation", "degrees": 10}}; labels and boxes move along.

docs/specs/beyond.md, section 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from gauntlet.errors import GauntletError, unknown_name
from gauntlet.metrics.detection.figures import SCORE, image_f1
from gauntlet.models.contract import DetectionModel, GauntletModel
from gauntlet.numbers import parse_fraction, parse_number
from gauntlet.samples import Batch, Sample, images_to_tensor
from gauntlet.seeding import ImageSeed, numpy_generator
from gauntlet.tasks import DETECTION, task_of
from gauntlet.threats.asking import label_maps
from gauntlet.threats.contract import Perturbed, Threat, threats
from gauntlet.threats.geometry.catalogue import MOVES, SERIES, check_severity, names, parameters
from gauntlet.threats.geometry.moved_boxes import move_detections
from gauntlet.threats.geometry.moves import Move, Size
from gauntlet.threats.geometry.warping import Fill, Grid, move_sample
from gauntlet.threats.kinds.corruption import parse_options
from gauntlet.threats.options import NAME, Option, options_of
from gauntlet.threats.passes import Passes

MOST_DEGREES = 15.0
"""How far boxes are turned: hulls of turned boxes are too large, at 45 degrees twice the area of a square."""


def _number_or_none(value: Any) -> Any:
    return None if value is None else parse_number(value)


def _length(value: Any) -> Any:
    """Pixels, or a share of the side as a text: "10%"."""
    if isinstance(value, str) and value.endswith("%"):
        return f"{parse_number(value.removesuffix('%')):g}%"
    return _number_or_none(value)


def parse_fill(value: Any) -> Fill:
    """What is drawn where nothing was: a number in [0, 1], or "mean"."""
    return "mean" if value == "mean" else parse_fraction(value, "fill")


def plain_text(value: Any) -> str:
    """A number in a name, in six digits."""
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _parameter(axis: str, *, from_clean: bool = True) -> Option:
    return Option("always", swept=True, text=plain_text, axis=axis, from_clean=from_clean)


FILL = Option(text=plain_text)
Parameter = BeforeValidator(_number_or_none)


class GeometricOptions(BaseModel):
    """Which move, and how far: its parameters, or a severity.

    Attributes:
        name: of the move.
        severity: of its series, from 1 on; sides and directions are then drawn per image.
        degrees: of a rotation, counter-clockwise on screen.
        dx, dy: of a translation to the right and down: pixels, or "10%" of the side.
        factor: of a scale; above 1 things appear larger.
        slope: of a shear, pixels to the right per row below the centre.
        k1, k2: of a lens, see `geometry.moves.Radial`.
        turn, tilt: of a perspective, see `geometry.moves.Perspective`.
        fill: what is drawn where nothing was, in [0, 1], or "mean" for the mean colour of the image.
        control: whether the clean prediction is moved and judged in the place of the model's own: the figures that
            the model would have if moving the camera meant nothing to it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, NAME]
    severity: Annotated[int | None, Option("always", swept=True, axis="severity")] = None
    degrees: Annotated[float | None, _parameter("degrees of rotation"), Parameter] = None
    dx: Annotated[float | str | None, Option("always", swept=True, text=plain_text), BeforeValidator(_length)] = None
    dy: Annotated[float | str | None, Option("always", swept=True, text=plain_text), BeforeValidator(_length)] = None
    factor: Annotated[float | None, _parameter("factor of scale", from_clean=False), Parameter] = None
    slope: Annotated[float | None, _parameter("slope of shear"), Parameter] = None
    k1: Annotated[float | None, _parameter("k1 of the lens"), Parameter] = None
    k2: Annotated[float | None, _parameter("k2 of the lens"), Parameter] = None
    turn: Annotated[float | None, _parameter("turn of the camera"), Parameter] = None
    tilt: Annotated[float | None, _parameter("tilt of the camera"), Parameter] = None
    fill: Annotated[Fill, FILL, BeforeValidator(parse_fill)] = 0.0
    control: bool = False

    @model_validator(mode="after")
    def _one_size(self) -> GeometricOptions:
        if self.name not in names():
            raise unknown_name("move", self.name, names())
        given = self.given()
        if self.severity is not None:
            if given:
                raise GauntletError(f"'{self.name}' takes either a severity or '{next(iter(given))}', not both.")
            check_severity(self.name, self.severity)
        elif self.name not in MOVES:
            raise GauntletError(f"'{self.name}' needs a severity from 1 to {len(SERIES[self.name].values)}.")
        else:
            complete = parameters(self.name, given)
            if not given:
                raise GauntletError(f"the move '{self.name}' needs '{next(iter(complete))}', or a severity.")
            MOVES[self.name](**{key: _pixels(value, 1) for key, value in complete.items()})  # refuses nonsense now
        return self

    def given(self) -> dict[str, Any]:
        """The parameters of the move that were given."""
        own = {"degrees", "dx", "dy", "factor", "slope", "k1", "k2", "turn", "tilt"}
        return self.model_dump(include=own, exclude_none=True)

    def size(self) -> dict[str, Any]:
        """Severity or all parameters, in canonical form."""
        return {"severity": self.severity} if self.severity is not None else parameters(self.name, self.given())


def _pixels(value: float | str, side: int) -> float:
    """A length in pixels: as it is, or a share of a side of the image."""
    return float(value.removesuffix("%")) / 100 * side if isinstance(value, str) else value


@dataclass(frozen=True)
class Moved:
    """A batch after one move per image.

    Attributes:
        samples: with labels, boxes and depth moved along.
        grids: where their pixels come from.
        images: float32 (N, 3, H, W) in [0, 1].
    """

    samples: Sequence[Sample]
    grids: Sequence[Grid]
    images: torch.Tensor

    @classmethod
    def of(cls, batch: Batch, moves: Sequence[Move], fill: Fill) -> Moved:
        """The images of a batch, each under its own move."""
        size = batch.samples[0].image.shape[:2]
        grids = [Grid.of(move, size) for move in moves]
        samples = [
            move_sample(sample, move, batch.ignore_index, fill, grid)
            for sample, move, grid in zip(batch.samples, moves, grids, strict=True)
        ]
        return cls(samples, grids, images_to_tensor([each.image for each in samples], batch.images.device))


@threats.register("geometric")
class GeometricThreat(Threat):
    """One move of the camera per image; what the model says is judged in the moved frame, void outside."""

    needs_model = False

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = parse_options("geometric", GeometricOptions, options)
        self.needs_model = self.options.control  # type: ignore[misc]

    @property
    def name(self) -> str:
        """Such as "rotation degrees 10" or "zoom_in severity 2"."""
        size = self.options.size()
        unusual = {key: value for key, value in size.items() if value != 0} or size
        words = [self.options.name, *(f"{key} {plain_text(value)}" for key, value in unusual.items())]
        words += [] if self.options.fill == 0 else [FILL.word("fill", self.options.fill)]
        return " ".join([*(["control of"] if self.options.control else []), *words])

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        return options_of(GeometricOptions)

    def passes(self, task: str = "segmentation") -> Passes:
        return Passes(forward=2 if self.options.control else 1)

    def describe(self) -> dict[str, Any]:
        changed = {
            key: value for key, value in (("fill", self.options.fill), ("control", self.options.control)) if value
        }
        return {"geometric": {"name": self.options.name, **self.options.size(), **changed}}

    def check_task(self, task: str) -> None:
        degrees = self.options.degrees or 0.0
        if self.options.name == "rotation" and self.options.severity is not None:
            degrees = SERIES["rotation"].values[self.options.severity - 1]
        check_turn(degrees, task)

    def move(self, size: Size, seed: ImageSeed) -> Move:
        """The move of one image."""
        options = self.options
        if options.severity is not None:
            series = SERIES[options.name]
            generator = numpy_generator(seed.stream(f"geometric|{options.name}"))
            return series.draw(series.values[options.severity - 1], size, generator)
        sides = {"dx": size[1], "dy": size[0]}
        values = {key: _pixels(value, sides.get(key, 1)) for key, value in options.size().items()}
        move: Move = MOVES[options.name](**values)
        return move

    def moved(self, sample: Sample, seed: ImageSeed, void: int | None) -> Sample:
        """One sample as the camera sees it after the move; `void` is the label that counts for nothing."""
        height, width = sample.image.shape[:2]
        return move_sample(sample, self.move((height, width), seed), void, self.options.fill)

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        self.check_task(task_of(model))
        height, width = batch.images.shape[-2:]
        moves = [self.move((height, width), seed) for seed in seeds]
        moved = Moved.of(batch, moves, self.options.fill)
        details: dict[str, list[Any]] = {"valid_share": [grid.valid_share for grid in moved.grids]}
        for key in asdict(moves[0]):  # type: ignore[call-overload] # moves are dataclasses
            details[key] = [getattr(move, key) for move in moves]
        if not self.options.control:
            return Perturbed(moved.images, details=details, samples=moved.samples)
        predictions, details["agreement"] = _control(model, batch, moved, moves, seeds)
        return Perturbed(moved.images, predictions=predictions, details=details, samples=moved.samples)


def check_turn(degrees: float, task: str) -> None:
    """An error where boxes would be turned too far to say where objects are."""
    if task == DETECTION and abs(degrees) > MOST_DEGREES:
        raise GauntletError(
            f"a rotation by {degrees:g} degrees is too far for boxes: those around turned boxes are much larger than "
            f"the objects; use at most {MOST_DEGREES:g} degrees (severity 3) on detectors."
        )


def _control(
    model: GauntletModel, batch: Batch, moved: Moved, moves: Sequence[Move], seeds: Sequence[ImageSeed]
) -> tuple[Any, list[float | None]]:
    """The moved clean predictions, and how far the model agrees with them on the moved images.

    The agreement is the share of pixels that show something, for a detector the F1 of its boxes.
    """
    if isinstance(model, DetectionModel):
        size = batch.samples[0].image.shape[:2]
        with torch.inference_mode():
            before, after = model.predict(batch.images), model.predict(moved.images)
        expected = [move_detections(each, move, size) for each, move in zip(before, moves, strict=True)]
        sure = [each.select(each.scores >= SCORE) for each in expected if each.scores is not None]
        agreed: list[float | None] = [image_f1(one, other) for one, other in zip(sure, after, strict=True)]
        return expected, agreed
    labels, said = (label_maps(model, images, seeds).cpu().numpy() for images in (batch.images, moved.images))
    maps = np.stack([grid.nearest(each, np.int64(0)) for grid, each in zip(moved.grids, labels, strict=True)])
    triples = zip(maps, said, moved.grids, strict=True)
    agreement = [float((one == other)[g.valid].mean()) if g.valid.any() else None for one, other, g in triples]
    return torch.from_numpy(maps), agreement
