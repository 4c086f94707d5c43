"""What a model says about a sample, and a picture of it: label maps and boxes, one painter per task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from gauntlet import pictures
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.prediction import predict_dense, predict_objects
from gauntlet.metrics import DensePrediction
from gauntlet.metrics.detection.figures import SCORE, image_f1
from gauntlet.models import DetectionModel, SegmentationModel
from gauntlet.samples import Boxes, Sample

Labels = npt.NDArray[np.integer]
P = TypeVar("P")
"""What a model says about an image."""


class Painter(ABC, Generic[P]):
    """Predicts and draws for one model and dataset.

    Attributes:
        dataset: where the samples come from.
        right_words: what the share that is right is called.
        colors: (K, 3) colours of the classes.
        class_names: names of the classes, in the order of the colours.
    """

    right_words: ClassVar[str]
    dataset: Dataset
    colors: npt.NDArray[np.uint8]
    class_names: Sequence[str]

    @abstractmethod
    def predict(self, images: torch.Tensor, name: str) -> P:
        """What the model says about one image (1, 3, H, W)."""

    @abstractmethod
    def given(self, predictions: Any) -> P:
        """The prediction that a threat made itself."""

    @abstractmethod
    def truth(self, sample: Sample) -> P:
        """The ground truth; an error where the sample has none."""

    @abstractmethod
    def right(self, sample: Sample, prediction: P) -> float:
        """The share of the image that is right, as `Images.right`."""

    @abstractmethod
    def classes_of(self, drawn: P) -> set[int]:
        """The classes that occur in labels or boxes."""

    def legend(self, seen: set[int]) -> list[tuple[str, str]]:
        """Names and colours (hexadecimal) of some classes."""
        return [
            (str(label), "#" + "".join(f"{channel:02x}" for channel in color))
            for index, (label, color) in enumerate(zip(self.class_names, self.colors.tolist(), strict=True))
            if index in seen
        ]


class LabelPainter(Painter[Labels]):
    """Label maps in the colours of the dataset; without a model only those of the ground truth."""

    right_words = "pixel accuracy"

    def __init__(self, dataset: Dataset, model: SegmentationModel | None) -> None:
        self.dataset, self.model = dataset, model
        self.colors = pictures.palette(dataset.colors, dataset.num_classes)
        self.class_names = dataset.class_names

    def predict(self, images: torch.Tensor, name: str) -> Labels:
        return self.said(images, name).labels

    def said(self, images: torch.Tensor, name: str) -> DensePrediction:
        """What the model says about one image (1, 3, H, W), with its confidence."""
        assert self.model is not None
        return predict_dense(self.model, images, [name])[0]

    def counted(self, sample: Sample) -> npt.NDArray[np.bool_]:
        """(H, W) the pixels of a sample that count."""
        labels, ignored = self.truth(sample), self.dataset.ignore_index
        return np.ones(labels.shape, bool) if ignored is None else np.asarray(labels != ignored)

    def given(self, predictions: Any) -> Labels:
        return np.asarray(predictions[0].cpu().numpy())

    def truth(self, sample: Sample) -> Labels:
        if sample.labels is None:
            raise GauntletError(f"image '{sample.id}' has no label map.")
        return sample.labels

    def right(self, sample: Sample, prediction: Labels) -> float:
        return float(np.mean((prediction == self.truth(sample))[self.counted(sample)]))

    def classes_of(self, drawn: Labels) -> set[int]:
        return set(np.unique(drawn).tolist())

    def draw(self, labels: Labels) -> pictures.Image:
        """A label map in colour."""
        return pictures.color_labels(labels, self.colors)

    def draw_errors(self, sample: Sample, prediction: Labels) -> pictures.Image:
        """Where a prediction is wrong."""
        return pictures.wrong_pixels(prediction, self.truth(sample), self.dataset.ignore_index)


class BoxPainter(Painter[Boxes]):
    """Objects, and the detections of at least some score, on the image that the detector saw."""

    right_words = f"F1 of the boxes (score and IoU of at least {SCORE:g})"

    def __init__(self, dataset: Dataset, model: DetectionModel, score: float = SCORE) -> None:
        self.dataset, self.model, self.score = dataset, model, score
        same = model.num_classes == len(dataset.box_class_names)
        self.class_names = dataset.box_class_names if same else model.class_names
        self.colors = pictures.box_colors(dataset) if same else pictures.palette((), model.num_classes)

    def predict(self, images: torch.Tensor, name: str) -> Boxes:
        return self._counted(predict_objects(self.model, images, [name])[0])

    def given(self, predictions: Any) -> Boxes:
        return self._counted(predictions[0])

    def _counted(self, detections: Boxes) -> Boxes:
        """The detections that count as said: those of at least the score."""
        assert detections.scores is not None
        return detections.select(detections.scores >= self.score)

    def truth(self, sample: Sample) -> Boxes:
        if sample.boxes is None:
            raise GauntletError(f"image '{sample.id}' has no boxes.")
        return sample.boxes

    def right(self, sample: Sample, prediction: Boxes) -> float:
        return image_f1(self.truth(sample), prediction, score=self.score)

    def classes_of(self, drawn: Boxes) -> set[int]:
        return set(drawn.classes.tolist())

    def draw(self, image: pictures.Image, boxes: Boxes, *, scale: int = 1, named: bool = True) -> pictures.Image:
        """Boxes on an image (H, W, 3), `scale` times as large; `named` writes the classes beside the scores."""
        return pictures.draw_boxes(image, boxes, self.class_names if named else None, self.colors, scale=scale)
