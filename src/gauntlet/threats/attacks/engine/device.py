"""Attacks on devices without float64 (Apple's MPS): the model's passes run there, everything else on the CPU.

Bounds are kept exact in float64. Images and logits cross over once a pass, in memory that both processors share there.
What an attack made is handed back on the caller's device; norms and counts, float64 and int64, stay on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from gauntlet.models.contract import Candidates, DetectionModel
from gauntlet.samples import Boxes
from gauntlet.tasks import DETECTION, task_of

WITHOUT_FLOAT64 = ("mps",)
"""Kinds of devices that cannot compute in float64."""

Truth = TypeVar("Truth", bound="torch.Tensor | Sequence[Boxes]")


def crosses(model: Any, images: torch.Tensor) -> bool:
    """Whether an attack on these images needs a bridge."""
    bridged = isinstance(model, (BridgedPixels, BridgedDetector))
    return isinstance(images, torch.Tensor) and images.device.type in WITHOUT_FLOAT64 and not bridged


def bridge(model: Any, images: torch.Tensor, truth: Truth) -> tuple[Any, torch.Tensor, Truth]:
    """A model, images and their truth as attacks can compute with them; as they are on most devices.

    Args:
        model: a detector, or any callable that gives logits.
        images: (N, 3, H, W), on the model's device.
        truth: labels (N, H, W), or boxes.
    """
    if not crosses(model, images):
        return model, images, truth
    kind = BridgedDetector if task_of(model) == DETECTION else BridgedPixels
    return kind(model, images.device), images.cpu(), moved(truth, torch.device("cpu"))


def computing_device(model: Any, points: torch.Tensor) -> torch.device:
    """Where a model computes what it is asked at some points."""
    return model.away if isinstance(model, (BridgedPixels, BridgedDetector)) else points.device


def moved(value: Any, device: torch.device) -> Any:
    """A tensor on a device; anything else unchanged; later checks report a wrong type."""
    return value.to(device) if isinstance(value, torch.Tensor) else value


class BridgedPixels(nn.Module):
    """Logits on the CPU from a model on another device.

    Args:
        model: any callable from images to logits; what else it has (`ignore_index`) is seen through.
        device: where it computes.
    """

    def __init__(self, model: Any, device: torch.device) -> None:
        super().__init__()
        self.model, self.away = model, device

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            # A module is kept among the modules, any other callable among the attributes.
            model = self.__dict__["model"] if "model" in self.__dict__ else super().__getattr__("model")
            return getattr(model, name)

    def forward(self, images: torch.Tensor) -> Any:
        return moved(self.model(images.to(self.away)), images.device)


class BridgedDetector(DetectionModel):
    """Losses, detections and candidates on the CPU from a detector on another device.

    Args:
        model: the detector.
        device: where it computes.
    """

    def __init__(self, model: DetectionModel, device: torch.device) -> None:
        super().__init__(num_classes=model.num_classes, class_names=model.class_names, ignore_index=model.ignore_index)
        self.model, self.away = model, device

    def losses(self, images: torch.Tensor, targets: Sequence[Boxes]) -> torch.Tensor:
        values: torch.Tensor = moved(self.model.losses(images.to(self.away), targets), images.device)
        return values

    def predict(self, images: torch.Tensor) -> list[Boxes]:
        return self.model.predict(images.to(self.away))

    def candidates(self, images: torch.Tensor) -> Candidates:
        proposed = self.model.candidates(images.to(self.away))
        home = images.device
        return Candidates(proposed.scores.to(home), proposed.boxes.to(home), proposed.objectness.to(home))
