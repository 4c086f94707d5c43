"""The worst of many views of a camera that moved: {"geometric_worst": {"draws": 10, "degrees": 30, "shift": 0.1}}.

Engstrom et al. 2019: rotations with translations, drawn or on a grid; docs/specs/beyond.md, section 8.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gauntlet.metrics.detection.figures import image_f1
from gauntlet.models.contract import DetectionModel, GauntletModel
from gauntlet.numbers import parse_fraction, parse_number
from gauntlet.samples import Batch, Sample
from gauntlet.seeding import ImageSeed, numpy_generator
from gauntlet.tasks import task_of
from gauntlet.threats.asking import label_maps
from gauntlet.threats.attacks.engine.labels import image_figures
from gauntlet.threats.contract import Candidate, Perturbed, Threat, threats
from gauntlet.threats.geometry.moves import Chain, Rotation, Size, Translation
from gauntlet.threats.geometry.warping import Fill
from gauntlet.threats.kinds.attack import need_labels
from gauntlet.threats.kinds.corruption import parse_options
from gauntlet.threats.kinds.geometric import FILL, Moved, check_turn, parse_fill, plain_text
from gauntlet.threats.options import Option, in_name_order, options_of
from gauntlet.threats.passes import Passes

GRID = (5, 5, 31)
"""Steps of a grid search: shifts to the side, shifts down, angles."""
LEAST_VALID = 0.5
"""Draws that leave less than this share of the pixels are not looked at."""
MEASURES = {"segmentation": ("accuracy", "mIoU"), "detection": ("F1",)}
"""Figures of an image by which the worst view is chosen; the first one decides what is drawn."""


class GeometricWorstOptions(BaseModel):
    """What is searched.

    Attributes:
        search: "draws", or "grid" for 5 x 5 x 31 views.
        draws: how many; the first ones of more are the same.
        degrees: rotations go up to so far either way.
        shift: translations go up to this share of the side, in both directions.
        fill: as in `GeometricOptions`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    search: Annotated[Literal["draws", "grid"], Option("always", place=-2, written="of {value}")] = "draws"
    draws: Annotated[int, Option("always", place=-1, written="{value}", swept=True, axis="draws", from_clean=False)] = (
        Field(default=10, ge=1, le=10_000)
    )
    degrees: Annotated[
        float,
        Option("always", swept=True, text=plain_text),
        BeforeValidator(lambda value: parse_number(value, "degrees")),
    ] = Field(default=30.0, ge=0, le=180)
    shift: Annotated[
        float,
        Option("always", swept=True, text=plain_text),
        BeforeValidator(lambda value: parse_fraction(value, "shift")),
    ] = 0.1
    fill: Annotated[Fill, FILL, BeforeValidator(parse_fill)] = 0.0


@dataclass(frozen=True)
class _View:
    """One of the views of an image: the move relative to the ranges, in [-1, 1] each."""

    turn: float
    right: float
    down: float


@threats.register("geometric_worst")
class GeometricWorstThreat(Threat):
    """The view of a moved camera on which an image does worst, per image and figure.

    Views are compared by shares of their own valid pixels, never by counts, for every view shows other pixels.
    """

    one_truth = False

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = parse_options("geometric_worst", GeometricWorstOptions, options)

    @property
    def name(self) -> str:
        """Such as "worst of draws 10 degrees 30 shift 0.1"."""
        described = self.describe()["geometric_worst"]
        options = in_name_order(self.declared_options())
        return " ".join(["worst", *(option.word(key, described[key]) for key, option in options if key in described)])

    @classmethod
    def declared_options(cls) -> dict[str, Option]:
        return options_of(GeometricWorstOptions)

    def passes(self, task: str = "segmentation") -> Passes:
        return Passes(forward=self._count() + len(MEASURES[task]))

    def describe(self) -> dict[str, Any]:
        options = self.options
        draws = {"draws": options.draws} if options.search == "draws" else {}
        fill = {"fill": options.fill} if options.fill else {}
        return {
            "geometric_worst": {
                "search": options.search,
                **draws,
                "degrees": options.degrees,
                "shift": options.shift,
                **fill,
            }
        }

    def check_task(self, task: str) -> None:
        check_turn(self.options.degrees, task)

    def _count(self) -> int:
        return self.options.draws if self.options.search == "draws" else math.prod(GRID)

    def views(self, seed: ImageSeed) -> list[_View]:
        """The views of an image in the order in which they are tried."""
        if self.options.search == "grid":
            across, down, turns = (np.linspace(-1, 1, steps).tolist() for steps in GRID)
            return [_View(turn, x, y) for x, y, turn in itertools.product(across, down, turns)]
        drawn = numpy_generator(seed.stream("geometric_worst")).uniform(-1, 1, (self.options.draws, 3))
        return [_View(*row) for row in drawn.tolist()]

    def move(self, view: _View, size: Size) -> Chain:
        """A turn about the centre, then a shift."""
        height, width = size
        shift = self.options.shift
        return Chain(
            (
                Rotation(self.options.degrees * view.turn),
                Translation(shift * width * view.right, shift * height * view.down),
            )
        )

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        task = task_of(model)
        self.check_task(task)
        height, width = batch.images.shape[-2:]
        search = _Search(MEASURES[task], len(batch))
        for views in zip(*(self.views(seed) for seed in seeds), strict=True):
            moves = [self.move(view, (height, width)) for view in views]
            moved = Moved.of(batch, moves, self.options.fill)
            search.add(moves, moved, _figures(model, batch, moved, seeds))
        return search.result()


def _figures(model: GauntletModel, batch: Batch, moved: Moved, seeds: Sequence[ImageSeed]) -> list[list[float]]:
    """The measures of every image in the moved frame, (measures, N)."""
    if isinstance(model, DetectionModel):
        truths = replace(batch, samples=moved.samples).boxes
        with torch.inference_mode():
            detections = model.predict(moved.images)
        return [[image_f1(truth, each) for truth, each in zip(truths, detections, strict=True)]]
    need_labels(batch)
    labels = torch.from_numpy(np.stack([np.asarray(each.labels, np.int64) for each in moved.samples]))
    labels = labels.to(moved.images.device)
    counted = torch.ones_like(labels, dtype=torch.bool) if batch.ignore_index is None else labels != batch.ignore_index
    said = label_maps(model, moved.images, seeds)
    return [values.tolist() for values in image_figures(said, labels, counted, model.num_classes)]


@dataclass
class _Worst:
    """The worst view of one image so far, by one measure.

    Attributes:
        rank: of the view; smaller is worse for the model. Views that show too little come after all others.
    """

    rank: tuple[int, float] = (2, 0.0)
    sample: Sample | None = None
    image: torch.Tensor | None = None
    facts: dict[str, float] = field(default_factory=dict)


class _Search:
    """Keeps the worst views of N images, one per measure; the views themselves are not kept."""

    def __init__(self, measures: Sequence[str], images: int) -> None:
        self.measures = measures
        self.worst = {name: [_Worst() for _ in range(images)] for name in measures}
        self.seen: list[list[float]] = [[] for _ in range(images)]  # the first measure on the views that count

    def add(self, moves: Sequence[Chain], moved: Moved, figures: Sequence[Sequence[float]]) -> None:
        """One view of every image."""
        for index, (move, grid) in enumerate(zip(moves, moved.grids, strict=True)):
            turn, shift = move.moves
            assert isinstance(turn, Rotation)
            assert isinstance(shift, Translation)
            enough = grid.valid_share >= LEAST_VALID
            facts = {"degrees": turn.degrees, "dx": shift.dx, "dy": shift.dy, "valid_share": grid.valid_share}
            for name, values in zip(self.measures, figures, strict=True):
                value = math.inf if math.isnan(values[index]) else values[index]
                rank = (0, value) if enough else (1, -grid.valid_share)
                if rank < self.worst[name][index].rank:
                    self.worst[name][index] = _Worst(rank, moved.samples[index], moved.images[index].clone(), facts)
            if enough and not math.isnan(figures[0][index]):
                self.seen[index].append(figures[0][index])

    def result(self) -> Perturbed:
        """The worst views; two measures are two candidates, so that each figure has its own worst case."""
        candidates = {f"by {name}": self._candidate(worst) for name, worst in self.worst.items()}
        first = self.worst[self.measures[0]]
        details: dict[str, list[Any]] = {key: [each.facts[key] for each in first] for key in first[0].facts}
        details[f"mean_{self.measures[0]}"] = [sum(seen) / len(seen) if seen else None for seen in self.seen]
        details["views"] = [len(seen) for seen in self.seen]
        chosen = next(iter(candidates.values()))
        several = candidates if len(candidates) > 1 else {}
        return Perturbed(chosen.images, candidates=several, details=details, samples=chosen.samples)

    @staticmethod
    def _candidate(worst: Sequence[_Worst]) -> Candidate:
        images = torch.stack([each.image for each in worst if each.image is not None])
        samples = [each.sample for each in worst if each.sample is not None]
        return Candidate(images, torch.ones(len(worst), dtype=torch.bool), samples)
