"""What a model says about an image, as figures and pictures: one viewer per task."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from gauntlet.datasets.contract import Dataset
from gauntlet.models import DetectionModel, GauntletModel
from gauntlet.pictures import Image, from_tensor
from gauntlet.pictures.showing import scale_of
from gauntlet.report.painters import BoxPainter, LabelPainter, Painter
from gauntlet.report.unlabelled import with_truth
from gauntlet.samples import Sample


@dataclass(frozen=True)
class Look:
    """What a model says about one image.

    Attributes:
        right: share of the counted pixels that are right, or F1 of the boxes; against the clean prediction where the
            image has no ground truth.
        sure: mean confidence of the counted pixels, or mean score of the boxes; None where there is none.
        boxes: how many boxes a detector is sure enough of; None for label maps.
        pictures: by name.
    """

    right: float
    sure: float | None
    boxes: int | None = None
    pictures: Mapping[str, Image] = field(default_factory=dict)

    def figures(self) -> dict[str, Any]:
        """The figures alone, JSON-able: None where nothing counts."""
        known = {"right": self.right, "sure": self.sure}
        return {**{name: _finite(value) for name, value in known.items()}, "boxes": self.boxes}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


class Viewer(ABC):
    """Looks at one sample with one model.

    Attributes:
        sample: with the model's clean prediction in the place of a ground truth that is missing.
        labelled: whether it has a ground truth of its own.
        painter: draws what the model says.
        words: what `Look.right` and `Look.sure` are called.
    """

    words: ClassVar[Mapping[str, str]]
    painter: Painter[Any]

    def __init__(self, sample: Sample, labelled: bool, painter: Painter[Any]) -> None:
        self.sample, self.labelled, self.painter = sample, labelled, painter

    @abstractmethod
    def look(self, images: torch.Tensor) -> Look:
        """What the model says about the image (1, 3, H, W), as it is or changed."""

    @abstractmethod
    def truth(self) -> Image:
        """The ground truth."""

    def legend(self) -> list[tuple[str, str]]:
        """Names and colours (hexadecimal) of the classes."""
        return self.painter.legend(set(range(len(self.painter.class_names))))


class LabelViewer(Viewer):
    """Label maps, and where they are wrong."""

    words: ClassVar[Mapping[str, str]] = {"right": "Pixel accuracy", "sure": "Mean confidence"}

    painter: LabelPainter

    def look(self, images: torch.Tensor) -> Look:
        painter, sample = self.painter, self.sample
        said = painter.said(images, sample.id)
        sure = None if said.confidence is None else float(said.confidence[painter.counted(sample)].mean())
        drawn = {"prediction": painter.draw(said.labels), "errors": painter.draw_errors(sample, said.labels)}
        return Look(painter.right(sample, said.labels), sure, pictures=drawn)

    def truth(self) -> Image:
        return self.painter.draw(self.painter.truth(self.sample))


class BoxViewer(Viewer):
    """Boxes on the image that the detector saw."""

    words: ClassVar[Mapping[str, str]] = {"right": "F1 of the boxes", "sure": "Mean score"}

    painter: BoxPainter

    @property
    def _scale(self) -> int:
        return scale_of(self.sample.image.shape[1])

    def look(self, images: torch.Tensor) -> Look:
        found = self.painter.predict(images, self.sample.id)
        assert found.scores is not None  # of detections
        sure = float(found.scores.mean()) if len(found) else None
        drawn = self.painter.draw(from_tensor(images[0]), found, scale=self._scale)
        return Look(self.painter.right(self.sample, found), sure, len(found), {"prediction": drawn})

    def truth(self) -> Image:
        return self.painter.draw(self.sample.image, self.painter.truth(self.sample), scale=self._scale)


def viewer_of(sample: Sample, dataset: Dataset, model: GauntletModel) -> Viewer:
    """Who looks at a sample of a dataset with a model."""
    known = with_truth(sample, model)
    if isinstance(model, DetectionModel):
        return BoxViewer(known, sample.boxes is not None, BoxPainter(dataset, model))
    return LabelViewer(known, sample.labels is not None, LabelPainter(dataset, model))  # type: ignore[arg-type]
