"""A playground with tiny models and images, for the tests of the server and of the page."""

from __future__ import annotations

import base64
import json
from typing import Any

import cv2
import numpy as np
import torch

from gauntlet.models import wrap_model
from gauntlet.models.sources.contract import LoadedModel
from gauntlet.play.playground import OfferedDataset, OfferedModel, Playground
from gauntlet.samples import Sample
from tiny import tiny_network
from tiny_detector import TinyBoxes, TinyDetector

TOKEN = "the-token"
HOST = "127.0.0.1:8021"


class LabelsAndBoxes(TinyBoxes):
    """The squares, with labels too: class 0 is dark, class 1 light, class 2 red, as in the tiny dataset."""

    class_names = ("dark", "light", "red")
    colors = ()

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        red, light = sample.image[..., 0] > 180, sample.image.mean(axis=2) > 60
        labels = np.where(red, 2, light.astype(int)).astype(np.uint8)
        return Sample(sample.id, sample.image, labels, boxes=sample.boxes)


def tiny_playground() -> Playground:
    """A segmentation model and a detector on six images of 32 x 48 pixels."""
    network = wrap_model(tiny_network(), num_classes=3, mean=(0.5,) * 3, std=(0.25,) * 3, name="tiny-net")
    models = [
        OfferedModel("tiny-net", LoadedModel(network)),
        OfferedModel("tiny-detector", LoadedModel(TinyDetector())),
    ]
    return Playground(models, OfferedDataset(LabelsAndBoxes(), ["--dataset", "tiny"]), torch.device("cpu"))


def parse_events(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of a stream."""
    events = []
    for each in text.strip().split("\n\n"):
        first, second = each.split("\n")
        events.append((first.removeprefix("event: "), json.loads(second.removeprefix("data: "))))
    return events


def decode(address: str) -> np.ndarray[Any, Any]:
    """The pixels (H, W, 3), RGB, of a data address."""
    content = base64.b64decode(address.partition(",")[2])
    picture = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    return np.asarray(picture[..., ::-1])
