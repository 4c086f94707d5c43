"""What detectors of other libraries share: the map between labels and classes, objects as a loss takes them, results.

Their training losses average over a batch and sample at random. Here every image goes through the loss alone, and every
call draws the same samples, so that the loss of an image is a function of the image.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from gauntlet.errors import GauntletError
from gauntlet.models.contract import DetectionModel, ModelIdentity
from gauntlet.samples import Boxes

# Names of labels that stand for no class: COCO's gaps (it has 80 classes with numbers up to 90) and the background,
# which Keypoint R-CNN calls "no person".
_NO_CLASS = ("n/a", "__background__", "background", "no person", "")
_SAMPLER_SEED = 0

NETWORK_OPTIONS = ("num_classes", "outputs", "class_names", "mean", "std", "channel_order", "input_size")
"""Options that say what a detector takes and gives."""


@dataclass(frozen=True)
class Labels:
    """Which of a network's labels are the classes of the dataset.

    Attributes:
        outputs: the label of every class, in the order of the classes.
        class_names: one per class, or None.
    """

    outputs: tuple[int, ...]
    class_names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, address: str, names: Sequence[str], options: Mapping[str, Any], *, named: bool = True) -> Labels:
        """The labels that have a name, unless the user's `outputs` say other.

        Args:
            address: for errors.
            names: of all labels.
            options: the user's: outputs, class_names, num_classes.
            named: whether the names mean something.
        """
        outputs = options.get("outputs")
        if outputs is None:
            outputs = [label for label, name in enumerate(names) if name.lower() not in _NO_CLASS]
        outputs = tuple(int(output) for output in outputs)
        wrong = [output for output in outputs if not 0 <= output < len(names)]
        if wrong or not outputs:
            raise GauntletError(
                f"outputs of {address} must be among its labels 0 to {len(names) - 1}, "
                f"not {wrong[0] if wrong else 'none'}."
            )
        if len(set(outputs)) < len(outputs):
            raise GauntletError(f"outputs of {address} must be different labels, one for each class.")
        if int(options.get("num_classes", len(outputs))) != len(outputs):
            raise GauntletError(
                f"{address} has {len(outputs)} classes, not {options['num_classes']}; "
                "outputs=[...] chooses among its labels."
            )
        given = options.get("class_names") or ([names[output] for output in outputs] if named else None)
        return cls(outputs, None if given is None else tuple(str(name) for name in given))


class ObjectDetector(DetectionModel):
    """A detector with a label map; subclasses ask its network.

    Args:
        network: takes and gives what its library says.
        labels: which of its labels are the classes.
    """

    network: Any
    outputs: torch.Tensor

    def __init__(self, network: nn.Module, labels: Labels, identity: ModelIdentity | None) -> None:
        super().__init__(
            num_classes=len(labels.outputs), class_names=labels.class_names, ignore_index=None, identity=identity
        )
        self.network = network
        self.register_buffer("outputs", torch.tensor(labels.outputs), persistent=False)

    def checked(self, images: torch.Tensor, targets: Sequence[Boxes]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """For every image the corners inside it and the classes of its objects.

        Crowds and boxes without area are left out: no training loss takes them.
        """
        if len(targets) != len(images):
            raise GauntletError(f"{len(images)} images came with the boxes of {len(targets)}.")
        height, width = images.shape[-2:]
        for target in targets:
            wrong = target.classes[(target.classes < 0) | (target.classes >= self.num_classes)]
            if len(wrong):
                raise GauntletError(f"a box has the class {wrong[0]}; expected 0 to {self.num_classes - 1}.")
            corners = np.clip(target.xyxy, 0, np.array([width, height, width, height], np.float32))
            kept = (corners[:, 2:] > corners[:, :2]).all(axis=1)
            if target.crowd is not None:
                kept &= ~target.crowd
            boxes = torch.from_numpy(np.ascontiguousarray(corners[kept], dtype=np.float32))
            yield boxes.to(images), torch.from_numpy(target.classes[kept]).to(images.device)


class LibraryDetector(ObjectDetector):
    """A network of a library that has its training loss with it.

    Args:
        size: how many labels the network has.
    """

    classes: torch.Tensor

    def __init__(self, network: nn.Module, labels: Labels, size: int, identity: ModelIdentity | None) -> None:
        super().__init__(network, labels, identity)
        classes = torch.full((size,), -1)
        classes[self.outputs] = torch.arange(self.num_classes)
        self.register_buffer("classes", classes, persistent=False)

    @abstractmethod
    def loss(self, image: torch.Tensor, boxes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The library's training loss of one image (3, H, W) with objects (n, 4), (n,): a scalar."""

    def losses(self, images: torch.Tensor, targets: Sequence[Boxes]) -> torch.Tensor:
        values = []
        for image, (boxes, classes) in zip(images, self.checked(images, targets), strict=True):
            with _same_samples(images.device):
                values.append(self.loss(image, boxes, self.outputs[classes]))
        return torch.stack(values)

    def _found(self, boxes: torch.Tensor, labels: torch.Tensor, scores: torch.Tensor) -> Boxes:
        """Detections of one image by the network's labels as detections of classes, best first."""
        classes = self.classes[labels]
        order = scores.argsort(descending=True, stable=True)
        order = order[classes[order] >= 0]
        return Boxes(
            boxes[order].float().cpu().numpy(), classes[order].cpu().numpy(), scores[order].float().cpu().numpy()
        )


@contextmanager
def _same_samples(device: torch.device) -> Iterator[None]:
    """Random draws from a fixed seed, whatever was drawn before; nothing outside notices."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(_SAMPLER_SEED)
        yield
