"""A photograph without ground truth, as a dataset of one sample that a model can be shown on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np

from gauntlet.datasets.contract import Dataset
from gauntlet.datasets.palettes import voc_palette
from gauntlet.errors import GauntletError
from gauntlet.evaluation.prediction import predict_dense, predict_objects
from gauntlet.models import DetectionModel, GauntletModel, SegmentationModel
from gauntlet.samples import Sample, images_to_tensor

SURE = 0.5
"""The score from which a detection stands in for an object."""


class OneSample(Dataset):
    """One sample, with the classes of the model that looks at it."""

    name, split = "image", ""

    def __init__(self, sample: Sample, model: GauntletModel | None) -> None:
        self._sample = sample
        names = () if model is None else model.class_names
        self.class_names = names if not isinstance(model, DetectionModel) else ()
        self.box_class_names = names if isinstance(model, DetectionModel) else ()
        self.colors = voc_palette(len(self.class_names), skip=1)
        self.has_depth = sample.depth is not None

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Sample:
        return self._sample

    def ids(self) -> Sequence[str]:
        return [self._sample.id]


def with_truth(sample: Sample, model: GauntletModel) -> Sample:
    """A sample with ground truth as it is; one without gets what a model says about it in its place."""
    images = images_to_tensor([sample.image], model.device)
    if isinstance(model, DetectionModel):
        if sample.boxes is not None:
            return sample
        found = predict_objects(model, images, [sample.id])[0]
        sure = found if found.scores is None else found.select(found.scores >= SURE)
        return replace(sample, boxes=sure.as_truth())
    if sample.labels is not None:
        return sample
    assert isinstance(model, SegmentationModel)
    return replace(sample, labels=predict_dense(model, images, [sample.id])[0].labels)


def read_sample(path: Path) -> Sample:
    """An image file as a sample without ground truth."""
    if not path.is_file():
        raise GauntletError(f"there is no image file {path}.")
    picture = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise GauntletError(f"{path} is not an image that OpenCV reads.")
    return Sample(path.name, np.ascontiguousarray(picture[..., ::-1]))
