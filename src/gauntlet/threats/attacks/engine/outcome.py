"""What an attack returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from gauntlet.notebooks import facts_table
from gauntlet.numbers import counted
from gauntlet.pictures.showing import attack_picture, check_index
from gauntlet.samples import Boxes

if TYPE_CHECKING:
    from PIL.Image import Image

# The success share is compared as whole pixels: float32 0.9 against double 0.9 would decide exact ties
# (docs/specs/attacks.md, 0).
_SHARE_SLACK = 1e-9


def reached(fooled: torch.Tensor, counted: torch.Tensor, threshold: float) -> torch.Tensor:
    """Whether n_fooled >= threshold * n_counted, bool (N,); never where nothing counts."""
    return (fooled.double() >= threshold * counted.double() - _SHARE_SLACK) & (counted > 0)


@dataclass(frozen=True)
class Queries:
    """How often the model was asked, per image.

    Attributes:
        forward, backward: int64 (N,).
    """

    forward: torch.Tensor
    backward: torch.Tensor


@dataclass
class Outcome:
    """The images an attack made and what is known about them.

    Attributes:
        images: (N, 3, H, W), the type of the input.
        norms: float64 (N,), size of the perturbation in the attack's own norm; for minimum-perturbation attacks that
            clip to an epsilon it is the size before clipping.
        queries: forward and backward passes per image.
        threshold: share of `counted` from which an image counts as fooled.
        counted: int64 (N,), labelled pixels inside the fooling region; on a detector a fixed number, of which `fooled`
            is the lost share of F1 (see `goals`).
        details: facts per image by name, JSON-able lists of N entries.
        region: bool (N, H, W), the pixels that could change, or None for all.
        unclipped: the images before clipping to epsilon (minimum-perturbation attacks with an epsilon), or None.
        predictions: int64 (N, H, W), the per-pixel worst case of the region-aware attack, or None.
        detections: one `Boxes` per image, the worst case per object of the region-aware attack on a detector, or None.
        rounds: one outcome per round of the region-aware attack.
        judge: from other predictions for the clean images and for those of every round, int64 (N, H, W) each, to their
            worst case per pixel: those of a random model on draws that the region-aware attack has not seen. None for
            other attacks and for detectors.
        originals: (N, 3, H, W), the images before the attack, or None where nobody kept them.
    """

    images: torch.Tensor
    norms: torch.Tensor
    queries: Queries
    threshold: float
    counted: torch.Tensor
    count_fooled: Callable[[], torch.Tensor] = field(repr=False)
    details: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    region: torch.Tensor | None = None
    unclipped: torch.Tensor | None = None
    predictions: torch.Tensor | None = None
    detections: Sequence[Boxes] | None = None
    rounds: Sequence[Outcome] = ()
    originals: torch.Tensor | None = None
    judge: Callable[[Sequence[torch.Tensor]], torch.Tensor] | None = field(default=None, repr=False)

    def to(self, device: torch.device) -> Outcome:
        """The same with everything that is as large as an image on a device."""
        return replace(
            self,
            images=self.images.to(device),
            region=None if self.region is None else self.region.to(device),
            unclipped=None if self.unclipped is None else self.unclipped.to(device),
            predictions=None if self.predictions is None else self.predictions.to(device),
            rounds=tuple(each.to(device) for each in self.rounds),
            originals=None if self.originals is None else self.originals.to(device),
        )

    @cached_property
    def fooled(self) -> torch.Tensor:
        """Counted pixels that the attack won, int64 (N,).

        Attacks that return their last iterate have never evaluated it: the first look at this costs a forward pass.
        """
        return self.count_fooled()

    @cached_property
    def share(self) -> torch.Tensor:
        """Share of the counted pixels that the attack won, float64 (N,); NaN where nothing counts."""
        return self.fooled.double() / self.counted.double()

    @cached_property
    def success(self) -> torch.Tensor:
        """Bool (N,): whether the share reaches the threshold."""
        return reached(self.fooled, self.counted, self.threshold)

    def show(self, index: int = 0) -> Image:
        """A picture: an image, the attacked one, the amplified difference; notebooks draw it, `.save` keeps it."""
        check_index(index, len(self.images))
        return attack_picture(None if self.originals is None else self.originals[index], self.images[index])

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items())
        return f"<{type(self).__name__} of {batch_text(self.images)}: {facts}>"

    def _repr_html_(self) -> str:
        return facts_table(f"{type(self).__name__} of {batch_text(self.images)}", self._facts())

    def _facts(self) -> dict[str, str]:
        """What is known without asking the model."""
        facts = {"norm": _span(self.norms, ".3g"), "passes": _span(self.queries.forward + self.queries.backward, "d")}
        if "fooled" in self.__dict__:  # looked at before
            facts["share won"] = _span(self.share, ".2f")
        return facts


def batch_text(images: torch.Tensor) -> str:
    """How many images (N, 3, H, W) there are, and of which size."""
    height, width = images.shape[2:]
    return f"{counted(len(images), 'image')} of {height} x {width}"


def _span(values: torch.Tensor, form: str) -> str:
    """The smallest and the largest of some values, one where they are written alike."""
    known = values[~torch.isnan(values)].tolist() if values.is_floating_point() else values.tolist()
    ends = list(dict.fromkeys(format(end(known), form) for end in (min, max))) if known else []
    return " to ".join(ends) or "none"
