"""Attacks on devices without float64 (Apple's MPS): the model's passes run there, everything else on the CPU.

Bounds are kept exact in float64. Images and logits cross over once a pass, in memory that both processors share there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from gauntlet.models.contract import Candidates, DetectionModel
from gauntlet.samples import Boxes

WITHOUT_FLOAT64 = ("mps",)
"""Kinds of devices that cannot compute in float64."""

Truth = TypeVar("Truth", bound="torch.Tensor | Sequence[Boxes]")


def bridge(model: Any, images: torch.Tensor, truth: Truth) -> tuple[Any, torch.Tensor, Truth]:
    """A model, images and their truth as attacks can compute with them; as they are on most devices.

    Args:
        model: a detector, or any callable that gives logits.
        images: (N, 3, H, W), on the model's device.
        truth: labels (N, H, W), or boxes.
    """
    device = images.device if isinstance(images, torch.Tensor) else torch.device("cpu")
    if device.type not in WITHOUT_FLOAT64 or isinstance(model, (BridgedPixels, BridgedDetector)):
        return model, images, truth
    there = truth.cpu() if isinstance(truth, torch.Tensor) else truth
    bridged = BridgedDetector(model, device) if isinstance(model, DetectionModel) else BridgedPixels(model, device)
    return bridged, images.cpu(), there  # type: ignore[return-value] # the type of the truth stays


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
            return getattr(super().__getattr__("model"), name)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(images.to(self.away))
        return logits.to(images.device)


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
        return self.model.losses(images.to(self.away), targets).to(images.device)

    def predict(self, images: torch.Tensor) -> list[Boxes]:
        return self.model.predict(images.to(self.away))

    def candidates(self, images: torch.Tensor) -> Candidates:
        found = self.model.candidates(images.to(self.away))
        home = images.device
        return Candidates(found.scores.to(home), found.boxes.to(home), found.objectness.to(home))
