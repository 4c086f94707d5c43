"""The call of an attack on a batch: its arguments, and the way to them from any device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch

from gauntlet.errors import GauntletError
from gauntlet.samples import Boxes
from gauntlet.threats.attacks.engine.device import bridge, crosses
from gauntlet.threats.attacks.engine.posing import check_batch
from gauntlet.threats.attacks.engine.regions import Region
from gauntlet.threats.attacks.engine.seeds import expand_seeds
from gauntlet.threats.attacks.engine.targets import Target


class Movable(Protocol):
    """An outcome: what an attack made, on some device."""

    def to(self, device: torch.device) -> Any:
        """The same on another device."""


Made = TypeVar("Made", bound=Movable)


@dataclass(frozen=True)
class BatchCall:
    """The arguments of a call, see `BatchAttack.__call__`, with one seed per image."""

    model: Any
    images: torch.Tensor
    labels: torch.Tensor | Sequence[Boxes]
    target: Target
    region: Region
    fooling_region: Region
    seeds: Sequence[int]
    start: torch.Tensor | None = None

    def select(self, rows: torch.Tensor) -> BatchCall:
        """The call for some of the images."""
        count = len(self.images)
        return BatchCall(
            self.model,
            self.images[rows.to(self.images.device)],
            _part(self.labels, rows, count),
            _part(self.target, rows, count),
            _part(self.region, rows, count),
            _part(self.fooling_region, rows, count),
            [self.seeds[row] for row in rows.tolist()],
            _part(self.start, rows, count),
        )

    def refuse_start(self, name: str) -> None:
        """Raises where a start is given to something that is no single attack."""
        if self.start is not None:
            raise GauntletError(f"'{name}' runs several attacks and has no start; give it to a single attack.")


class BatchAttack(ABC, Generic[Made]):
    """Whatever is called on a model and a batch like an attack: attacks, batteries, rounds of an attack."""

    @abstractmethod
    def attack_batch(self, call: BatchCall) -> Made:
        """Attacks a batch on a device that has float64."""

    def __call__(
        self,
        model: Any,
        images: torch.Tensor,
        labels: torch.Tensor | Sequence[Boxes],
        target: Target = None,
        region: Region = None,
        fooling_region: Region = None,
        seed: int | Sequence[int] = 0,
        start: torch.Tensor | None = None,
    ) -> Made:
        """Attacks a batch; the model is left as it was.

        Args:
            model: any callable from (N, 3, H, W) in [0, 1] to logits (N, K, H, W), or a `DetectionModel`; a module is
                put in eval mode meanwhile.
            images: float32 or float64 (N, 3, H, W) in [0, 1]; the attack works in this type.
            labels: integers (N, H, W), the ignore index counts for nothing; for a detector one `Boxes` per image.
            target: makes the attack targeted: a class index, a label map, K class indices (where each class is to
                go), "least-likely" or {"rank": n}; for a detector see `detection.targets.wanted_boxes`.
            region: pixels that may change, a mask or a description (see `regions`); the others stay bit-identical.
            fooling_region: pixels that the attack aims at and that success is measured on, likewise; or a class. For a
                detector the objects with their centre in it, or of this class.
            seed: one for all images, or one per image. The draws for an image depend on its seed only, never on its
                batch mates or its place in the batch.
            start: images to start from instead of the clean or random start; moved into the allowed set first. For
                single attacks only.

        Where the images' device has no float64, the attack computes on the CPU around the model's passes there
        (see `device`).
        """
        check_batch(images)
        home = images.device if crosses(model, images) else None
        model, images, labels = bridge(model, images, labels)
        seeds = expand_seeds(seed, len(images))
        made = self.attack_batch(BatchCall(model, images, labels, target, region, fooling_region, seeds, start))
        if home is None:
            return made
        moved: Made = made.to(home)
        return moved


def _part(value: Any, rows: torch.Tensor, count: int) -> Any:
    """Rows of an argument that is given per image; anything else as it is.

    A list that holds whole numbers is one value, such as a permutation of classes, even with `count` entries.
    """
    if isinstance(value, (list, tuple)) and len(value) == count and not any(isinstance(each, int) for each in value):
        return [value[row] for row in rows.tolist()]
    if hasattr(value, "ndim") and value.ndim >= 3 and len(value) == count:
        return value[rows.to(value.device)] if isinstance(value, torch.Tensor) else value[rows.numpy()]
    return value
