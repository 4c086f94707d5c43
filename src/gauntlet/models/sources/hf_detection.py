"""hf: detectors of transformers: DETR, Conditional, Deformable and DAB-DETR, RT-DETR, YOLOS and their kin.

Images are resized as the checkpoint's image processor says, inside the model and differentiably, since these networks
were trained at those sizes and their boxes are fractions of the image anyway. A checkpoint without a processor's file
takes images as they come. Detections are those of the library's `post_process_object_detection`. Grounding DINO, which
takes its classes as text, is in `grounding_dino`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gauntlet.errors import GauntletError
from gauntlet.models.contract import Candidates, ModelIdentity
from gauntlet.models.sources.adapting import read_size
from gauntlet.models.sources.detecting import NETWORK_OPTIONS, Labels, LibraryDetector
from gauntlet.models.wrapping import Normalisation
from gauntlet.samples import Boxes

OPTIONS = (*NETWORK_OPTIONS, "revision", "name", "trust")
# One label per query, the last output is "no object"; the others have independent labels and no such output.
SOFTMAX = ("detr", "yolos", "table-transformer")
SIGMOID = ("conditional_detr", "deformable_detr", "dab-detr", "rt_detr", "rt_detr_v2", "d_fine")
KINDS = (*SOFTMAX, *SIGMOID)
AS_GIVEN = "image"
_REAL_TIME = ("rt_detr", "rt_detr_v2", "d_fine")
# What both sides of an image must be multiples of: the deepest maps of RT-DETR's kin, the patches of YOLOS.
_MULTIPLES = {**dict.fromkeys(_REAL_TIME, 32), "yolos": 16}
# The size that the processors of RT-DETR's kin have by default.
_USUAL_SIZE = {"height": 640, "width": 640}


@dataclass(frozen=True)
class Resizing:
    """To which size images go: one, or one whose shorter side is given, as long as the longer one permits.

    Attributes:
        size: (height, width), or None.
        shorter, longer: sides in pixels; no limit where `longer` is None.
        multiple: of which both sides are made a multiple: the next larger one where no sides are given, else the next
            smaller one, as YOLOS's processor has it.
    """

    size: tuple[int, int] | None = None
    shorter: int | None = None
    longer: int | None = None
    multiple: int = 1

    @classmethod
    def of(cls, kind: str, processor: Mapping[str, Any], given: Any) -> Resizing:
        """What the user says, else the processor's settings."""
        multiple = _MULTIPLES.get(kind, 1)
        as_given = cls(multiple=multiple)
        if given == AS_GIVEN:
            return as_given
        if given is not None:
            return cls(size=read_size(given))
        size = processor.get("size", _USUAL_SIZE if kind in _REAL_TIME else None)
        if size is None or not processor.get("do_resize", True):
            return as_given
        # Files of old versions have one number and its limit beside it.
        if not isinstance(size, Mapping):
            size = {"shortest_edge": size}
        if "height" in size:
            return cls(size=(int(size["height"]), int(size["width"])))
        if "shortest_edge" not in size:
            raise GauntletError(
                f"the image processor resizes by {', '.join(size)}, which is not known here; give input_size, a height "
                f"and a width in pixels or '{AS_GIVEN}'."
            )
        longer = size.get("longest_edge") or processor.get("max_size")
        return cls(shorter=int(size["shortest_edge"]), longer=longer, multiple=multiple)

    def __call__(self, height: int, width: int) -> tuple[int, int]:
        """The size of an image afterwards; transformers' get_size_with_aspect_ratio, its own version of YOLOS too."""
        if self.size is not None:
            return self.size
        if self.shorter is None:
            return height + -height % self.multiple, width + -width % self.multiple
        low, high = min(height, width), max(height, width)
        wanted = float(self.shorter)
        if self.longer is not None and high / low * wanted > self.longer:
            wanted = self.longer * low / high
        short = round(wanted)
        long = high if low == short else int(wanted * high / low)
        short, long = (max(side - side % self.multiple, self.multiple) for side in (short, long))
        return (long, short) if width < height else (short, long)


class QueryDetector(LibraryDetector):
    """A detector of transformers behind the contract.

    Args:
        network: gives logits (N, Q, labels) and boxes (N, Q, 4): centre, width and height in fractions of the image.
        kind: transformers' model_type.
        resizing: applied to every image before the normalisation.

    Attributes:
        most: detections of an image at most, with independent labels; those of the library's post-processing.
    """

    most = 100

    def __init__(
        self,
        network: nn.Module,
        labels: Labels,
        size: int,
        identity: ModelIdentity,
        *,
        kind: str,
        normalisation: Normalisation,
        resizing: Resizing,
    ) -> None:
        super().__init__(network, labels, size, identity)
        self.kind = kind
        self.normalisation = normalisation
        self.resizing = resizing
        # The library keeps as many detections of RT-DETR's kin as there are queries.
        if kind in _REAL_TIME:
            self.most = self.network.config.num_queries

    def prepare(self, images: torch.Tensor) -> torch.Tensor:
        """What the library calls pixel_values."""
        size = self.resizing(*images.shape[-2:])
        if size != tuple(images.shape[-2:]):
            images = functional.interpolate(images, size, mode="bilinear", align_corners=False, antialias=True)
        prepared: torch.Tensor = self.normalisation(images)
        return prepared

    def ask(self, images: torch.Tensor, **labels: Any) -> Any:
        """What the network says of images (N, 3, H, W), with its loss where labels are given."""
        return self.network(pixel_values=self.prepare(images), **labels)

    def label_logits(self, output: Any) -> torch.Tensor:
        """A logit for every query and label, (N, Q, labels)."""
        logits: torch.Tensor = output.logits
        return logits

    def loss(self, image: torch.Tensor, boxes: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        height, width = image.shape[-2:]
        low, high = (boxes / boxes.new_tensor([width, height, width, height])).chunk(2, dim=1)
        target = {"class_labels": labels, "boxes": torch.cat([(low + high) / 2, high - low], dim=1)}
        loss: torch.Tensor = self.ask(image[None], labels=[target]).loss
        return loss.reshape(())

    @torch.no_grad()
    def predict(self, images: torch.Tensor) -> list[Boxes]:
        output = self.ask(images)
        logits, corners = self.label_logits(output), self._corners(output.pred_boxes, images)
        if self.kind in SOFTMAX:
            scores, classes = logits.softmax(dim=-1)[..., self.outputs].max(dim=-1)
        else:
            chances = logits[..., self.outputs].sigmoid().flatten(1)
            scores, places = chances.topk(min(self.most, chances.shape[1]), dim=1)
            classes = places % self.num_classes
            queries = places // self.num_classes
            corners = corners.gather(1, queries[..., None].expand(-1, -1, 4))
        return [self._found(*each) for each in zip(corners, self.outputs[classes], scores, strict=True)]

    def candidates(self, images: torch.Tensor) -> Candidates:
        """Every query; class logits are those over "no object" where the network has that."""
        output = self.ask(images)
        logits, boxes = self.label_logits(output), self._corners(output.pred_boxes, images)
        scores = logits[..., self.outputs]
        if self.kind in SOFTMAX:
            scores = scores - logits[..., -1:]
            return Candidates(scores, boxes, scores.logsumexp(dim=-1))
        return Candidates(scores, boxes, scores.amax(dim=-1))

    @staticmethod
    def _corners(boxes: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        height, width = images.shape[-2:]
        centre, sides = boxes.chunk(2, dim=-1)
        return torch.cat([centre - sides / 2, centre + sides / 2], dim=-1) * boxes.new_tensor([width, height] * 2)


def label_names(config: Any) -> Sequence[str]:
    """Names of a configuration's labels, in order."""
    names: list[str] = [str(config.id2label[index]) for index in sorted(config.id2label)]
    return names
