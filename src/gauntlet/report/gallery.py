"""Galleries of worst images: the threat is run again on a few of them, and what the model said is drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic

import cv2
import numpy as np
import pandas as pd

from gauntlet import pictures
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.reloading import Loaders, evaluated_again
from gauntlet.models import DetectionModel, GauntletModel, SegmentationModel
from gauntlet.numbers import counted
from gauntlet.report.document import Exhibit, Gallery, Picture
from gauntlet.report.image_figures import Images
from gauntlet.report.painters import BoxPainter, LabelPainter, Labels, P, Painter
from gauntlet.results.record import Evaluation
from gauntlet.samples import Boxes, Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import Perturbed, rebuild_threat

WIDEST = 512
NARROWEST = 256
_GOOD_JPEG = [cv2.IMWRITE_JPEG_QUALITY, 88]
_SMALL_PNG = [cv2.IMWRITE_PNG_COMPRESSION, 9]
DIFFERS = 0.02
"""The report says where the share that is right in a rerun is further than this from the stored one."""


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
    right = dict(zip(stored.ids, stored.right.tolist(), strict=True))
    with evaluated_again(evaluation, loaders) as (dataset, model):
        positions = {name: index for index, name in enumerate(dataset.ids())}
        missing = [name for name in ids if name not in positions]
        if missing:
            raise GauntletError(f"the dataset '{evaluation.dataset}' has no image '{missing[0]}' here.")
        maker = picture_maker(model, dataset)
        exhibits = [_exhibit(dataset[positions[name]], model, maker, evaluation, right[name]) for name in ids]
    return Gallery(title, maker.painter.legend(maker.seen), exhibits)


def _exhibit(
    sample: Sample, model: GauntletModel, maker: PictureMaker[Any], evaluation: Evaluation, stored: float
) -> Exhibit:
    threat, painter = rebuild_threat(evaluation.description), maker.painter
    batch = collate([sample], model.device, painter.dataset.ignore_index)
    perturbed = threat.perturb(model, batch, [ImageSeed(evaluation.seed, sample.id)])
    changed = pictures.from_tensor(perturbed.images[0])
    truth = perturbed.truth(batch)[0]
    clean = painter.predict(batch.images, sample.id)
    if perturbed.predictions is not None:
        attacked = painter.given(perturbed.predictions)
    else:
        attacked = painter.predict(perturbed.images, sample.id)
    before, after = painter.right(sample, clean), painter.right(truth, attacked)
    detail = f"{painter.right_words} {before:.1%} clean, {after:.1%} under the threat"
    if abs(after - stored) > DIFFERS:
        detail += f"; stored were {stored:.1%}: other images, another batch or machine"
    word = "moved" if perturbed.samples else "attacked" if threat.needs_model else "corrupted"
    panels = [
        photo("input", sample.image),
        photo("what the model sees", changed),
        maker.change(sample, perturbed, changed),
        maker.truth(sample),
        maker.prediction(word="clean", image=sample.image, prediction=clean),
        maker.prediction(word=word, image=changed, prediction=attacked),
    ]
    return Exhibit(sample.id, detail, panels)


@dataclass
class PictureMaker(ABC, Generic[P]):
    """Makes the encoded pictures of a gallery; one class per task.

    Attributes:
        painter: predicts and draws.
        model: what is asked.
        seen: the classes that were drawn, for the legend.
    """

    painter: Painter[P]
    model: GauntletModel
    seen: set[int] = field(default_factory=set)

    @abstractmethod
    def truth(self, sample: Sample, word: str = "ground truth") -> Picture:
        """The ground truth; an error where the sample has none."""

    def change(self, sample: Sample, perturbed: Perturbed, changed: pictures.Image) -> Picture:
        """What a threat did: the difference, or where the ground truth moved to."""
        if perturbed.samples is not None:
            return self.truth(perturbed.samples[0], "moved ground truth")
        difference, factor = pictures.amplified_difference(sample.image, changed)
        return photo(f"difference x {factor:.1f}", difference)

    @abstractmethod
    def prediction(self, word: str, image: pictures.Image, prediction: P) -> Picture:
        """A prediction; `image` is what the model saw."""


class _LabelPictures(PictureMaker[Labels]):
    """Label maps; the legend names the classes of the ground truth."""

    painter: LabelPainter

    def truth(self, sample: Sample, word: str = "ground truth") -> Picture:
        labels = self.painter.truth(sample)
        self.seen |= self.painter.classes_of(labels)
        return self._picture(word, labels)

    def prediction(self, word: str, image: pictures.Image, prediction: Labels) -> Picture:
        return self._picture(f"{word} prediction", prediction)

    def _picture(self, caption: str, labels: Labels) -> Picture:
        return label_picture(caption, self.painter, labels)


class _BoxPictures(PictureMaker[Boxes]):
    """Boxes on the image that the detector saw; the legend names the classes of objects and detections."""

    painter: BoxPainter

    def truth(self, sample: Sample, word: str = "ground truth") -> Picture:
        boxes = self.painter.truth(sample)
        return self._picture(f"{word}: {counted(len(boxes), 'object')}", sample.image, boxes)

    def prediction(self, word: str, image: pictures.Image, prediction: Boxes) -> Picture:
        return self._picture(f"{word} prediction: {counted(len(prediction), 'box', 'boxes')}", image, prediction)

    def _picture(self, caption: str, image: pictures.Image, boxes: Boxes) -> Picture:
        self.seen |= self.painter.classes_of(boxes)
        shown, times = image, WIDEST // image.shape[1]  # as large as possible: room for the scores
        if not times:
            shown, times = _resized(image), 1
            boxes = replace(boxes, xyxy=boxes.xyxy * np.float32(shown.shape[1] / image.shape[1]))
        return _encoded(caption, self.painter.draw(shown, boxes, scale=times, named=False), ".jpg", _GOOD_JPEG)


def picture_maker(model: GauntletModel, dataset: Dataset) -> PictureMaker[Any]:
    """What draws for a model of its task."""
    if isinstance(model, SegmentationModel):
        return _LabelPictures(LabelPainter(dataset, model), model)
    if isinstance(model, DetectionModel):
        return _BoxPictures(BoxPainter(dataset, model), model)
    raise GauntletError(f"'{model.identity.name}' predicts neither labels nor boxes; galleries show those.")


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


def label_picture(caption: str, painter: LabelPainter, labels: Labels) -> Picture:
    """A label map in colour."""
    drawn = cv2.resize(painter.draw(labels), _size(labels.shape), interpolation=cv2.INTER_NEAREST)
    return _encoded(caption, np.asarray(drawn, np.uint8), ".png", _SMALL_PNG)


def photo(caption: str, image: pictures.Image) -> Picture:
    """An image, in the size of a gallery."""
    return _encoded(caption, _resized(image), ".jpg", _GOOD_JPEG)


def _encoded(caption: str, image: pictures.Image, ending: str, options: list[int]) -> Picture:
    done, data = cv2.imencode(ending, np.ascontiguousarray(image[..., ::-1]), options)
    if not done:
        raise GauntletError(f"the picture '{caption}' could not be encoded.")
    media_type = "image/jpeg" if ending == ".jpg" else "image/png"
    return Picture(caption, media_type, data.tobytes(), image.shape[1], image.shape[0])
