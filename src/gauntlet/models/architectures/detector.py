"""What the detectors of this package share: targets as tensors, the network's contract, the model around a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import GauntletError, NotFiniteError
from gauntlet.models.architectures.geometry import suppress
from gauntlet.models.contract import Candidates, DetectionModel, ModelIdentity
from gauntlet.models.wrapping import Normalisation
from gauntlet.registry import Registry, subclass_of
from gauntlet.samples import Boxes

LARGEST_BEFORE_SUPPRESSION = 400
MOST_DETECTIONS = 100


@dataclass(frozen=True)
class Targets:
    """The objects of N images, padded to the largest number M of them.

    Attributes:
        boxes: (N, M, 4) corners in pixels.
        classes: (N, M) int64.
        present: (N, M) whether there is an object to be found.
        ignored: (N, M) whether there is a region that counts for nothing (COCO's crowds, VOC's difficult objects).
    """

    boxes: torch.Tensor
    classes: torch.Tensor
    present: torch.Tensor
    ignored: torch.Tensor

    @classmethod
    def of(cls, objects: Sequence[Boxes], num_classes: int, device: torch.device) -> Targets:
        """Pads the objects of every image."""
        shape = (len(objects), max(1, *(len(each) for each in objects)))
        boxes = np.zeros((*shape, 4), dtype=np.float32)
        classes = np.zeros(shape, dtype=np.int64)
        present, ignored = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        for index, each in enumerate(objects):
            count = len(each)
            if count and not (each.classes.min() >= 0 and each.classes.max() < num_classes):
                raise GauntletError(f"a box has the class {each.classes.max()}; expected 0 to {num_classes - 1}.")
            boxes[index, :count], classes[index, :count] = each.xyxy, each.classes
            for flags in (each.crowd, each.difficult):
                if flags is not None:
                    ignored[index, :count] |= flags
            present[index, :count] = ~ignored[index, :count]
        tensors = (torch.from_numpy(array).to(device) for array in (boxes, classes, present, ignored))
        return cls(*tensors)

    def ignores(self, points: torch.Tensor) -> torch.Tensor:
        """Whether points, (L, 2) or (N, L, 2), lie in an ignored region: (N, L)."""
        points = points.expand(len(self.boxes), -1, -1)[:, :, None]
        inside = (points >= self.boxes[:, None, :, :2]) & (points < self.boxes[:, None, :, 2:])
        return (inside.all(dim=-1) & self.ignored[:, None]).any(dim=-1)


class Detector(nn.Module, ABC):
    """A detection network: normalised images to raw outputs, and what these mean.

    Attributes:
        stride: height and width of the input must be multiples of it; the model around the network pads.
        suppression: IoU above which the weaker of two boxes of a class goes, or None where the network needs none.
        encoder: the part whose weights can come from a segmentation network of the same encoder.
    """

    stride: int
    suppression: float | None
    encoder: nn.Module

    @abstractmethod
    def forward(self, images: torch.Tensor) -> Any:
        """Raw outputs for images (N, 3, H, W)."""

    @abstractmethod
    def losses(self, outputs: Any, targets: Targets) -> torch.Tensor:
        """The training loss of every image, (N,)."""

    @abstractmethod
    def candidates(self, outputs: Any) -> Candidates:
        """Class logits and boxes before suppression."""

    @abstractmethod
    def confidences(self, outputs: Any) -> torch.Tensor:
        """(N, Q, K) in [0, 1], what the candidates are ranked by."""


detectors: Registry[type[Detector]] = Registry("detector", "gauntlet.detectors", check=subclass_of(Detector))
"""Detection networks by name; an entry is called with `num_classes` and its options."""


class WrappedDetector(DetectionModel, keeps_images=True):
    """A detection network behind the contract: normalisation and padding inside, boxes clipped to the image.

    Args:
        module: the network.
        score_threshold: detections below it are left out.
    """

    module: Detector

    def __init__(
        self,
        module: Detector,
        *,
        num_classes: int,
        mean: Sequence[float] = (0.0, 0.0, 0.0),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        class_names: Sequence[str] | None = None,
        score_threshold: float = 0.02,
        identity: ModelIdentity | None = None,
    ) -> None:
        super().__init__(num_classes=num_classes, class_names=class_names, ignore_index=None, identity=identity)
        self.normalisation = Normalisation(mean, std)
        self.module = module
        self.score_threshold = score_threshold

    def losses(self, images: torch.Tensor, targets: Sequence[Boxes]) -> torch.Tensor:
        if len(targets) != len(images):
            raise GauntletError(f"{len(images)} images came with the boxes of {len(targets)}.")
        return self.module.losses(self._outputs(images), Targets.of(targets, self.num_classes, images.device))

    def candidates(self, images: torch.Tensor) -> Candidates:
        return self.module.candidates(self._outputs(images))

    @torch.no_grad()
    def predict(self, images: torch.Tensor) -> list[Boxes]:
        outputs = self._outputs(images)
        limits = torch.tensor([images.shape[3], images.shape[2]] * 2, dtype=torch.float32, device=images.device)
        boxes = self.module.candidates(outputs).boxes.float().clamp(min=0).minimum(limits)
        return [self._select(*each) for each in zip(self.module.confidences(outputs).float(), boxes, strict=True)]

    def _outputs(self, images: torch.Tensor) -> Any:
        bottom, right = (-size % self.module.stride for size in images.shape[-2:])
        padded = functional.pad(images, (0, right, 0, bottom), mode="replicate") if bottom or right else images
        return self.module(self.normalisation(padded))

    def _select(self, confidences: torch.Tensor, boxes: torch.Tensor) -> Boxes:
        """The detections of one image, best first, from (Q, K) and (Q, 4)."""
        if bool(torch.isnan(confidences).any()):  # which no threshold would keep: the image would look empty
            raise NotFiniteError("the detector returned NaN scores; check the model and its precision.")
        scores, order = confidences.flatten().topk(min(LARGEST_BEFORE_SUPPRESSION, confidences.numel()))
        chosen, classes = boxes[order // self.num_classes], order % self.num_classes
        kept = (scores >= self.score_threshold) & (chosen[:, 2:] > chosen[:, :2]).all(dim=1)
        scores, chosen, classes = scores[kept], chosen[kept], classes[kept]
        if self.module.suppression is not None:
            stays = suppress(chosen, classes, self.module.suppression)
            scores, chosen, classes = scores[stays], chosen[stays], classes[stays]
        limit = slice(MOST_DETECTIONS)
        return Boxes(chosen[limit].cpu().numpy(), classes[limit].cpu().numpy(), scores[limit].cpu().numpy())
