"""Which objects an attack on a detector aims at: those with their centre in a region, or those of a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from gauntlet.models.contract import Candidates
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.engine.regions import Region, describe_region, region_mask


@dataclass(frozen=True)
class Aim:
    """The objects that count; all of them where neither a mask nor a class is given.

    Attributes:
        mask: bool (N, H, W), where the centre of an object must lie, or None.
        only: the class that an object must have, or None.
    """

    mask: torch.Tensor | None = None
    only: int | None = None

    @property
    def everything(self) -> bool:
        """Whether every object counts."""
        return self.mask is None and self.only is None

    def select(self, rows: torch.Tensor) -> Aim:
        """The aim for some of the images."""
        return self if self.mask is None else replace(self, mask=self.mask[rows.to(self.mask.device)])

    def inside(self, row: int, boxes: Boxes) -> Boxes:
        """Those boxes of an image that are aimed at."""
        return boxes if self.everything else boxes.select(self._at(row, boxes))

    def marked(self, row: int, boxes: Boxes) -> Boxes:
        """All boxes of an image, those that are not aimed at as crowds: see `aside`."""
        return boxes if self.everything else aside(boxes, ~self._at(row, boxes))

    def _at(self, row: int, boxes: Boxes) -> npt.NDArray[np.bool_]:
        """(n,) which boxes are aimed at."""
        keep: npt.NDArray[np.bool_] = np.ones(len(boxes), np.bool_)
        if self.only is not None:
            keep &= boxes.classes == self.only
        if self.mask is not None and len(boxes):
            corners = torch.from_numpy(boxes.xyxy).to(self.mask.device)
            keep &= centres_in(corners[None], self.mask[row : row + 1])[0].cpu().numpy()
        return keep

    def among(self, candidates: Candidates) -> torch.Tensor | None:
        """Which candidates are aimed at, bool (N, Q); None for all of them."""
        if self.everything:
            return None
        keep = torch.ones_like(candidates.objectness, dtype=torch.bool)
        if self.only is not None:
            keep &= candidates.scores.detach().argmax(2) == self.only
        if self.mask is not None:
            keep &= centres_in(candidates.boxes.detach(), self.mask)
        return keep


def aside(boxes: Boxes, where: npt.NDArray[np.bool_]) -> Boxes:
    """Boxes of which some count for nothing, as COCO's crowds: neither objects nor background in F1.

    Nor in the loss of this package's detectors; those of other libraries take crowds for background.
    """
    return replace(boxes, crowd=where if boxes.crowd is None else boxes.crowd | where)


def centres_in(corners: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """Whether the centre of each box lies on a pixel of its image's mask, bool (N, n).

    Args:
        corners: (N, n, 4). masks: bool (N, H, W).
    """
    height, width = masks.shape[-2:]
    across = ((corners[..., 0] + corners[..., 2]) / 2).floor().long().clamp(0, width - 1)
    down = ((corners[..., 1] + corners[..., 3]) / 2).floor().long().clamp(0, height - 1)
    return masks.flatten(1).gather(1, down * width + across)


def parse_aim(region: Region, images: torch.Tensor, seeds: Sequence[int] | None) -> Aim:
    """The aim behind a fooling region: a mask, the description of one, a class index or {"class": 3}."""
    if region is None:
        return Aim()
    if isinstance(region, (int, Mapping)):
        description = describe_region(region, "fooling_region")
        if isinstance(description, int):
            return Aim(only=description)
        if description is not None and "class" in description:
            return Aim(only=int(description["class"]))
    return Aim(mask=pixel_mask(region, images, "fooling_region", seeds))


def pixel_mask(region: Region, images: torch.Tensor, name: str, seeds: Sequence[int] | None) -> torch.Tensor | None:
    """A region of pixels as a mask, bool (N, H, W); None for everywhere."""
    no_labels = torch.full((1, 1, 1), -1, dtype=torch.int64, device=images.device)
    return region_mask(region, no_labels.expand(len(images), *images.shape[-2:]), name, seeds)
