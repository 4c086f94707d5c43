"""What happens to an image before the model sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import torch

from gauntlet.errors import unknown_name
from gauntlet.metrics.certification import Votes
from gauntlet.models.code_identity import code_of_others
from gauntlet.models.contract import GauntletModel
from gauntlet.models.sources.contract import ModelSource
from gauntlet.notebooks import facts_table
from gauntlet.registry import Registry, callable_as
from gauntlet.samples import Batch, Boxes, Sample
from gauntlet.seeding import ImageSeed
from gauntlet.threats.options import Option, merged
from gauntlet.threats.passes import Passes


class Preparation(Protocol):
    """Makes the passes of a model faster, with the steps that a user names."""

    def __call__(self, model: GauntletModel) -> GauntletModel:
        """The prepared model."""


@dataclass(frozen=True)
class Candidate:
    """What one attack of a battery made of a batch.

    Attributes:
        images: (N, 3, H, W) in [0, 1].
        ran: bool (N,); False where the battery skipped the image because nothing could lower its figure any more.
        samples: as in `Perturbed`.
    """

    images: torch.Tensor
    ran: torch.Tensor
    samples: Sequence[Sample] | None = None


@dataclass(frozen=True)
class Perturbed:
    """What a threat made of a batch.

    Attributes:
        images: (N, 3, H, W) in [0, 1], what the model is to see.
        region: bool (N, H, W), where the threat acted, or None when everywhere.
        covers: whether the region hides what was there (a patch): an object or a detection belongs to it with more
            than half of its area, and not with its centre.
        candidates: one entry per attack of a battery, by name; its figures are worst cases over them, and `images` is
            then the choice by accuracy, for a detector by F1.
        predictions: (N, H, W) label maps that stand in for the model's output where a threat defines one (the
            per-pixel worst case of the region-aware attack), or None; for a detector one `Boxes` per image (its worst
            case per object), for certificates one `Votes` per image.
        details: per-image facts by name (norms, queries, rounds); every list has N entries, JSON-able.
        samples: the N samples as the threat moved them: labels, boxes and depth in the frame of `images`. None where
            the ground truth stays as it is, which is so for all threats but those that move the camera.
    """

    images: torch.Tensor
    region: torch.Tensor | None = None
    covers: bool = False
    candidates: Mapping[str, Candidate] = field(default_factory=dict)
    predictions: torch.Tensor | Sequence[Boxes] | Sequence[Votes] | None = None
    details: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    samples: Sequence[Sample] | None = None

    def truth(self, batch: Batch) -> Sequence[Sample]:
        """The samples whose labels and boxes say what is right on `images`."""
        return batch.samples if self.samples is None else self.samples


class Threat(ABC):
    """A way to perturb a batch. Equal descriptions mean equal work.

    Attributes:
        version: raised whenever the same description gives other images; part of an evaluation's key.
        needs_model: whether `perturb` looks at the model; a threat that does not can run ahead of it.
        one_truth: whether all candidates of an image have the same ground truth.
    """

    version: ClassVar[int] = 1
    needs_model: ClassVar[bool] = True
    one_truth: ClassVar[bool] = True

    @property
    def needs_depth(self) -> bool:
        """Whether it only works on samples with depth."""
        return False

    def check_task(self, task: str) -> None:  # noqa: B027 - most threats are for every task
        """An error where it cannot be used on models of a task, "segmentation" or "detection"."""

    def check_model(self, name: str) -> None:  # noqa: B027 - most threats are for every model
        """An error where it cannot be used on the model of a stored name, told before anything is computed."""

    def check_classes(self, model: GauntletModel | ModelSource) -> None:  # noqa: B027 - most threats are for all classes
        """An error where it cannot be used on a model of such classes, told where they are known without loading it.

        Called after `check_task`.
        """

    def check_size(self, height: int, width: int) -> None:  # noqa: B027 - most threats are for every size
        """An error where it makes no sense on images of a size."""

    def images_per_pass(self, batch_size: int) -> int:
        """How many images of a batch the model is shown at once while it is attacked."""
        return batch_size

    @abstractmethod
    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        """The perturbed batch; the outcome for an image does not depend on its batch mates."""

    def passes(self, task: str = "segmentation") -> Passes:
        """How often the model is asked per image, at most: by `perturb`, and for the figures of what it made.

        Args:
            task: what the model does, "segmentation" or "detection".
        """
        return Passes(forward=1)

    def metric(self) -> tuple[str, dict[str, Any]] | None:
        """Name and further options of the metric that its predictions are counted by; None for the task's own."""
        return None

    @classmethod
    def declared_options(cls) -> Mapping[str, Option]:
        """The options that this kind of threat declares, by name; those of a threat inside it are that one's."""
        return {}

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """A canonical, JSON-able description; `rebuild_threat` makes an equal threat of it."""

    def uses(self) -> str:
        """Digest of code and files that the description only names, "" for none; part of an evaluation's key."""
        return code_of_others(type(self))

    def written(self) -> dict[str, Any]:
        """A description from which another process builds this threat; with addresses where `describe` has digests."""
        return self.describe()

    def with_preparation(self, preparation: Preparation) -> Threat:
        """The same threat, with its own models (a source of transferred images) prepared as a user asks for."""
        return self

    @property
    @abstractmethod
    def name(self) -> str:
        """A short readable name, another one for every description; numbers are told apart by six digits."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"

    def _repr_html_(self) -> str:
        kind, options = next(iter(self.describe().items()))
        facts = {"kind": kind, **(options if isinstance(options, Mapping) else {"": options})}
        return facts_table(self.name, facts)


threats: Registry[Any] = Registry(
    "threat", "gauntlet.threats", check=callable_as("a function that takes the options and returns a Threat")
)
"""Threat kinds by the key that names them in a description ("attack", "corruption", ...); an entry takes the
value under that key and returns a Threat."""


def known_options() -> dict[str, Option]:
    """Every option of every kind of threat, by name; kinds of broken plug-ins have none."""
    return merged(kind.declared_options() for _, kind in threats.items() if hasattr(kind, "declared_options"))


@threats.register("clean")
class Clean(Threat):
    """The image as it is."""

    needs_model = False

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        if options:
            raise unknown_name("option of the threat 'clean'", next(iter(options)), [])

    @property
    def name(self) -> str:
        return "clean"

    def perturb(self, model: GauntletModel, batch: Batch, seeds: Sequence[ImageSeed]) -> Perturbed:
        return Perturbed(batch.images)

    def describe(self) -> dict[str, Any]:
        return {"clean": {}}
