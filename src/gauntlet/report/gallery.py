"""Galleries of worst images: the threat is run again on a few of them, and what the model said is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from gauntlet.datasets import load_dataset
from gauntlet.datasets.contract import Dataset
from gauntlet.errors import GauntletError
from gauntlet.evaluation.prediction import predict_dense
from gauntlet.models import SegmentationModel, load_model
from gauntlet.report import pictures
from gauntlet.report.document import Exhibit, Gallery, Picture
from gauntlet.results.record import Evaluation
from gauntlet.samples import Sample, collate
from gauntlet.seeding import ImageSeed
from gauntlet.threats import build_threat

WIDEST = 512
NARROWEST = 256
DIFFERS = 0.02
"""A rerun whose accuracy is further than this from the stored one was not the same thing; the report says so."""

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


def worst_images(clean: pd.DataFrame | None, attacked: pd.DataFrame, count: int) -> list[str]:
    """Ids of the images on which a threat does most damage: the largest loss of mIoU, else the smallest mIoU."""
    after = attacked.dropna(subset="mIoU").set_index("image_id")["mIoU"]
    if clean is not None:
        before = clean.dropna(subset="mIoU").set_index("image_id")["mIoU"]
        after = (after - before).dropna()
    return [str(name) for name in after.sort_values(kind="stable").index[:count]]


def build_gallery(
    evaluation: Evaluation, ids: Sequence[str], stored: pd.DataFrame, title: str, loaders: Loaders
) -> Gallery:
    """Runs the threat of an evaluation again on a few images and draws them.

    Args:
        evaluation: a segmentation evaluation.
        ids: the images.
        stored: per-image figures of the evaluation (image_id, accuracy, mIoU).
        title: of the gallery.
        loaders: how the model and the dataset are found.
    """
    dataset = loaders.dataset(evaluation.dataset, evaluation.split)
    model = loaders.model(evaluation.model)
    if not isinstance(model, SegmentationModel):
        raise GauntletError(f"'{evaluation.model}' is no segmentation model; galleries show label maps.")
    if model.identity.digest != evaluation.model_digest:
        raise GauntletError(f"the weights of '{evaluation.model}' are not those that were evaluated.")
    positions = {name: index for index, name in enumerate(dataset.ids())}
    missing = [name for name in ids if name not in positions]
    if missing:
        raise GauntletError(f"the dataset '{evaluation.dataset}' has no image '{missing[0]}' here.")
    colors = pictures.palette(dataset.colors, dataset.num_classes)
    accuracies = dict(zip(stored["image_id"], stored["accuracy"].astype(float), strict=True))
    seen: set[int] = set()
    exhibits = []
    for name in ids:
        sample = dataset[positions[name]]
        exhibits.append(_exhibit(sample, dataset, model, evaluation, accuracies[name], colors))
        seen.update(np.unique(sample.labels).tolist() if sample.labels is not None else ())
    legend = [
        (str(label), "#" + "".join(f"{channel:02x}" for channel in color))
        for index, (label, color) in enumerate(zip(dataset.class_names, colors.tolist(), strict=True))
        if index in seen
    ]
    return Gallery(title, legend, exhibits)


def _exhibit(
    sample: Sample,
    dataset: Dataset,
    model: SegmentationModel,
    evaluation: Evaluation,
    stored: float,
    colors: npt.NDArray[np.uint8],
) -> Exhibit:
    if sample.labels is None:
        raise GauntletError(f"image '{sample.id}' has no label map.")
    threat = build_threat(evaluation.description)
    batch = collate([sample], model.device, dataset.ignore_index)
    perturbed = threat.perturb(model, batch, [ImageSeed(evaluation.seed, sample.id)])
    changed = (perturbed.images[0].permute(1, 2, 0) * 255).round().byte().cpu().numpy()
    difference, factor = pictures.amplified_difference(sample.image, changed)
    clean = predict_dense(model, batch.images, [sample.id])[0].labels
    if isinstance(perturbed.predictions, torch.Tensor):
        attacked = perturbed.predictions[0].cpu().numpy()
    else:
        attacked = predict_dense(model, perturbed.images, [sample.id])[0].labels
    valid = np.ones(sample.labels.shape, bool)
    if dataset.ignore_index is not None:
        valid = sample.labels != dataset.ignore_index
    before, after = (float(np.mean((labels == sample.labels)[valid])) for labels in (clean, attacked))
    detail = f"pixel accuracy {before:.1%} clean, {after:.1%} under the threat"
    if abs(after - stored) > DIFFERS:
        detail += f"; stored were {stored:.1%}: another protocol, batch or machine"
    word = "attacked" if threat.needs_model else "corrupted"
    panels = [
        _photo("input", sample.image),
        _photo("what the model sees", changed),
        _photo(f"difference x {factor:.1f}", difference),
        _labels("ground truth", sample.labels, colors),
        _labels("clean prediction", clean, colors),
        _labels(f"{word} prediction", attacked, colors),
    ]
    return Exhibit(sample.id, detail, panels)


def _size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Width and height to draw at: large images smaller, tiny ones a whole number of times larger."""
    height, width = shape[:2]
    if width > WIDEST:
        return WIDEST, max(1, round(height * WIDEST / width))
    times = max(1, NARROWEST // width)
    return width * times, height * times


def _photo(caption: str, image: pictures.Image) -> Picture:
    width, height = _size(image.shape)
    smaller = width < image.shape[1]
    drawn = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_NEAREST)
    return _encoded(caption, np.asarray(drawn, np.uint8), ".jpg", [cv2.IMWRITE_JPEG_QUALITY, 88])


def _labels(caption: str, labels: npt.NDArray[np.integer], colors: npt.NDArray[np.uint8]) -> Picture:
    width, height = _size(labels.shape)
    drawn = cv2.resize(pictures.color_labels(labels, colors), (width, height), interpolation=cv2.INTER_NEAREST)
    return _encoded(caption, np.asarray(drawn, np.uint8), ".png", [cv2.IMWRITE_PNG_COMPRESSION, 9])


def _encoded(caption: str, image: npt.NDArray[np.uint8], ending: str, options: list[int]) -> Picture:
    done, data = cv2.imencode(ending, np.ascontiguousarray(image[..., ::-1]), options)
    if not done:
        raise GauntletError(f"the picture '{caption}' could not be encoded.")
    media_type = "image/jpeg" if ending == ".jpg" else "image/png"
    return Picture(caption, media_type, data.tobytes(), image.shape[1], image.shape[0])
