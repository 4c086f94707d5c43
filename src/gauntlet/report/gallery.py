"""Galleries of worst images: the threat is run again on a few of them, and what the model said is drawn."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.prediction import predict_dense, predict_objects
from gauntlet.metrics.detection.figures import SCORE, image_f1
from gauntlet.models import DetectionModel, GauntletModel, SegmentationModel, load_model
from gauntlet.report import pictures
from gauntlet.report.box_pictures import box_colors, draw_boxes
from gauntlet.report.document import Exhibit, Gallery, Picture
from gauntlet.report.image_figures import Images
from gauntlet.results.record import Evaluation
from gauntlet.samples import Boxes, Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat

WIDEST = 512
NARROWEST = 256
_GOOD_JPEG = [cv2.IMWRITE_JPEG_QUALITY, 88]
DIFFERS = 0.02
"""A rerun of which a share further than this from the stored one is right was another thing; the report says so."""

ModelLoader = Callable[[str], object]
DatasetLoader = Callable[[str, str], Dataset]


@dataclass(frozen=True)
class Loaders:
    """How models and datasets are found; by default by the names under which they were evaluated.

    Attributes:
        model: a model by its address.
        dataset: a dataset by name and split.
    """

    model: ModelLoader = load_model
    dataset: DatasetLoader = lambda name, split: load_dataset(name, split=split or None)


def worst_images(clean: Images | None, attacked: Images, count: int) -> list[str]:
    """Ids of the images on which a threat does most damage: the largest loss of the figure, else the smallest one."""
    after = pd.Series(attacked.values, index=list(attacked.ids)).dropna()
    if clean is not None:
        after = (after - pd.Series(clean.values, index=list(clean.ids)).dropna()).dropna()
    return [str(name) for name in after.sort_values(kind="stable").index[:count]]


def build_gallery(evaluation: Evaluation, ids: Sequence[str], stored: Images, title: str, loaders: Loaders) -> Gallery:
    """Runs the threat of an evaluation again on a few images and draws them.

    Args:
        evaluation: of a segmentation model or a detector.
        ids: the images.
        stored: the images of the evaluation.
        title: of the gallery.
        loaders: how the model and the dataset are found.
    """
    dataset = loaders.dataset(evaluation.dataset, evaluation.split)
    model = loaders.model(evaluation.model)
    if not isinstance(model, GauntletModel):
        raise GauntletError(f"'{evaluation.model}' is no model of Gauntlet's; galleries show label maps and boxes.")
    if model.identity.digest != evaluation.model_digest:
        raise GauntletError(f"the weights of '{evaluation.model}' are not those that were evaluated.")
    if _written(dataset.identity.protocol) != _written(evaluation.dataset_identity.get("protocol", {})):
        raise GauntletError(
            f"the images of '{evaluation.dataset}' have another protocol (size, crop, content) than those that were "
            "evaluated; from Python, give Loaders that load them as they were."
        )
    positions = {name: index for index, name in enumerate(dataset.ids())}
    missing = [name for name in ids if name not in positions]
    if missing:
        raise GauntletError(f"the dataset '{evaluation.dataset}' has no image '{missing[0]}' here.")
    painter = _painter(model, dataset)
    right = dict(zip(stored.ids, stored.right.tolist(), strict=True))
    exhibits = [_exhibit(dataset[positions[name]], model, painter, evaluation, right[name]) for name in ids]
    return Gallery(title, painter.legend(), exhibits)


def _written(protocol: Mapping[str, Any]) -> str:
    """A protocol as the store writes it, where tuples are lists."""
    return json.dumps(protocol, sort_keys=True)


def _exhibit(
    sample: Sample, model: GauntletModel, painter: _Painter[Any], evaluation: Evaluation, stored: float
) -> Exhibit:
    threat = build_threat(evaluation.description)
    batch = collate([sample], model.device, painter.dataset.ignore_index)
    perturbed = threat.perturb(model, batch, [ImageSeed(evaluation.seed, sample.id)])
    changed = (perturbed.images[0].permute(1, 2, 0) * 255).round().byte().cpu().numpy()
    difference, factor = pictures.amplified_difference(sample.image, changed)
    clean = painter.predict(batch.images, sample.id)
    if perturbed.predictions is not None:
        attacked = painter.given(perturbed.predictions)
    else:
        attacked = painter.predict(perturbed.images, sample.id)
    before, after = (painter.right(sample, each) for each in (clean, attacked))
    detail = f"{painter.right_words} {before:.1%} clean, {after:.1%} under the threat"
    if abs(after - stored) > DIFFERS:
        detail += f"; stored were {stored:.1%}: other images, another batch or machine"
    word = "attacked" if threat.needs_model else "corrupted"
    panels = [
        _photo("input", sample.image),
        _photo("what the model sees", changed),
        _photo(f"difference x {factor:.1f}", difference),
        painter.truth(sample),
        painter.picture("clean", sample.image, clean),
        painter.picture(word, changed, attacked),
    ]
    return Exhibit(sample.id, detail, panels)


P = TypeVar("P")
"""What a model says about an image."""


class _Painter(ABC, Generic[P]):
    """Predicts and draws for one model and dataset; one class per task.

    Attributes:
        dataset: where the samples come from.
        right_words: what the share that is right is called.
    """

    dataset: Dataset
    right_words: ClassVar[str]

    @abstractmethod
    def legend(self) -> list[tuple[str, str]]:
        """Names and colours of the classes that were drawn: of labels those of the ground truth."""

    @abstractmethod
    def predict(self, images: torch.Tensor, name: str) -> P:
        """What the model says about one image (1, 3, H, W)."""

    @abstractmethod
    def given(self, predictions: Any) -> P:
        """The prediction that a threat made itself."""

    @abstractmethod
    def right(self, sample: Sample, prediction: P) -> float:
        """The share of the image that is right, as `Images.right`."""

    @abstractmethod
    def truth(self, sample: Sample) -> Picture:
        """The ground truth; an error where the sample has none."""

    @abstractmethod
    def picture(self, word: str, image: pictures.Image, prediction: P) -> Picture:
        """A prediction; `image` is what the model saw."""


class _LabelPainter(_Painter["npt.NDArray[np.integer]"]):
    """Label maps in the colours of the dataset."""

    right_words = "pixel accuracy"

    def __init__(self, model: SegmentationModel, dataset: Dataset) -> None:
        self.model, self.dataset = model, dataset
        self._colors = pictures.palette(dataset.colors, dataset.num_classes)
        self._seen: set[int] = set()

    def legend(self) -> list[tuple[str, str]]:
        return _legend(self.dataset.class_names, self._colors, self._seen)

    def predict(self, images: torch.Tensor, name: str) -> npt.NDArray[np.integer]:
        return predict_dense(self.model, images, [name])[0].labels

    def given(self, predictions: Any) -> npt.NDArray[np.integer]:
        return np.asarray(predictions[0].cpu().numpy())

    def right(self, sample: Sample, prediction: npt.NDArray[np.integer]) -> float:
        labels = _labels_of(sample)
        valid = (
            np.ones(labels.shape, bool) if self.dataset.ignore_index is None else labels != self.dataset.ignore_index
        )
        return float(np.mean((prediction == labels)[valid]))

    def truth(self, sample: Sample) -> Picture:
        labels = _labels_of(sample)
        self._seen.update(np.unique(labels).tolist())
        return self._drawn("ground truth", labels)

    def picture(self, word: str, image: pictures.Image, prediction: npt.NDArray[np.integer]) -> Picture:
        return self._drawn(f"{word} prediction", prediction)

    def _drawn(self, caption: str, labels: npt.NDArray[np.integer]) -> Picture:
        width, height = _size(labels.shape)
        colored = pictures.color_labels(labels, self._colors)
        drawn = cv2.resize(colored, (width, height), interpolation=cv2.INTER_NEAREST)
        return _encoded(caption, np.asarray(drawn, np.uint8), ".png", [cv2.IMWRITE_PNG_COMPRESSION, 9])


class _BoxPainter(_Painter[Boxes]):
    """Objects, and the detections that count as said, on the image that the detector saw."""

    right_words = f"F1 of the boxes (score and IoU of at least {SCORE:g})"

    def __init__(self, model: DetectionModel, dataset: Dataset) -> None:
        self.model, self.dataset = model, dataset
        self._colors = box_colors(dataset)
        self._seen: set[int] = set()

    def legend(self) -> list[tuple[str, str]]:
        return _legend(self.dataset.box_class_names, self._colors, self._seen)

    def predict(self, images: torch.Tensor, name: str) -> Boxes:
        return predict_objects(self.model, images, [name])[0]

    def given(self, predictions: Any) -> Boxes:
        return predictions[0]  # type: ignore[no-any-return]

    def right(self, sample: Sample, prediction: Boxes) -> float:
        return image_f1(_boxes_of(sample), prediction)

    def truth(self, sample: Sample) -> Picture:
        boxes = _boxes_of(sample)
        self._seen.update(boxes.classes.tolist())
        return self._drawn(f"ground truth: {_counted(boxes, 'object', 'objects')}", sample.image, boxes)

    def picture(self, word: str, image: pictures.Image, prediction: Boxes) -> Picture:
        assert prediction.scores is not None
        said = prediction.select(prediction.scores >= SCORE)
        self._seen.update(said.classes.tolist())
        return self._drawn(f"{word} prediction: {_counted(said, 'box', 'boxes')}", image, said)

    def _drawn(self, caption: str, image: pictures.Image, boxes: Boxes) -> Picture:
        shown, times = image, WIDEST // image.shape[1]  # room for the scores
        if not times:
            shown, times = _resized(image), 1
            factor = shown.shape[1] / image.shape[1]
            boxes = replace(boxes, xyxy=boxes.xyxy * np.float32(factor))
        drawn = draw_boxes(shown, boxes, None, self._colors, scale=times)  # the legend names the colours
        return _encoded(caption, drawn, ".jpg", _GOOD_JPEG)


def _painter(model: GauntletModel, dataset: Dataset) -> _Painter[Any]:
    if isinstance(model, SegmentationModel):
        return _LabelPainter(model, dataset)
    if isinstance(model, DetectionModel):
        return _BoxPainter(model, dataset)
    raise GauntletError(f"'{model.identity.name}' predicts neither labels nor boxes; galleries show those.")


def _labels_of(sample: Sample) -> npt.NDArray[np.integer]:
    if sample.labels is None:
        raise GauntletError(f"image '{sample.id}' has no label map.")
    return sample.labels


def _boxes_of(sample: Sample) -> Boxes:
    if sample.boxes is None:
        raise GauntletError(f"image '{sample.id}' has no boxes.")
    return sample.boxes


def _counted(boxes: Boxes, one: str, many: str) -> str:
    return f"{len(boxes)} {one if len(boxes) == 1 else many}"


def _legend(names: Sequence[str], colors: npt.NDArray[np.uint8], seen: set[int]) -> list[tuple[str, str]]:
    return [
        (str(label), "#" + "".join(f"{channel:02x}" for channel in color))
        for index, (label, color) in enumerate(zip(names, colors.tolist(), strict=True))
        if index in seen
    ]


def _size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Width and height to draw at: large images smaller, tiny ones a whole number of times larger."""
    height, width = shape[:2]
    if width > WIDEST:
        return WIDEST, max(1, round(height * WIDEST / width))
    times = max(1, NARROWEST // width)
    return width * times, height * times


def _resized(image: pictures.Image) -> pictures.Image:
    width, height = _size(image.shape)
    smaller = width < image.shape[1]
    drawn = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_NEAREST)
    return np.asarray(drawn, np.uint8)


def _photo(caption: str, image: pictures.Image) -> Picture:
    return _encoded(caption, _resized(image), ".jpg", _GOOD_JPEG)


def _encoded(caption: str, image: npt.NDArray[np.uint8], ending: str, options: list[int]) -> Picture:
    done, data = cv2.imencode(ending, np.ascontiguousarray(image[..., ::-1]), options)
    if not done:
        raise GauntletError(f"the picture '{caption}' could not be encoded.")
    media_type = "image/jpeg" if ending == ".jpg" else "image/png"
    return Picture(caption, media_type, data.tobytes(), image.shape[1], image.shape[0])
