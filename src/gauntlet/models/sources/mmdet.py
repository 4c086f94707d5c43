"""mmdet: a configuration and a checkpoint of mmdetection, in the user's own OpenMMLab environment.

Images go through the configuration's test pipeline and data preprocessor inside the model, and detections are those of
the library's own post-processing, in the image's pixels. The loss is the library's training loss, with all its parts
(the denoising queries of DINO too), of one image at a time and with the same random draws at every call. Heads compute
it in training mode only; layers that behave differently in training (batch norm, dropout) stay in eval mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from gauntlet.errors import GauntletError, first_line
from gauntlet.models.contract import Candidates, GauntletModel, ModelIdentity
from gauntlet.models.sources.adapting import check_options
from gauntlet.models.sources.contract import ModelSource
from gauntlet.models.sources.detecting import Labels, LibraryDetector
from gauntlet.models.sources.mmdet_candidates import joined, propose
from gauntlet.models.sources.mmdet_pipeline import Pipeline, Placed
from gauntlet.models.sources.openmmlab import PLACES, Built, OpenMMLabSource, channel_settings, check_places
from gauntlet.models.wrapping import Normalisation
from gauntlet.samples import Boxes
from gauntlet.tasks import DETECTION

OPTIONS = ("num_classes", "outputs", "class_names", "name", *PLACES)
# TOOD assigns objects in another way in its first epochs; a trained one is past them.
_EPOCH = 1_000_000


class DetectorSource(OpenMMLabSource):
    """A detector of mmdetection."""

    task = DETECTION

    def load(self) -> GauntletModel:
        built = self.build()
        address = f"mmdet:{self.config}"
        size = _count_classes(built.network, address)
        names = built.class_names if built.class_names and len(built.class_names) == size else None
        labels = Labels.of(
            address, names or [f"class {label}" for label in range(size)], self.options, named=names is not None
        )
        steps = built.config.get("test_pipeline") or built.config.test_dataloader.dataset.pipeline
        return MMDetDetector(built.network, labels, size, self.identity, Pipeline(steps)).freeze()

    def check(self, config: Any) -> None:
        if config.model.get("language_model"):
            raise GauntletError(
                f"mmdet:{self.config} is told its classes as text, through a language model that is not in its "
                "checkpoint; of these detectors hf: has Grounding DINO (hf:IDEA-Research/grounding-dino-tiny)."
            )

    def finish(self, built: Built) -> None:
        # Masks are no boxes; without their heads, losses need no masks of the objects.
        roi_head = getattr(built.network, "roi_head", None)
        if roi_head is not None and getattr(roi_head, "mask_head", None) is not None:
            roi_head.mask_head = None


class MMDetDetector(LibraryDetector):
    """A detector of mmdetection behind the contract.

    Args:
        pipeline: of its configuration, for tests.
    """

    def __init__(self, network: Any, labels: Labels, size: int, identity: ModelIdentity, pipeline: Pipeline) -> None:
        super().__init__(network, labels, size, identity)
        self.pipeline = pipeline
        self.normalisation = Normalisation(*channel_settings(network.data_preprocessor))
        self.single = any(type(part).__name__ == "MaskedConv2d" for part in network.modules())

    def loss(self, image: torch.Tensor, boxes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        from mmengine.structures import InstanceData

        inputs, samples, placed = self._prepare(image[None])
        samples[0].gt_instances = InstanceData(bboxes=placed.to_canvas(boxes), labels=labels)
        try:
            with _losses_on(self.network):
                parts = self.network.loss(inputs, samples)
        except ImportError as error:  # PAA's needs scikit-learn
            raise GauntletError(f"the loss of {self.identity.name} cannot be computed: {first_line(error)}") from None
        total: torch.Tensor = self.network.parse_losses(parts)[0]
        return total

    @torch.no_grad()
    def predict(self, images: torch.Tensor) -> list[Boxes]:
        found = []
        for group in self._groups(images):
            inputs, samples, _ = self._prepare(group)
            found += [sample.pred_instances for sample in self.network.predict(inputs, samples, rescale=True)]
        return [self._found(each.bboxes, each.labels, each.scores) for each in found]

    def candidates(self, images: torch.Tensor) -> Candidates:
        """Class logits are those over the background's where the network has one."""
        parts = []
        for group in self._groups(images):
            inputs, samples, placed = self._prepare(group)
            scores, boxes, objectness = propose(self.network, inputs, samples)
            parts.append((scores[..., self.outputs], placed.to_image(boxes), objectness))
        return Candidates(*joined(parts))

    def _groups(self, images: torch.Tensor) -> Sequence[torch.Tensor]:
        """Images that go through the network together: one at a time where a layer takes no more (guided anchors)."""
        return [images[place : place + 1] for place in range(len(images))] if self.single else [images]

    def _prepare(self, images: torch.Tensor) -> tuple[torch.Tensor, list[Any], Placed]:
        """What the network takes of images (N, 3, H, W), and where they lie on it."""
        from mmdet.structures import DetDataSample

        placed = self.pipeline(*images.shape[-2:])
        inputs = self.normalisation(placed.place(images))
        preprocessor = self.network.data_preprocessor
        height, width = inputs.shape[-2:]
        divisor = preprocessor.pad_size_divisor
        padding = (0, -width % divisor, 0, -height % divisor)
        if any(padding):
            inputs = functional.pad(inputs, padding, value=preprocessor.pad_value)
        size = tuple(inputs.shape[-2:])
        facts = {**(placed.facts or {}), "batch_input_shape": size, "pad_shape": size}
        return inputs, [DetDataSample(metainfo=dict(facts)) for _ in images], placed


def source(config: str, options: Mapping[str, Any]) -> ModelSource:
    """mmdet:CONFIG with weights (or checkpoint) and trust=True; also num_classes, outputs, class_names and name."""
    address = f"mmdet:{config}"
    check_options(address, options, OPTIONS)
    checkpoint = check_places(address, options)
    return DetectorSource("mmdet", config, checkpoint, {**options, "checkpoint": None})


def _count_classes(network: Any, address: str) -> int:
    heads = getattr(network, "roi_head", network)
    head: Any = getattr(heads, "bbox_head", None)
    head = head[-1] if isinstance(head, nn.ModuleList) else head
    if not isinstance(getattr(head, "num_classes", None), int):
        raise GauntletError(f"{address} is no detector of boxes: it has no bbox_head with classes.")
    return int(head.num_classes)


@contextmanager
def _losses_on(network: nn.Module) -> Iterator[None]:
    """The branches that compute losses, which many heads have in training mode only; other layers stay in eval mode."""
    from mmengine.logging import MessageHub

    parts: Sequence[nn.Module] = [part for part in network.modules() if not _stays(part)]
    hub = MessageHub.get_current_instance()
    epoch = hub.runtime_info.get("epoch")
    hub.update_info("epoch", _EPOCH)
    for part in parts:
        part.training = True
    try:
        yield
    finally:
        for part in parts:
            part.training = False
        hub.update_info("epoch", epoch)
        # Dynamic R-CNN changes its loss by what it has seen, every hundred calls; an image's loss must not depend on
        # the images before it.
        for part in parts:
            if hasattr(part, "iou_history"):
                part.iou_history, part.beta_history = [], []  # type: ignore[assignment]


def _stays(part: nn.Module) -> bool:
    """Whether a layer computes something else in training: batch statistics, or dropout of whatever kind."""
    return isinstance(part, (_BatchNorm, nn.MultiheadAttention)) or type(part).__name__.startswith("Drop")
